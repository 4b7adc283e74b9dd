#include "apps/serving/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

namespace weft::serving {
namespace {

double d(std::int64_t n) { return static_cast<double>(n); }
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

void Scheduler::add(std::int64_t id, std::int64_t input, std::int64_t output, bool ready, Blocks blocks, int priority) {
  if (idle()) read_ = false;
  if (!ready) pending_ += d(input);
  const bool scheduled = step_.engine().overlapped && running() > 0;  // the next iteration is already
  incoming_.push_back(
      {id, input, ready ? 0 : input, output, ready, blocks, 0, 0, iteration_ + (scheduled ? 1 : 0), priority});
}

bool Scheduler::batch_is_full() const {
  const std::int64_t most = step_.engine().most_sequences * step_.plan().dp;
  return most > 0 && running() + std::ssize(reading_) >= most;
}

bool Scheduler::has_room(const Prompt& p) const {
  const double others = leased();
  if (!step_.engine().evicts) return promised_ + others + d(p.tokens + p.output) <= tokens_;
  return held_ + others + d(p.tokens) + gives(d(running())) + 1 <= tokens_;
}

// The next blocks behind those that the GPUs have, from the first tier that has some: read or computed, whichever ends
// first. Other sequences go on meanwhile.
Status Scheduler::reload(Prompt& p, double now) {
  const auto blocks = cache_->of(p.blocks.first, p.blocks.count);
  for (const Below& below : below_) {
    const std::uint32_t found = below.cache.known(blocks, p.hits);
    const double past = d(p.tokens - p.left), tokens = std::min(shared(found), d(p.left - 1));
    if (found == 0 || tokens < 1) continue;
    WEFT_TRY(const double reading, below.tier->reload(tokens));
    WEFT_TRY(const Parts computing,
             step_({.prefills = 1, .prefill_tokens = tokens, .prefill_past = past, .outputs = 0}));
    if (reading >= computing.total()) {
      faster_computed_ += tokens;
      return {};
    }
    p.left -= static_cast<std::int64_t>(tokens), p.ready_at = now + reading;
    pending_ -= tokens, reloaded_ += tokens;
    return {};
  }
  return {};
}

double Scheduler::next_reload(double now) const {
  double next = kNever;
  for (const Prompt& p : reading_)
    if (p.ready_at > now) next = std::min(next, p.ready_at);
  return next;
}

// The longest prefix that is in the cache is not computed again, but for the last token, whose output is needed.
Status Scheduler::start(Prompt& p, double now, Outcome& out) {
  if (cache_ && !p.ready && p.blocks.count > 0) {
    p.hits = cache_->begin(cache_->of(p.blocks.first, p.blocks.count));
    const auto known = std::min(p.tokens - 1, static_cast<std::int64_t>(shared(p.hits)));
    pending_ -= d(p.left - (p.tokens - known));
    p.left = p.tokens - known;
    hit_tokens_ += d(known);
    WEFT_CHECK(reload(p, now));
  }
  const double own = d(p.tokens) - shared(p.hits);
  held_ += own, promised_ += own + d(p.output);
  if (cache_) cache_->trim(held_);
  out.started.push_back({p.id, now});
  return {};
}

// Its prompt is computed: `left` tokens of it are still to be made. Its whole blocks belong to the cache from here on.
void Scheduler::join(const Prompt& p, std::int64_t left) {
  Blocks blocks = p.ready || !cache_ ? Blocks{} : p.blocks;
  if (blocks.count > 0) {
    const auto all = cache_->of(blocks.first, blocks.count);
    cache_->computed(all, p.hits);
    for (Below& below : below_) {
      below.cache.computed(all, blocks.count);  // nothing is leased there
      below.cache.trim(0);
    }
    const double given = shared(blocks.count) - shared(p.hits);
    held_ -= given, promised_ -= given;
  }
  if (left < 1) return leave(blocks, d(p.tokens), p.tokens + p.output);
  promised_ -= d(p.output - left);
  decoding_.emplace(iteration_ + takes(left), Sequence{p.id, p.tokens, left, iteration_, blocks, p.priority});
  context_ += d(p.tokens);
}

// A sequence of `length` tokens gives back what it held, and `promised` tokens at its end.
void Scheduler::leave(Blocks blocks, double length, std::int64_t promised) {
  if (blocks.count > 0) cache_->end(cache_->of(blocks.first, blocks.count));
  const double in_blocks = shared(blocks.count);
  held_ -= length - in_blocks, promised_ -= d(promised) - in_blocks;
}

// The last sequence to start computes again later what it had.
void Scheduler::preempt() {
  auto last = decoding_.begin();
  for (auto at = decoding_.begin(); at != decoding_.end(); ++at)
    if (std::pair(at->second.priority, at->second.born) >= std::pair(last->second.priority, last->second.born))
      last = at;
  const Sequence s = last->second;
  const double made = gives(d(iteration_ - s.born));
  context_ -= d(s.length) + made;
  leave(s.blocks, d(s.length) + made, s.length + s.output);
  const std::int64_t whole = std::min(s.output - 1, static_cast<std::int64_t>(std::llround(made)));
  pending_ += d(s.length + whole);
  Prompt again{s.id, s.length + whole, s.length + whole, s.output - whole, false, s.blocks};
  again.priority = s.priority;
  waiting_.insert(std::ranges::lower_bound(waiting_, s.priority, {}, &Prompt::priority), again);
  decoding_.erase(last);
  ++preemptions_;
}

// Takes what fits of prompts into the iteration. True: something was taken.
Result<bool> Scheduler::take_prompts(Work& work, std::vector<Prompt>& complete, double now, Outcome& out) {
  const Engine& engine = step_.engine();
  const double stages = d(step_.plan().pp), replicas = d(step_.plan().dp);  // each works on a batch of its own
  double budget = engine.token_budget * replicas * stages - (engine.mixed ? d(running()) : 0);
  const double own = std::max(1.0, budget / replicas);  // of the replica that reads a prompt
  bool taken = false;
  const auto read = [&](Prompt& p) {
    const double tokens = std::floor(std::min({budget, own, d(p.left)}));
    const double chunks = std::min(stages, std::ceil(tokens * stages / own));
    work.prefills += chunks;
    work.prefill_tokens += tokens;
    work.prefill_past += chunks * d(p.tokens - p.left) + tokens * (chunks - 1) / 2;
    if (!read_) work.behind = std::max(work.behind, chunks - 1);
    p.left -= static_cast<std::int64_t>(tokens);
    pending_ -= tokens;
    budget -= tokens;
    taken = true;
  };
  for (Prompt& p : reading_)
    if (budget >= 1 && p.ready_at <= now) read(p);
  // Looks are `interval` iterations of decoding apart, and follow each that read prompts.
  if (iteration_ > look_ && interval() > 1) look_ += (iteration_ - look_ + interval() - 1) / interval() * interval();
  if (running() == 0 || interval() <= 1 || read_ || iteration_ == look_) {
    while (!incoming_.empty() && (running() == 0 || incoming_.front().from <= iteration_)) {
      const Prompt& p = incoming_.front();
      waiting_.insert(std::ranges::upper_bound(waiting_, p.priority, {}, &Prompt::priority), p);
      incoming_.pop_front();
    }
    look_ = iteration_ + interval();
  }
  while (!waiting_.empty() &&
         (replicas > 1 || reading_.empty() || reading_.back().left == 0 || reading_.back().ready_at > now)) {
    Prompt p = waiting_.front();
    if (!p.ready && budget < 1) break;
    if (batch_is_full() || !has_room(p)) break;
    waiting_.pop_front();
    WEFT_CHECK(start(p, now, out));
    if (!p.ready && p.ready_at <= now) read(p);
    if (p.ready_at > now) taken = true;
    if (p.ready) taken = true;
    reading_.push_back(p);
  }
  for (auto p = reading_.begin(); p != reading_.end();)
    if (p->left == 0)
      complete.push_back(*p), p = reading_.erase(p);
    else
      ++p;
  return taken;
}

void Scheduler::decode_for(double iterations, double end, Outcome& out) {
  iteration_ += static_cast<std::int64_t>(iterations);
  const double added = gives(iterations) * d(running());
  context_ += added, held_ += added;
  most_ = std::max(most_, held_ + leased());
  if (cache_) cache_->trim(held_);
  while (!decoding_.empty() && decoding_.begin()->first <= iteration_) {
    const Sequence& s = decoding_.begin()->second;
    const double length = d(s.length) + gives(d(iteration_ - s.born));
    context_ -= length;
    leave(s.blocks, length, s.length + s.output);
    out.finished.push_back({s.id, end});
    decoding_.erase(decoding_.begin());
  }
}

Result<Scheduler::Outcome> Scheduler::advance(double now, double until, double most) {
  Outcome out{.end = now};
  while (held_ + leased() + gives(d(running())) > tokens_ && running() > 1) preempt();
  std::vector<Prompt> complete;
  Work work;
  WEFT_TRY(const bool taken, take_prompts(work, complete, now, out));
  const double coming = next_reload(now);
  // Sequences that come with their caches join without any work.
  for (const Prompt& p : complete)
    if (p.ready) join(p, p.output);
  std::erase_if(complete, [](const Prompt& p) { return p.ready; });
  const bool decodes = running() > 0 && (step_.engine().mixed || work.prefills == 0);
  if (!decodes && work.prefills == 0) {
    if (coming < kNever) {  // nothing to do until a prompt's blocks have come
      out.end = coming;
      return out;
    }
    if (!taken && !waiting_.empty())
      return bad_input("a request of {} tokens does not fit into a cache of {:.0f} tokens",
                       waiting_.front().tokens + (step_.engine().evicts ? 0 : waiting_.front().output), tokens_);
    return out;
  }
  if (decodes) work.decodes = d(running()), work.context = context_;
  work.outputs = work.decodes + d(std::ssize(complete));
  WEFT_TRY(Parts parts, step_(work));
  read_ = work.prefills > 0;
  if (work.prefills > 0) {
    out.end = now + parts.total();
    prefill_seconds_ += parts.total();
    iterations_ += 1;
    if (decodes) batch_ += work.decodes, decode_for(1, out.end, out);
    for (const Prompt& p : complete) {
      out.first.push_back({p.id, out.end});
      join(p, p.output - 1);
      if (p.output <= 1) out.finished.push_back({p.id, out.end});
    }
    most_ = std::max(most_, held_ + leased());
    if (cache_) cache_->trim(held_);
    return out;
  }
  until = std::min(until, coming);
  // Decoding alone: until a sequence finishes, the cache is full or `until` has come, at most.
  double n = d(decoding_.begin()->first - iteration_);
  n = std::min(n, std::max(1.0, std::floor((tokens_ - held_ - leased()) / gives(work.decodes))));
  n = std::min(n, most);
  if (!incoming_.empty())
    n = std::min(
        n, d(std::max<std::int64_t>(1, std::max(interval() > 1 ? look_ : 0, incoming_.front().from) - iteration_)));
  double each = parts.total();
  if (n > 1) {
    Work last = work;
    last.context += gives((n - 1) * work.decodes);
    WEFT_TRY(const Parts then, step_(last));
    each = (parts.total() + then.total()) / 2;
    if (until < kNever && now + n * each > until) {
      n = std::clamp(std::ceil((until - now) / each), 1.0, n);
      last.context = work.context + gives((n - 1) * work.decodes);
      WEFT_TRY(const Parts sooner, step_(last));
      each = (parts.total() + sooner.total()) / 2;
      parts += sooner;
      parts = parts * 0.5;
    } else {
      parts += then;
      parts = parts * 0.5;
    }
  }
  out.end = now + n * each;
  decode_seconds_ += n * each, iterations_ += n, decode_iterations_ += n;
  batch_ += n * work.decodes;
  decode_parts_ += parts * n;
  decode_for(n, out.end, out);
  return out;
}

void Scheduler::account(Run& run) const {
  run.preemptions += preemptions_;
  run.hit_tokens += hit_tokens_;
  run.reloaded_tokens += reloaded_, run.faster_computed_tokens += faster_computed_;
  run.cache_used = std::max(run.cache_used, cache_used());
  run.decode += decode_parts_;
  run.decode_seconds += decode_seconds_, run.prefill_seconds += prefill_seconds_;
  run.iterations += iterations_, run.decode_iterations += decode_iterations_;
  run.batch += batch_;
}

Result<Run> serve(StepModel& step, double cache_tokens, const Load& load) {
  return serve_apart({.decode = &step, .prefills = 0, .decodes = 1, .decode_tokens = cache_tokens}, load);
}

namespace {

// Engines side by side in virtual time, requests between them.
class Cluster {
 public:
  Cluster(const Pools& pools, const Load& load) : pools_(pools), load_(load), source_(load) {
    for (int i = 0; i < pools.prefills; ++i) engines_.push_back({Scheduler(*pools.prefill, pools.prefill_tokens)});
    for (int i = 0; i < pools.decodes; ++i) engines_.push_back({Scheduler(*pools.decode, pools.decode_tokens)});
    if (load.prefixes && load.policy)
      for (Running& e : engines_) {
        e.scheduler.keep(*load.prefixes, *load.policy);
        for (const LowerTier& tier : pools.below) e.scheduler.keep_below(*load.prefixes, *load.policy, tier);
      }
    requests_.reserve(static_cast<std::size_t>(source_.count()));
  }

