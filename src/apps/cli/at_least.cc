#include "apps/cli/at_least.h"

#include <fmt/format.h>

#include <string>

#include "base/text.h"

namespace weft::cli {

CLI::Validator at_least(std::int64_t least) {
  const auto check = [least](const std::string& text) {
    double value = 0;
    const auto [end, problem] = read_number(text, value);
    const bool good = problem == std::errc() && end == text.data() + text.size() && value >= static_cast<double>(least);
    return good ? std::string() : fmt::format("{}: at least {}", shown(text), least);
  };
  return CLI::Validator(check, least > 0 ? "POSITIVE" : "NONNEGATIVE");
}

}  // namespace weft::cli
