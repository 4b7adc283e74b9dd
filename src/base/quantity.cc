#include "base/quantity.h"

#include "base/text.h"

namespace weft {

std::optional<double> number_with(std::string_view text, std::span<const Unit> units) {
  double value = 0;
  const auto [end, error] = read_number(text, value);
  if (error != std::errc() || !(value > 0) || value > 1e15) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& u : units)
    if (unit == u.name) return value * u.factor;
  return std::nullopt;
}

std::optional<Duration> duration_of(std::string_view text) {
  constexpr Unit kUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  const auto seconds = number_with(text, kUnits);
  return seconds ? std::optional(Duration::seconds(*seconds)) : std::nullopt;
}

}  // namespace weft
