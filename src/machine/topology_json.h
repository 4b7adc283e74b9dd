#pragma once

#include <string>
#include <string_view>

#include "machine/topology.h"

namespace weft::topology {

// The schema weft.topology/1: every device and link in order, so that ids survive.
//   {"schema", "title", "devices": [{"kind", "node", "index", "model", "bus_id", "port_rate"}],
//    "links": [{"kind", "a", "b", "rate_ab", "rate_ba", "latency_ps", "count"}]}
// Unit: rates in bytes per second, latency in picoseconds; device keys with empty or zero values are left out.
std::string to_json(const Topology& topology);

// Ensures: from_json(…, to_json(t)) == t for a valid t; the result is validated.
// Errors (bad input): names `name`, and the line where it is not JSON, else the device or link that is wrong.
Result<Topology> from_json(std::string_view name, std::string_view text);

}  // namespace weft::topology
