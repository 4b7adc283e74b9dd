#pragma once

#include <fmt/format.h>

#include <string>

namespace weft::detail {

[[noreturn]] void check_failed(const char* kind, const char* condition, const char* file, int line,
                               const std::string& detail);

}  // namespace weft::detail

// A broken promise stops the process, in release builds too. WEFT_REQUIRE: the caller's mistake. WEFT_ASSERT: ours.
// Further arguments are a format string and its values, printed with the condition. Never for input.
#define WEFT_CHECK_IMPL_(kind, condition, ...)                                                                     \
  do {                                                                                                             \
    if (!(condition)) [[unlikely]]                                                                                 \
      ::weft::detail::check_failed(kind, #condition, __FILE__, __LINE__, ::weft::detail::check_text(__VA_ARGS__)); \
  } while (false)
#define WEFT_REQUIRE(condition, ...) WEFT_CHECK_IMPL_("requirement", condition, __VA_ARGS__)
#define WEFT_ASSERT(condition, ...) WEFT_CHECK_IMPL_("invariant", condition, __VA_ARGS__)

namespace weft::detail {

inline std::string check_text() { return {}; }
template <class... Args>
std::string check_text(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace weft::detail
