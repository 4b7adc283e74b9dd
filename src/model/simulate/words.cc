#include "model/simulate/words.h"

#include "base/text.h"

namespace weft::simulate {

using topology::DeviceId;
using topology::Topology;

std::optional<std::pair<std::string_view, std::string_view>> cut(std::string_view text, char at) {
  const std::size_t where = text.find(at);
  if (where == std::string_view::npos) return std::nullopt;
  return std::pair(text.substr(0, where), text.substr(where + 1));
}

std::pair<std::string_view, std::string_view> next_pair(std::string_view& text) {
  text.remove_prefix(1);
  const std::string_view pair = text.substr(0, text.find(','));
  text.remove_prefix(pair.size());
  return cut(pair, '=').value_or(std::pair(pair, std::string_view()));
}

std::optional<double> percent_of(std::string_view text) {
  constexpr Unit kPercent[] = {{"%", 0.01}};
  return number_with(text, kPercent);
}

std::optional<BytesPerSecond> rate_of(std::string_view text) {
  constexpr Unit kUnits[] = {{"MB/s", 1e6}, {"GB/s", 1e9}, {"Mb/s", 1e6 / 8}, {"Gb/s", 1e9 / 8}};
  const auto rate = number_with(text, kUnits);
  return rate ? std::optional(BytesPerSecond(*rate)) : std::nullopt;
}

std::optional<DeviceId> device_named(const Topology& machine, std::string_view name) {
  for (DeviceId id = 0; id < static_cast<DeviceId>(machine.devices().size()); ++id)
    if (machine.name_of(id) == name) return id;
  constexpr std::string_view kFirst = "node0/";  // which may be left out
  return name.find('/') == std::string_view::npos ? device_named(machine, fmt::format("{}{}", kFirst, name))
                                                  : std::nullopt;
}

std::optional<std::pair<DeviceId, DeviceId>> devices_between(const Topology& machine, std::string_view ends) {
  for (std::size_t dash = ends.find('-'); dash != std::string_view::npos; dash = ends.find('-', dash + 1)) {
    const auto a = device_named(machine, ends.substr(0, dash));
    const auto b = a ? device_named(machine, ends.substr(dash + 1)) : std::nullopt;
    if (b) return std::pair(*a, *b);
  }
  return std::nullopt;
}

bool joins(const topology::Link& link, DeviceId a, DeviceId b) {
  return (link.a == a && link.b == b) || (link.a == b && link.b == a);
}

}  // namespace weft::simulate
