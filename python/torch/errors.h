#pragma once

#include <c10/util/Exception.h>

#include <chrono>
#include <exception>
#include <string>

#include "weft/result.h"

// weft's errors as the exceptions that torch and its users expect.
namespace weft::torch_adapter {

[[noreturn]] inline void raise(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument:
      C10_THROW_ERROR(ValueError, error.message.starts_with("weft: ") ? error.message : "weft: " + error.message);
    case Code::kUnsupported:
      C10_THROW_ERROR(NotImplementedError, error.message);
    case Code::kTimeout:  // torch's own tests look for these words
      C10_THROW_ERROR(DistBackendError, c10::str("weft: Timed out: ", error.message));
    default:
      C10_THROW_ERROR(DistBackendError, error.message);
  }
}
inline void check(const Status& status) {
  if (!status) raise(status.error());
}
inline std::exception_ptr as_exception(const Status& status) {
  if (status) return nullptr;
  try {
    raise(status.error());
  } catch (...) {
    return std::current_exception();
  }
}
// A monitored barrier that was not passed, also in the words that gloo has for it and programs look for.
inline Error late_at_barrier(Error error, int rank, std::chrono::milliseconds timeout) {
  std::string late;
  for (const auto r : error.ranks) late += (late.empty() ? "" : ", ") + std::to_string(r);
  const bool by_first = !error.ranks.empty() && error.ranks.front() == 0;
  std::string text;
  if (rank == 0 && timeout.count() <= 0)  // no rank can have failed to come in no time
    text = c10::str("Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms");
  else if (rank == 0)
    text = c10::str(error.ranks.size() > 1 ? "Ranks " : "Rank ", late, " failed to pass monitoredBarrier in ",
                    timeout.count(), " ms");
  else if (by_first)
    text = c10::str("Rank ", rank, " timed out in monitoredBarrier after ", timeout.count(), " ms");
  else
    text = c10::str("Rank ", rank, " successfully reached monitoredBarrier, but received errors while waiting for ",
                    "send/recv from rank 0");
  error.message = text + ": " + error.message;
  return error;
}
inline Status invalid(std::string text) {
  return tl::make_unexpected(Error{Code::kInvalidArgument, Blame::kInput, std::move(text)});
}

}  // namespace weft::torch_adapter
