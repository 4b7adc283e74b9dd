#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "apps/serving/requests.h"
#include "apps/serving/step.h"

namespace weft::serving {

// The result of a run of engines in virtual time.
struct Run {
  std::vector<Request> done;  // in the order in which they finished
  double seconds = 0;         // until the last one finished
  std::int64_t preemptions = 0;
  double cache_used = 0;                           // largest share of the cache
  double hit_tokens = 0;                           // of prompts, that were in the prefix cache
  double reloaded_tokens = 0;                      // … that came from a tier below
  double faster_computed_tokens = 0;               // … that were in one, but are computed sooner than read
  Parts decode;                                    // time by parts of iterations that decode only, …
  double decode_seconds = 0, prefill_seconds = 0;  // … and of all iterations of either kind
  double iterations = 0, decode_iterations = 0;
  double batch = 0;  // sequences that decode, on average over iterations
  // An iteration, or several that only decode; of a recorded run.
  struct Sample {
    int engine = 0;
    double begin = 0, end = 0;
    bool reads = false;
    std::int64_t waiting = 0, running = 0;  // requests
    double used = 0;                        // share of the cache
  };
  std::vector<Sample> samples;
};

// A tier of memory below the GPUs' own: tokens of one engine that it holds, and the seconds to read some of them.
struct LowerTier {
  double tokens = 0;
  std::function<Result<double>(double tokens)> reload;
};

// The place of a prompt's blocks in the prefixes.
struct Blocks {
  std::uint64_t first = 0;
  std::uint32_t count = 0;
};

// One engine: continuous batching by iterations. Each takes the running sequences' next tokens first, then as much of
// waiting prompts as the token budget and the cache leave (an engine that does not mix takes prompts alone, first).
// A sequence whose next token has no room is preempted: the last one to start, of those with the lowest priority, goes
// back to the queue and is computed again; an engine that does not evict starts a request only where all its tokens
// will have room. Sequences are kept by the iteration in which they finish, so an iteration costs the same for any
// batch, and iterations that only decode are taken together until something else happens. An engine that schedules an
// iteration while the one before runs takes what comes meanwhile into the iteration after that. With drafts each
// iteration gives every sequence the mean number of tokens.
class Scheduler {
 public:
  // `tokens`: that the cache holds, of all replicas. Requires: > 0.
  Scheduler(StepModel& step, double tokens) : step_(step), tokens_(tokens) {}
  // From here on it keeps blocks of prompts. `prefixes` must outlive it.
  void keep(const Prefixes& prefixes, kv::Policy policy) { cache_.emplace(prefixes, policy, tokens_); }
  // Requires: keep(). Blocks that the GPUs give up stay in `tier`, which must outlive it: a prompt's next blocks are
  // read from there where that is faster than computing them, while others are served. Several: the nearest first.
  void keep_below(const Prefixes& prefixes, kv::Policy policy, const LowerTier& tier) {
    below_.push_back({PrefixCache(prefixes, policy, tier.tokens), &tier});
  }
  // Tokens of a prompt's blocks that it has; of prompts that are not read yet; of the cache that are in use.
  double known(Blocks blocks) const {
    return cache_ ? shared(cache_->known(cache_->of(blocks.first, blocks.count))) : 0;
  }
  double pending() const { return pending_; }
  double held() const { return held_ + leased(); }

  // Puts a request into the queue; its prompt is computed already when `ready`.
  // `priority`: lower goes first, in the order of arrival where it is the same.
  void add(std::int64_t id, std::int64_t input, std::int64_t output, bool ready = false, Blocks blocks = {},
           int priority = 0);
  bool idle() const { return incoming_.empty() && waiting_.empty() && reading_.empty() && decoding_.empty(); }

  struct Event {
    std::int64_t id;
    double time;
  };
  struct Outcome {
    double end = 0;                               // of the iterations that were taken
    std::vector<Event> started, first, finished;  // prompts begun, first tokens, last tokens
  };
  // One iteration from `now` on, or several that only decode, at most `most` and none that begins after
  // `until`. Errors: those of
  // StepModel; a request that the empty cache cannot hold.
  Result<Outcome> advance(double now, double until, double most = 1e9);

