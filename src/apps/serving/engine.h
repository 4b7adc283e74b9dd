#pragma once

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "apps/serving/requests.h"
#include "apps/serving/step.h"

namespace weft::serving {

// What a run of engines in virtual time found.
struct Run {
  std::vector<Request> done;  // in the order in which they finished
  double seconds = 0;         // until the last one finished
  std::int64_t preemptions = 0;
  double cache_used = 0;                           // largest share of the cache
  Parts decode;                                    // time by parts of iterations that decode only, …
  double decode_seconds = 0, prefill_seconds = 0;  // … and of all iterations of either kind
  double iterations = 0, decode_iterations = 0;
  double batch = 0;  // sequences that decode, on average over iterations
};

// One engine: continuous batching by iterations. Each takes the running sequences' next tokens first, then as much of
// waiting prompts as the token budget and the cache leave (an engine that does not mix takes prompts alone, first).
// A sequence whose next token has no room is preempted: the last one to start goes back to the queue and is computed
// again. Sequences are kept by the iteration in which they finish, so an iteration costs the same for any batch, and
// iterations that only decode are taken together until something else happens.
class Scheduler {
 public:
  // `tokens`: that the cache holds, of all replicas. Requires: > 0.
  Scheduler(StepModel& step, double tokens) : step_(step), tokens_(tokens) {}

  // Puts a request into the queue; its prompt is computed already when `ready`.
  void add(std::int64_t id, std::int64_t input, std::int64_t output, double now, bool ready = false);
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
  double held() const { return held_; }
  std::int64_t running() const { return std::ssize(decoding_); }
  void account(Run& run) const;

 private:
  struct Prompt {
    std::int64_t id, tokens, left, output;  // tokens to compute, of them not yet; tokens still to make
    bool ready = false;
  };
  struct Sequence {
    std::int64_t id, length, output, born;  // length at `born`, the iteration of its first token here
  };
  void decode_for(double iterations, double now, Outcome& out);
  void preempt();
  std::int64_t interval() const {
    return running() >= 16 ? step_.engine().receive_interval : step_.engine().receive_interval_few;
  }
  bool take_prompts(Work& work, std::vector<Prompt>& complete, double now, Outcome& out);

  StepModel& step_;
  double tokens_;
  std::deque<Prompt> incoming_, waiting_, reading_;  // not looked at yet; in the queue; begun
  std::multimap<std::int64_t, Sequence> decoding_;   // by the iteration in which they finish
  std::int64_t iteration_ = 0;                       // of decoding
  double context_ = 0;                               // cached tokens of sequences that decode
  double held_ = 0, most_ = 0;                       // tokens of the cache in use
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
};
Result<Run> serve_apart(const Pools& pools, const Load& load);

}  // namespace weft::serving
