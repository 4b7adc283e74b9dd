#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "machine/catalog/catalog.h"
#include "machine/topology.h"

namespace weft::topology {

// Adds what one entry of a preset's "links" describes; every entry has a "part" and a "count" of it per pair:
//   {"from": "gpu*", "to": "cpu*"}   device i of n to i·m/n of m, in blocks: 8 GPUs and 2 CPUs make 0-3 at CPU 0, 4-7
//   at 1
//   {"mesh": "gpu*"}                 every pair
//   {"pairs": "gpu*"}                0-1, 2-3, …
//   {"torus": "gpu*"}, {"grid": …}   neighbours in `shape`, the last number varying fastest; a torus closes every
//                                    dimension longer than two. Devices get the fact "at": "0,1,3".
//   {"edges": [[0, 1], [0, 2, 2]], "of": "gpu*"}   pairs by position, with a count of their own where there is a third
// A selection is "gpu*" (all), "gpu3", "gpu0-3" or "gpu0,2,4".
// Errors (bad input): names `file` and the entry.
Status add_links(std::string_view file, const Catalog& catalog, const nlohmann::json& entry,
                 std::span<const std::int32_t> shape, Topology& node);

}  // namespace weft::topology
