#pragma once

#include <functional>
#include <mutex>
#include <thread>

namespace weft::cli {

// While it lives, SIGINT (Ctrl-C) has a long command print and write what is done, and end with 130; a second one ends
// it at once. Where SIGINT was ignored at the start, as of background jobs, it stays so.
class OnInterrupt {
 public:
  // `finish` runs on a thread of its own, while mutex() is held.
  explicit OnInterrupt(std::function<void()> finish);
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

  // Protects what `finish` reads from the command's own changes.
  std::mutex& mutex() { return mutex_; }

 private:
  std::mutex mutex_;
  std::jthread waits_;
};

}  // namespace weft::cli
