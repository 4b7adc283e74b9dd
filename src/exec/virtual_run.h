#pragma once

#include <algorithm>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "exec/own_signals.h"
#include "plan/schedule/lower/lower.h"

namespace weft::exec {

// A collective in virtual time, on as many of a fabric's ranks as it has, from plan.first on.
struct VirtualJob {
  schedule::Task task;
  schedule::Plan plan;
  // So many one after the other; a rank starts its next one when it has finished the last, whatever the others do.
  // 0: again and again until the first job has ended.
  int calls = 1;
  int service = 0;  // class of what its ranks send, where the fabric distinguishes classes
};

// Runs jobs on the ranks that a virtual-time fabric simulates, with the same interpreter as everywhere. Lazy:
// schedules are generated step by step, so thousands of ranks need kilobytes each.
template <class Fabric, class Trace>
class VirtualRun {
 public:
  // `jobs` must outlive this. Requires: no rank has two jobs; one job only, from rank 0 on, where ranks are folded.
  VirtualRun(Fabric& fabric, std::span<const VirtualJob> jobs, Trace& trace) : fabric_(fabric), trace_(trace) {
    ranks_.resize(static_cast<std::size_t>(fabric.representatives()));
    const bool data = fabric.endpoint(0).capabilities().moves_data;
    using schedule::LoweringContext;
    for (const VirtualJob& job : jobs)
      contexts_.emplace_back(job.task, job.plan, data ? LoweringContext::For::kData : LoweringContext::For::kTime);
    main_ = jobs.data();
    for (const VirtualJob& job : jobs) {
      const Rank end = std::min(job.plan.first + job.task.ranks, fabric.representatives());
      for (Rank r = job.plan.first; r < end; ++r) {
        RankState& rank = ranks_[static_cast<std::size_t>(r)];
        rank = {.job = &job, .first_strand = strands_.size(), .calls_left = job.calls > 0 ? job.calls - 1 : -1};
        for (int s = 0; s < strands_of(job); ++s) strands_.push_back(strand_of(r, s));
      }
    }
    most_begun_.assign(jobs.size(), 1);
    main_left_ = std::min(main_->task.ranks, fabric.representatives()) - main_->plan.first;
  }

  Result<Duration> run() {
    auto elapsed = fabric_.run([&](Rank r, int s) { resume(r, s); });
    if (!elapsed && elapsed.error().code == Code::kNoResources) {  // too long: what is known by then
      std::int64_t posted = 0;
      for (const Strand& strand : strands_) posted += strand.posted();
      elapsed.error().message += fmt::format("; {} operations were under way or done, {} of {} strands had finished",
                                             posted, finished_, strands_.size());
    }
    if (!elapsed) return elapsed;
    if (finished_ != static_cast<std::int64_t>(strands_.size()))
      return failure(Code::kInternal, Blame::kOperation, "{} of {} strands are stuck",
                     static_cast<std::int64_t>(strands_.size()) - finished_, strands_.size());
    return elapsed;
  }
  // When the first job had ended on all ranks.
  Duration main_ended() const { return main_ended_; }

 private:
  using Strand = Interpreter<typename Fabric::Endpoint, schedule::StrandStream, Trace>;
  struct RankState {
    const VirtualJob* job = nullptr;  // null: the rank is idle
    std::size_t first_strand = 0;     // of this rank, in strands_
    int calls_left = 0;               // below 0: until the first job has ended
    int begun = 1;                    // calls
    int finished = 0;                 // strands
    bool began = false;               // this call's kernel
    OwnSignals own = {};
  };

  static int strands_of(const VirtualJob& job) { return job.plan.channels * job.plan.algorithm->lanes; }
  RankState& state(Rank r) { return ranks_[static_cast<std::size_t>(r)]; }
  Strand& at(Rank r, int s) { return strands_[state(r).first_strand + static_cast<std::size_t>(s)]; }
  Strand strand_of(Rank r, int s) {
    const VirtualJob& job = *state(r).job;
    return Strand(s, schedule::StrandStream(contexts_[index_of(job)], r - job.plan.first, s), &state(r).own);
  }

