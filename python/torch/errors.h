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
      C10_THROW_ERROR(ValueError, error.message);
    case Code::kUnsupported:
      C10_THROW_ERROR(NotImplementedError, error.message);
    case Code::kTimeout:  // torch's own tests look for these words
      C10_THROW_ERROR(DistBackendError, c10::str("weft: Timed out in ", error.message));
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
inline Status invalid(std::string text) {
  return tl::make_unexpected(Error{Code::kInvalidArgument, Blame::kInput, std::move(text)});
}

}  // namespace weft::torch_adapter