  Result<Run> run() {
    const bool closed = load_.concurrency > 0;
    if (closed)
      for (std::int64_t i = 0; i < load_.concurrency && i < source_.count(); ++i) asking_.push(0);
    for (;;) {
      // The engine that is free first, or the next arrival.
      double now = kNever;
      std::size_t next = 0;
      for (std::size_t e = 0; e < engines_.size(); ++e)
        if (!engines_[e].scheduler.idle() && engines_[e].free < now) now = engines_[e].free, next = e;
      const double arrival = !source_.more()   ? kNever
                             : !closed         ? source_.next_arrival()
                             : asking_.empty() ? kNever
                                               : asking_.top();
      const double moved = moving_.empty() ? kNever : moving_.top().first;
      if (now == kNever && arrival == kNever && moved == kNever) break;
      if (arrival <= now && arrival <= moved) {
        if (closed) asking_.pop();
        arrive(arrival);
        continue;
      }
      if (moved <= now) {
        const std::int64_t id = moving_.top().second;
        moving_.pop();
        const Request& r = requests_[static_cast<std::size_t>(id)];
        give(decode_engine(), id, r.input + 1, r.output - 1, moved, true, {}, r.priority);
        continue;
      }
      // Engines beside this one may send it requests: it does not run far ahead of them.
      // A cache that is not on its way yet leaves a prefill engine after that engine's next iteration at the earliest.
      double until = std::min(arrival, moved);
      if (apart() && next >= prefill_engines())
        for (std::size_t e = 0; e < prefill_engines(); ++e)
          if (!engines_[e].scheduler.idle()) until = std::min(until, engines_[e].free);
      WEFT_CHECK(step(next, now, until));
    }
    run_.seconds = 0;
    for (const Request& r : run_.done) run_.seconds = std::max(run_.seconds, r.finished);
    for (const auto& e : engines_) e.scheduler.account(run_);
    if (run_.iterations > 0) run_.batch /= run_.iterations;
    return std::move(run_);
  }