  void resume(Rank r, int s) {
    const VirtualJob* job = state(r).job;
    if (job == nullptr || s >= strands_of(*job)) return;
    if (!std::exchange(state(r).began, true)) fabric_.hold(r, job->plan.channels);
    const OwnSignals& signals = state(r).own;
    std::int64_t seen = signals.sent();
    advance(r, s);
    while (seen != signals.sent()) {  // no fabric wakes strands that wait for strands of their own rank
      seen = signals.sent();
      for (int other = 0; other < strands_of(*job); ++other)
        if (const auto* operation = at(r, other).current(); operation != nullptr && operation->own()) advance(r, other);
    }
  }

  void advance(Rank r, int s) {
    Strand& strand = at(r, s);
    if (strand.done() || strand.advance(fabric_.endpoint(r), trace_) != Progress::kDone) return;
    ++finished_;
    RankState& rank = state(r);
    if (channel_done(r, s)) fabric_.hold(r, -1);
    if (++rank.finished < strands_of(*rank.job)) return;
    // A call that one rank has begun is made by all.
    const bool endless = rank.calls_left < 0 && (main_left_ > 0 || rank.begun < most_begun(rank));
    if (rank.calls_left > 0 || endless) return call_again(r);
    if (rank.job == main_ && --main_left_ == 0) main_ended_ = fabric_.now();
  }

  // Has the last lane of the strand's channel finished, so that the channel's block ends?
  bool channel_done(Rank r, int s) {
    const int lanes = state(r).job->plan.algorithm->lanes, first = s - s % lanes;
    for (int lane = 0; lane < lanes; ++lane)
      if (!at(r, first + lane).done()) return false;
    return true;
  }

  void call_again(Rank r) {
    RankState& rank = state(r);
    if (rank.calls_left > 0) --rank.calls_left;
    most_begun(rank) = std::max(most_begun(rank), ++rank.begun);
    finished_ -= rank.finished;
    rank.finished = 0;
    rank.began = false;
    for (int s = 0; s < strands_of(*rank.job); ++s) {
      at(r, s) = strand_of(r, s);
      fabric_.resume_after(r, s, fabric_.launch_time());
    }
  }

  std::size_t index_of(const VirtualJob& job) const { return static_cast<std::size_t>(&job - main_); }
  int& most_begun(const RankState& rank) { return most_begun_[index_of(*rank.job)]; }

  Fabric& fabric_;
  Trace& trace_;
  std::deque<schedule::LoweringContext> contexts_;  // of the jobs
  std::vector<RankState> ranks_;
  std::vector<Strand> strands_;
  const VirtualJob* main_ = nullptr;
  std::vector<int> most_begun_;  // by job: the most calls that one of its ranks has begun
  Rank main_left_ = 0;           // ranks on which the first job has not ended
  Duration main_ended_;
  std::int64_t finished_ = 0;
};

// One collective on all ranks. `call_of(rank)`: the rank's memories (may be empty where the fabric moves no data).
// Returns the virtual time until the last strand has finished, or all `calls` of them. Errors: the fabric's; kInternal
// if strands are stuck (a schedule that verify() rejects).
template <class Fabric, class CallOf, class Trace = NoTrace>
Result<Duration> run_virtually(Fabric& fabric, const schedule::Task& task, const schedule::Plan& plan, CallOf&& call_of,
                               Trace&& trace = {}, int calls = 1) {
  for (Rank r = 0; r < fabric.representatives(); ++r) fabric.endpoint(r).begin(call_of(r));
  const VirtualJob job{task, plan, calls};
  return VirtualRun<Fabric, std::remove_reference_t<Trace>>(fabric, {&job, 1}, trace).run();
}

// Several jobs beside each other, all with one protocol, without data. Returns when the first one had ended.
template <class Fabric>
Result<Duration> run_together(Fabric& fabric, std::span<const VirtualJob> jobs) {
  for (Rank r = 0; r < fabric.representatives(); ++r)
    fabric.endpoint(r).begin({.protocol = jobs.front().plan.protocol});
  NoTrace trace;
  VirtualRun<Fabric, NoTrace> run(fabric, jobs, trace);
  WEFT_TRY(const Duration elapsed, run.run());
  return std::min(elapsed, run.main_ended());
}

}  // namespace weft::exec
