#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weft::net::object {

using Clock = std::chrono::steady_clock;

// What one operation may still do. Thread: any.
class Leave {
 public:
  explicit Leave(Clock::time_point until = Clock::time_point::max()) : until_(until) {}
  // From here on the operation's memory is neither read nor written.
  void take() {
    const std::lock_guard guard(mutex_);
    taken_ = true;
  }
  bool taken() const {
    const std::lock_guard guard(mutex_);
    return taken_;
  }
  Clock::time_point until() const { return until_; }
  // Calls `use` unless the leave has been taken. Returns whether it did.
  template <class F>
  bool with(F&& use) const {
    const std::lock_guard guard(mutex_);
    if (!taken_) use();
    return !taken_;
  }

 private:
  mutable std::mutex mutex_;
  bool taken_ = false;
  Clock::time_point until_;
};

// A request and its answer. A body and `into` must stay until run() returns, or until the leave has been taken.
struct Exchange {
  std::string method, url;
  std::vector<std::string> headers;
  std::span<const std::byte> body;
  std::span<std::byte> into;  // of a good answer; an answer of another size is a failure

  long status = 0;                              // 0: no answer
  std::map<std::string, std::string> answered;  // headers; names in lower case
  std::string text;                             // the body where `into` is empty or the answer is bad, at most 1 MiB
  Bytes received = 0;                           // into `into`
  std::string failure;                          // what broke it; empty: the answer is whole
  bool again = false;                           // the failure may pass

  bool good() const { return failure.empty() && status >= 200 && status < 300; }
  std::string header(const std::string& name) const {
    const auto found = answered.find(name);
    return found == answered.end() ? std::string() : found->second;
  }
};

// Connections, which are kept for further exchanges. Thread: one at a time.
class Http {
 public:
  // Errors: kUnsupported: weft was built without libcurl, or it is not installed.
  static Result<std::unique_ptr<Http>> open(const std::string& authorities);
  virtual ~Http() = default;
  // Carries all out at the same time, once each. Ends early where the leave is taken or ends.
  virtual void run(std::span<Exchange> exchanges, const Leave& leave) = 0;
};

}  // namespace weft::net::object
