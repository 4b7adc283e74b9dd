#pragma once

#include <functional>
#include <memory>
#include <span>

#include "api/session/access.h"
#include "api/session/operation.h"
#include "api/session/plan_cache.h"
#include "base/result.h"
#include "exec/executor.h"
#include "exec/recorder/recorder.h"

namespace weft::session {

// The choice of a plan, handed in: `request` may force parts of it; `registered`: peers reach in and out of all ranks.
// Errors (bad input): a forced algorithm or protocol that cannot serve.
using Chooser = std::function<Result<schedule::Plan>(const schedule::Task& task, const Request& request,
                                                     const protocol::Capabilities& can, bool registered)>;

// Copies that bypass a core's caches.
struct Streams {
  Bytes results_from = Bytes{32} << 20;  // results of calls that touch more; the last-level cache
  bool for_peers = true;                 // what peers fetch from memory, if it is large
  bool tried = false;                    // … of messages only at first: their senders try what is faster
};

// Makes what a call runs, or finds what a call like it has run. Thread: the communicator's.
class Planner {
 public:
  // Requires: the executor lives longer.
  Planner(exec::Executor* executor, Rank ranks_per_node, Chooser chooser, Streams streams)
      : executor_(executor),
        ranks_per_node_(ranks_per_node),
        chooser_(std::move(chooser)),
        streams_(streams),
        access_(executor) {}

  // Where plans have their labels; null: nowhere.
  void record_in(recorder::Recorder* recorder) { recorder_ = recorder; }

  // What the last request was done with, if this is the same with the same buffers; otherwise null.
  const Prepared* again(const Request& request) {
    const bool same = last_.shape != nullptr && last_.is_alike && !last_.adopted && request.in == last_.in &&
                      request.out == last_.out && same_shape(request, last_.shape->request);
    if (!same || last_.shape->ballot->calls + 1 == last_.shape->ballot->decides) return nullptr;
    ++last_.shape->ballot->calls;
    return last_.prepared;
  }

  // Owns: the planner, until another operation has been prepared. Errors: bad input; those of the chooser.
  Result<const Prepared*> prepare(const Request& request);
  Result<const Prepared*> prepare(std::span<const Transfer> transfers);

  // The adopted pages that the buffers of the request lie in that was prepared last. Each call takes its own.
  bool has_adopted() const { return access_.has_adopted(); }
  AdoptedBuffers take_adopted() { return access_.take_adopted(); }

  // Of the last request; null: there was none.
  const Prepared* last() const { return last_.prepared; }

 private:
  struct LastRequest {
    KnownShape* shape = nullptr;  // null: there was no request
    const void* in = nullptr;
    void* out = nullptr;
    bool is_alike = false;  // only then is it found again without its counts and experts
    bool adopted = false;   // its buffers lie in adopted pages, which they need not in the next call
    const Prepared* prepared = nullptr;
  };

  // Neighbours in memory are not compared one after the other: compilers would load both at once, which has to wait
  // where the caller has just stored them one by one.
  static bool same_shape(const Request& a, const Request& b) {
    return a.count == b.count && a.root == b.root && a.type == b.type && a.collective == b.collective &&
           a.reproducible == b.reproducible && a.op == b.op && a.channels == b.channels &&
           a.scalar.has_value() == b.scalar.has_value() && a.counts.empty() && a.receive_counts.empty() &&
           a.experts.empty() && a.algorithm == b.algorithm && a.protocol == b.protocol;
  }

  // The plan of a request of this shape, which gets it if it is new. `task`: empty: not known yet.
  Result<const Prepared*> plan_of(const Request& request, KnownShape& shape, std::optional<schedule::Task> task);
  Result<std::shared_ptr<const Prepared>> plan(const Request& request, const schedule::Task& task,
                                               const Access& access) const;
  std::uint32_t label_of(const Request& request, const schedule::Plan& plan) const;
  Result<std::shared_ptr<const schedule::Program>> program_of(std::span<const Transfer> transfers) const;
  // The largest transfer that crosses in lines.
  Bytes lines_up_to() const;

  exec::Executor* executor_;
  Rank ranks_per_node_;
  Chooser chooser_;
  Streams streams_;
  recorder::Recorder* recorder_ = nullptr;
  PlanCache cache_;
  BufferAccess access_;
  LastRequest last_;
};

}  // namespace weft::session