  std::int64_t preemptions() const { return preemptions_; }
  double cache_used() const { return most_ / tokens_; }
  // The last iteration read prompts; requests that wait or are being read; share of the cache in use.
  bool reads() const { return read_; }
  std::int64_t waiting() const { return std::ssize(incoming_) + std::ssize(waiting_) + std::ssize(reading_); }
  double used() const { return (held_ + leased()) / tokens_; }
  std::int64_t running() const { return std::ssize(decoding_); }
  void account(Run& run) const;

 private:
  struct Prompt {
    std::int64_t id, tokens, left, output;  // tokens to compute, of them not yet; tokens still to make
    bool ready = false;
    Blocks blocks = {};
    std::uint32_t hits = 0;  // of its blocks, that were there
    double ready_at = 0;     // s; its blocks from a lower tier are there
    std::int64_t from = 0;   // the first iteration that it can be in
    int priority = 0;
  };
  struct Sequence {
    std::int64_t id, length, output, born;  // length at `born`, the iteration of its first token here
    Blocks blocks = {};
    int priority = 0;
  };
  struct Below {
    PrefixCache cache;
    const LowerTier* tier;
  };
  Status start(Prompt& prompt, double now, Outcome& out);
  Status reload(Prompt& prompt, double now);
  // When the next prompt's blocks have come from a lower tier; infinity: none comes.
  double next_reload(double now) const;
  void join(const Prompt& prompt, std::int64_t left);
  void leave(Blocks blocks, double length, std::int64_t promised);
  bool has_room(const Prompt& prompt) const;
  bool batch_is_full() const;
  // Tokens of blocks that requests share with the cache.
  double shared(std::uint32_t blocks) const {
    return cache_ ? static_cast<double>(blocks * cache_->block_tokens()) : 0;
  }
  double leased() const { return cache_ ? cache_->leased() : 0; }
  // Tokens that iterations give each sequence; iterations that give it as many.
  double gives(double iterations) const { return iterations * step_.engine().tokens_per_step(); }
  std::int64_t takes(std::int64_t tokens) const {
    return std::max<std::int64_t>(1, std::llround(std::ceil(static_cast<double>(tokens) / gives(1) - 1e-9)));
  }
  void decode_for(double iterations, double now, Outcome& out);
  void preempt();
  std::int64_t interval() const {
    return running() >= 16 ? step_.engine().receive_interval : step_.engine().receive_interval_few;
  }
  Result<bool> take_prompts(Work& work, std::vector<Prompt>& complete, double now, Outcome& out);

  StepModel& step_;
  double tokens_;
  std::deque<Prompt> incoming_, waiting_, reading_;  // not looked at yet; in the queue; begun
  std::multimap<std::int64_t, Sequence> decoding_;   // by the iteration in which they finish
  std::int64_t iteration_ = 0;                       // of decoding
  double context_ = 0;                               // cached tokens of sequences that decode
  double held_ = 0, most_ = 0;                       // tokens of the cache in use, beside leased blocks
  std::optional<PrefixCache> cache_;
  std::vector<Below> below_;
  double hit_tokens_ = 0, reloaded_ = 0, faster_computed_ = 0;
  double pending_ = 0;   // tokens of prompts that are not computed yet
  double promised_ = 0;  // … and what those that have begun will use at their ends
  bool read_ = false;    // the iteration before read prompts
  std::int64_t preemptions_ = 0;
  std::int64_t look_ = 0;  // the iteration in which new requests are looked for next
  Parts decode_parts_;
  double decode_seconds_ = 0, prefill_seconds_ = 0, iterations_ = 0, decode_iterations_ = 0, batch_ = 0;
};

// Serves a load on one engine. Errors: those of Scheduler.
Result<Run> serve(StepModel& step, double cache_tokens, const Load& load);

// Serves it on `prefills` engines that compute prompts and `decodes` engines that take over with their caches, which
// take `move(tokens)` seconds to cross.
struct Pools {
  StepModel* prefill = nullptr;
  StepModel* decode = nullptr;
  int prefills = 1, decodes = 1;
  double prefill_tokens = 0, decode_tokens = 0;  // that the cache of one engine holds
  std::function<Result<double>(double tokens)> move;
  bool record = false;                // samples of the run
  std::vector<LowerTier> below = {};  // of each engine
};
Result<Run> serve_apart(const Pools& pools, const Load& load);

}  // namespace weft::serving
