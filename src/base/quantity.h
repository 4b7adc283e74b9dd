#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/units.h"

namespace weft {

struct Unit {
  std::string_view name;
  double factor;
};

// A number above zero directly followed by one of the units, times that unit's factor. Nothing: the text is not that.
std::optional<double> number_with(std::string_view text, std::span<const Unit> units);

std::optional<Duration> duration_of(std::string_view text);  // "2.5us"; ns, us, ms, s

}  // namespace weft