 private:
  struct Running {
    Scheduler scheduler;
    double free = 0;
    std::int64_t load = 0;  // requests that it has
  };
  bool apart() const { return pools_.prefills > 0; }
  std::size_t prefill_engines() const { return static_cast<std::size_t>(pools_.prefills); }

  // The engine with the fewest requests of those from `begin` to `end`.
  std::size_t least(std::size_t begin, std::size_t end) const {
    std::size_t best = begin;
    for (std::size_t e = begin; e < end; ++e)
      if (engines_[e].load < engines_[best].load) best = e;
    return best;
  }
  std::size_t decode_engine() const { return least(prefill_engines(), engines_.size()); }
  // The engine of those from `begin` to `end` that a new request goes to.
  std::size_t route(std::size_t begin, std::size_t end, const Request& r) {
    const Router router = load_.router.value_or(Router::kFewest);
    if (router == Router::kRoundRobin) return begin + turn_++ % (end - begin);
    if (router == Router::kFewest) return least(begin, end);
    const auto work = [&](const Running& e) {
      return d(r.input) - e.scheduler.known({r.first_block, r.blocks}) + e.scheduler.pending() + e.scheduler.held();
    };
    std::size_t best = begin;
    double fewest = kNever;
    for (std::size_t e = begin; e < end; ++e)
      if (const double tokens = work(engines_[e]); tokens < fewest) best = e, fewest = tokens;
    return best;
  }

