#include "apps/doctor/memory.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "base/text.h"

namespace weft::doctor {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {
    {{" GiB", 1.0}, {" MiB", 1.0 / 1024}, {" KiB", 1.0 / (1024 * 1024)}, {" GB", 1.0}, {" MB", 1.0 / 1024}}};

// The amount in GiB that stands before `words`: "21.30 GiB is reserved".
std::optional<double> before(std::string_view line, std::string_view words) {
  const auto end = line.find(words);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view head = line.substr(0, end);
  for (const auto& [unit, factor] : kUnits) {
    if (!head.ends_with(unit)) continue;
    const std::string_view number = head.substr(0, head.size() - unit.size());
    const auto begin = number.find_last_not_of("0123456789.");
    double value = 0;
    const auto digits = begin == std::string_view::npos ? number : number.substr(begin + 1);
    if (read_number(digits, value).ec != std::errc()) return std::nullopt;
    return value * factor;
  }
  return std::nullopt;
}

}  // namespace

std::string fragmentation(std::string_view line) {
  constexpr double kPart = 0.05;
  auto allocated = before(line, " is allocated by PyTorch");
  auto unused = before(line, " is reserved by PyTorch but unallocated");
  if (!allocated) allocated = before(line, " already allocated");
  if (const auto reserved = before(line, " reserved in total by PyTorch"); reserved && allocated)
    unused = *reserved - *allocated;
  if (!unused || !allocated) return "";
  const auto at = line.find("Tried to allocate ");
  double request = 0;
  if (at != std::string_view::npos) {
    const std::string_view rest = line.substr(at + 18);
    for (const std::string_view stop : {". ", " (", "."})
      if (const auto asked = before(rest, stop)) {
        request = *asked;
        break;
      }
  }
  const double reserved = *allocated + *unused;
  if (*unused < request || *unused < kPart * reserved) return "";
  return fmt::format("weft: reserved and unused are {:.2f} GiB of {:.2f} GiB, and {:.2f} GiB were asked for", *unused,
                     reserved, request);
}

}  // namespace weft::doctor
