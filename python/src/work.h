#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "array.h"
#include "failed.h"
#include "weft/queue.h"

namespace weft::python {

// How long a wait for a queued call goes on before it looks for signals.
inline constexpr std::chrono::milliseconds kSignals{50};

// A call of a queue. Its arrays are kept until it has ended.
struct Queued {
  std::vector<Array> arrays;
  std::vector<nanobind::object> callbacks;
  bool ended = false;
};

class Started {
 public:
  Started(Queue::Handle handle, std::shared_ptr<Queued> queued, nanobind::object result, const char* operation)
      : handle_(std::move(handle)), queued_(std::move(queued)), result_(std::move(result)), operation_(operation) {}

  bool done() const { return handle_.done(); }
  // False: not done within `seconds`; less than 0: waits until it is done.
  bool wait(double seconds) const {
    const auto until =
        std::chrono::steady_clock::now() + (seconds < 0 ? kSignals : milliseconds_of(seconds, operation_));
    for (;;) {
      bool over = false;
      {
        const nanobind::gil_scoped_release released;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
        over = handle_.wait_for(
            seconds < 0 ? kSignals
                        : std::clamp<std::chrono::milliseconds>(left, std::chrono::milliseconds(0), kSignals));
      }
      if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
      if (over) return true;
      if (seconds >= 0 && std::chrono::steady_clock::now() >= until) return false;
    }
  }
  nanobind::object result() const {
    wait(-1);
    Status status;
    {
      const nanobind::gil_scoped_release released;
      status = handle_.wait();
    }
    check(status, operation_);
    return result_;
  }
  // Called with no arguments on the queue's thread when the call is done; at once if it is.
  void when_done(nanobind::object callback) {
    if (queued_->ended)
      callback();
    else
      queued_->callbacks.push_back(std::move(callback));
  }

 private:
  Queue::Handle handle_;
  std::shared_ptr<Queued> queued_;  // under the GIL
  nanobind::object result_;
  const char* operation_;
};

}  // namespace weft::python
