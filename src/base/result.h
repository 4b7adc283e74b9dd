#pragma once

#include <fmt/format.h>

#include <utility>

#include "weft/result.h"

namespace weft {

// Bad arguments or files: `return bad_input("…", …);`
template <class... Args>
tl::unexpected<Error> bad_input(fmt::format_string<Args...> format, Args&&... args) {
  return tl::make_unexpected(
      Error{Code::kInvalidArgument, Blame::kInput, fmt::format(format, std::forward<Args>(args)...)});
}

template <class... Args>
tl::unexpected<Error> failure(Code code, Blame blame, fmt::format_string<Args...> format, Args&&... args) {
  return tl::make_unexpected(Error{code, blame, fmt::format(format, std::forward<Args>(args)...)});
}

// One that a rank is the cause of: Error::ranks says so.
template <class... Args>
tl::unexpected<Error> failure_of(std::int32_t rank, Code code, Blame blame, fmt::format_string<Args...> format,
                                 Args&&... args) {
  Error error{code, blame, fmt::format(format, std::forward<Args>(args)...)};
  error.ranks = {rank};
  return tl::make_unexpected(std::move(error));
}

// Passes an error up: WEFT_TRY(auto x, parse(text)); WEFT_CHECK(step());
#define WEFT_CONCAT_(a, b) a##b
#define WEFT_CONCAT(a, b) WEFT_CONCAT_(a, b)
#define WEFT_TRY(declaration, expression) WEFT_TRY_(WEFT_CONCAT(weft_try_, __COUNTER__), declaration, expression)
#define WEFT_TRY_(name, declaration, expression)                  \
  auto name = (expression);                                       \
  if (!name) return tl::make_unexpected(std::move(name).error()); \
  declaration = std::move(*name)
#define WEFT_CHECK(expression)                                                                                     \
  do {                                                                                                             \
    if (auto weft_status = (expression); !weft_status) return tl::make_unexpected(std::move(weft_status).error()); \
  } while (false)

}  // namespace weft
