#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "topology/topology.h"

namespace weft::simulate {

// The words in which faults, loads and computing are told on the command line. Nothing: cannot be read as that.

// Text before and after the first `at`.
std::optional<std::pair<std::string_view, std::string_view>> cut(std::string_view text, char at);

// ",key=value,…": the first pair; `text` is then what follows it. Requires: text starts with a comma.
std::pair<std::string_view, std::string_view> next_pair(std::string_view& text);

struct Unit {
  std::string_view name;
  double factor;
};
// A number above zero directly followed by one of the units, times that unit's factor.
std::optional<double> number_with(std::string_view text, std::span<const Unit> units);
std::optional<Duration> duration_of(std::string_view text);    // "2.5us"; ns, us, ms, s
std::optional<double> percent_of(std::string_view text);       // "30%" is 0.3
std::optional<BytesPerSecond> rate_of(std::string_view text);  // "10GB/s", "100Gb/s"; also M

// By the name that `weft topo` prints.
std::optional<topology::DeviceId> device_named(const topology::Topology& machine, std::string_view name);
// "A-B": two devices, whose names may have dashes themselves.
std::optional<std::pair<topology::DeviceId, topology::DeviceId>> devices_between(const topology::Topology& machine,
                                                                                 std::string_view ends);
bool joins(const topology::Link& link, topology::DeviceId a, topology::DeviceId b);

}  // namespace weft::simulate
