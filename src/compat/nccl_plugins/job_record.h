#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "exec/recorder/recorder.h"

namespace weft::compat::plugins {

// A collective of a NCCL job, as its label will say it.
struct Call {
  recorder::Label label;
  std::uint64_t count = 0;
  int channels = 0;  // kernels' channels that will say so when they are done; 0: none says anything
};

// The handle that NCCL gives back when an event ends: a call, or a channel of its kernel.
struct Handle {
  const bool channel;
};

// One rank's record of one communicator of NCCL, in the same place and form as those of weft's own ranks.
//
// NCCL enqueues calls ahead of the GPU, and a stream runs them one after the other. So a call is recorded from the
// first channel of its kernel that starts to the last one that stops. Of calls that one kernel runs together, the
// second is recorded from the end of the first. Thread: any; NCCL's proxy thread reports kernels.
class JobRecord {
 public:
  class Pending;

  explicit JobRecord(std::unique_ptr<recorder::Recorder> recorder) : recorder_(std::move(recorder)) {}

  // Owned by this, and kept for a while after the call's end: NCCL may say more of a call than it announced.
  Pending* enqueued(Call call);
  void host_done(Pending* p);       // NCCL has enqueued all of it
  bool channel_starts(Pending* p);  // false: the call was over; no stop is to follow
  void channel_stops(Pending* p);

  // A message, from its enqueueing on.
  void message(bool sends);

 private:
  void start(Pending& p) WEFT_REQUIRES(mutex_);
  void tidy() WEFT_REQUIRES(mutex_);  // ends and forgets calls that are done, in their order
  // All channels have stopped; or fewer were started than NCCL said, all of them have stopped, and a later call runs.
  bool is_over(const Pending& p) const WEFT_REQUIRES(mutex_);
  const std::unique_ptr<recorder::Recorder> recorder_;
  Mutex mutex_;
  std::deque<std::unique_ptr<Pending>> pending_ WEFT_GUARDED_BY(mutex_), over_ WEFT_GUARDED_BY(mutex_);
  Pending* current_ WEFT_GUARDED_BY(mutex_) = nullptr;  // that the record says is running
  std::uint64_t number_ WEFT_GUARDED_BY(mutex_) = 0;
};

class JobRecord::Pending : public Handle {
 public:
  JobRecord* const record;
  Pending(JobRecord* r, Call c) : Handle{false}, record(r), call(std::move(c)) {}

 private:
  friend class JobRecord;
  Call call;
  int started = 0, stopped = 0;
  bool host_done = false, over = false;
  // Without channels that report, the host's end is the only one there is.
  bool done() const { return host_done && stopped >= call.channels; }
};

}  // namespace weft::compat::plugins