  void give(std::size_t engine, std::int64_t id, std::int64_t input, std::int64_t output, double now, bool ready,
            Blocks blocks, int priority) {
    Running& e = engines_[engine];
    if (e.scheduler.idle()) e.free = std::max(e.free, now);
    ++e.load;
    e.scheduler.add(id, input, output, ready, blocks, priority);
  }
  void arrive(double now) {
    Request r = source_.next(now);
    const auto id = std::ssize(requests_);
    requests_.push_back(r);
    // A prefill engine makes the first token; the others are made where the cache goes.
    if (apart())
      give(route(0, prefill_engines(), r), id, r.input, 1, now, false, {r.first_block, r.blocks}, r.priority);
    else
      give(route(0, engines_.size(), r), id, r.input, r.output, now, false, {r.first_block, r.blocks}, r.priority);
  }
  void finish(std::int64_t id, double time) {
    Request& r = requests_[static_cast<std::size_t>(id)];
    r.finished = time;
    run_.done.push_back(r);
    if (load_.concurrency > 0) asking_.push(time);
  }
  Status step(std::size_t engine, double now, double until) {
    Running& e = engines_[engine];
    const bool reads = apart() && engine < prefill_engines();
    WEFT_TRY(const Scheduler::Outcome out, e.scheduler.advance(now, until, engines_.size() > 1 ? kAhead : 1e9));
    e.free = out.end;
    if (pools_.record && out.end > now)
      run_.samples.push_back({static_cast<int>(engine), now, out.end, e.scheduler.reads(), e.scheduler.waiting(),
                              e.scheduler.running(), e.scheduler.used()});
    for (const auto& s : out.started)
      if (Request& r = requests_[static_cast<std::size_t>(s.id)]; r.started < 0) r.started = s.time;
    for (const auto& f : out.first) {
      Request& r = requests_[static_cast<std::size_t>(f.id)];
      if (r.prefilled < 0) r.prefilled = f.time;
      if (!reads && r.first < 0) r.first = f.time;
    }
    for (const auto& f : out.finished) {
      --e.load;
      if (!reads) {
        finish(f.id, f.time);
        continue;
      }
      Request& r = requests_[static_cast<std::size_t>(f.id)];
      WEFT_TRY(r.moved, pools_.move(d(r.input)));
      r.first = f.time + r.moved;
      if (r.output <= 1)
        finish(f.id, r.first);
      else
        moving_.emplace(r.first, f.id);
    }
    return {};
  }

  static constexpr double kAhead = 16;  // iterations
  const Pools& pools_;
  const Load& load_;
  Source source_;
  std::vector<Running> engines_;
  std::size_t turn_ = 0;  // of a router that takes engines in turn
  std::vector<Request> requests_;
  std::priority_queue<std::pair<double, std::int64_t>, std::vector<std::pair<double, std::int64_t>>, std::greater<>>
      moving_;
  std::priority_queue<double, std::vector<double>, std::greater<>> asking_;  // when clients ask again
  Run run_;
};

}  // namespace

Result<Run> serve_apart(const Pools& pools, const Load& load) { return Cluster(pools, load).run(); }

}  // namespace weft::serving
