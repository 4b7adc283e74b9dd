#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lane.h"
#include "weft/queue.h"

namespace weft::python {

// Communicators that Python has dropped while calls of theirs were under way: those run on, and what is left when
// Python ends is aborted.
class DroppedLanes {
 public:
  void add(std::shared_ptr<Lane> lane) {
    const std::lock_guard guard(mutex_);
    std::erase_if(all_, [](const Dropped& d) { return d.last.done(); });
    // The last call owns the lane, too, so that it ends on its queue's thread.
    all_.push_back({lane, lane->queue([kept = lane](Communicator&) { return Status(); })});
  }
  void end() {
    const std::lock_guard guard(mutex_);
    for (const Dropped& d : all_)
      if (const auto lane = d.lane.lock(); lane && !d.last.done()) lane->abort();
    for (const Dropped& d : all_) (void)d.last.wait();
    all_.clear();
  }

 private:
  struct Dropped {
    std::weak_ptr<Lane> lane;
    Queue::Handle last;
  };
  std::mutex mutex_;
  std::vector<Dropped> all_;
};
inline DroppedLanes& dropped_lanes() {
  static DroppedLanes all;
  return all;
}

}  // namespace weft::python
