#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace weft::net::cuda {

// Work in order, on a thread of its own, which ends when the queue has been emptied. Any thread may push.
class WorkQueue {
 public:
  WorkQueue() : thread_([this] { run(); }) {}
  ~WorkQueue() {
    push({});
    thread_.join();
  }
  // An empty function ends the queue.
  void push(std::function<void()> work) {
    const MutexLock guard(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }

 private:
  void run() {
    for (;;) {
      const auto next = take();
      if (!next) return;
      next();
    }
  }
  std::function<void()> take() {
    MutexLock lock(mutex_);
    lock.wait(changed_, [this]() WEFT_REQUIRES(mutex_) { return !work_.empty(); });
    auto next = std::move(work_.front());
    work_.pop_front();
    return next;
  }
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_ WEFT_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace weft::net::cuda
