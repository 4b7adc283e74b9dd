#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "base/quantity.h"
#include "machine/topology.h"

namespace weft::simulate {

// Parsers of the words of --fault, --load and --compute. Empty results: the text cannot be read as that.

// Returns the text before and after the first `at`.
std::optional<std::pair<std::string_view, std::string_view>> cut(std::string_view text, char at);

// ",key=value,…": the first pair; `text` is then what follows it. Requires: text starts with a comma.
std::pair<std::string_view, std::string_view> next_pair(std::string_view& text);

std::optional<double> percent_of(std::string_view text);       // "30%" is 0.3
std::optional<BytesPerSecond> rate_of(std::string_view text);  // "10GB/s", "100Gb/s"; also M

// Finds a device by the name that `weft topo` prints.
std::optional<topology::DeviceId> device_named(const topology::Topology& machine, std::string_view name);
// "A-B": two devices, whose names may have dashes themselves.
std::optional<std::pair<topology::DeviceId, topology::DeviceId>> devices_between(const topology::Topology& machine,
                                                                                 std::string_view ends);
bool joins(const topology::Link& link, topology::DeviceId a, topology::DeviceId b);

}  // namespace weft::simulate
