#include "apps/cli/number_options.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/text.h"

namespace weft::cli {
namespace {

constexpr double kMostCount = 1LL << 40;

struct Known {
  std::string_view option, command;  // an empty command: all that have no row of their own
  double low = 0, high = kMostCount;
};
// Options that take less than every count or finite number from 0 on. What depends on a machine or on other options is
// checked where that is known.
constexpr Known kRanges[] = {
    {"accept", "", 0, 1},
    {"bucket", "", 0, 1 << 20},
    {"compute", "", 0, 1e6},
    {"fraction", "", 0, 1},
    {"imbalance", "", 1, 1e6},
    {"isl", "", 1},
    {"osl", "", 1},
    {"nodes", "place", 1},
    {"percentile", "", 1, 100},
    {"rank", "schedule", -1, INT32_MAX},
    {"root", "", -1, INT32_MAX},
    {"seq", "", 1},
    {"spread", "", 0, 1},
    {"tokens", "train", 1, 1e18},
    {"tokens", "advise", 1, 1e18},
    {"top", "", -1, INT32_MAX},
    {"trace-rate", "", 0, 1e9},
    {"urgent", "", 0, 1},
    {"zero", "train", 0, 3},
};
constexpr double kMostReal = 1e15;  // of times in seconds, prices and rates

// "1099511627776" and "0.5", as they are typed.
std::string written(double number) {
  return number == std::floor(number) && std::abs(number) < 1e17 ? fmt::format("{}", static_cast<std::int64_t>(number))
                                                                 : fmt::format("{:g}", number);
}

std::string outside(const std::string& text, const NumberRange& range) {
  double value = 0;
  const auto [rest, error] = read_number(text, value);
  const bool number = error != std::errc::invalid_argument && rest == text.data() + text.size();
  if (!number) return "";  // said by the conversion, in words of its own
  if (error == std::errc::result_out_of_range || !std::isfinite(value) || value < range.low || value > range.high)
    return fmt::format("{} is outside {} … {}", text, written(range.low), written(range.high));
  if (range.whole && value != std::floor(value)) return fmt::format("{} is not a whole number", text);
  return "";
}

}  // namespace

std::optional<NumberRange> range_of(const CLI::App& command, const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const bool whole = type.find("INT") != std::string::npos, real = type.find("FLOAT") != std::string::npos;
  if (option.get_lnames().empty() || (!whole && !real)) return std::nullopt;
  const std::string& name = option.get_lnames().front();
  NumberRange range{0, whole ? kMostCount : kMostReal, whole};
  for (const Known& known : kRanges)
    if (known.option == name && (known.command.empty() || known.command == command.get_name()))
      range.low = known.low, range.high = known.high;
  return range;
}

void check_numbers(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    check_numbers(*command);
    for (CLI::Option* option : command->get_options())
      if (const auto range = range_of(*command, *option))
        option->check(CLI::Validator([range](std::string& text) { return outside(text, *range); }, ""));
      else if (!option->get_lnames().empty() && option->get_expected_min() > 0)
        option->check(CLI::Validator([](std::string& text) { return text.empty() ? "its value is empty" : ""; }, ""));
  }
}

}  // namespace weft::cli
