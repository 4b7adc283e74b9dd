#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

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
    const std::lock_guard guard(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !work_.empty(); });
      const auto next = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      if (!next) return;
      next();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace weft::net::cuda
