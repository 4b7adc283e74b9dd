#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "weft/communicator.h"

namespace weft::python {

// A call that failed, on its way to an exception of weftcomm/_errors.py.
struct Failed : std::exception {
  Failed(Error e, std::string o) : error(std::move(e)), operation(std::move(o)) {}
  Error error;
  std::string operation;
};

inline Error invalid(std::string text) { return {Code::kInvalidArgument, Blame::kInput, std::move(text)}; }

// Of a timeout in seconds, as Python has it, rounded up. Errors: Failed (bad input): negative, NaN, more than 100
// years.
inline std::chrono::milliseconds milliseconds_of(double seconds, const char* operation) {
  const double most = std::chrono::duration<double>(kMostTimeout).count();
  if (!(seconds >= 0 && seconds <= most))
    throw Failed(invalid("a timeout of " + std::to_string(seconds) + " s: it is 0 to " + std::to_string(most) +
                         " s (100 years)"),
                 operation);
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

// Of one message: 0 looks once, which for the library is the shortest wait; nothing: as long as the communicator waits.
inline std::optional<std::chrono::milliseconds> message_timeout(std::optional<double> seconds, const char* operation) {
  if (!seconds) return std::nullopt;
  return std::max(milliseconds_of(*seconds, operation), std::chrono::milliseconds(1));
}

constexpr const char* name_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kMismatch:
      return "mismatch";
    case Code::kPeerDied:
      return "peer_died";
    case Code::kTimeout:
      return "timeout";
    case Code::kAborted:
      return "aborted";
    case Code::kNoResources:
      return "no_resources";
    case Code::kSystem:
      return "system";
    case Code::kInternal:
      return "internal";
    case Code::kLeftOut:
      return "left_out";
    case Code::kNoQuorum:
      return "no_quorum";
    case Code::kPeerLeft:
      return "peer_left";
  }
  return "internal";
}

inline void check(const Status& status, const char* operation) {
  if (PyErr_Occurred() != nullptr) throw nanobind::python_error();  // a signal's handler raised while the call waited
  if (!status) throw Failed(status.error(), operation);
}
template <class T>
T check(Result<T> result, const char* operation) {
  if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
  if (!result) throw Failed(result.error(), operation);
  return std::move(*result);
}

}  // namespace weft::python
