#pragma once

#include <string_view>

#include "machine/import/ibnetdiscover.h"

namespace weft::topology {

// Whether a text is of `iblinkinfo`: "… 4X 25.78125 Gbps Active/ LinkUp)==> …" below "Switch: GUID NAME:".
bool is_iblinkinfo(std::string_view text);

// Its switches, what is at each of their ports, and the network of the fastest port of a host. Ports that are down and
// aggregation nodes are left out. Errors (bad input): no host at a switch.
Result<IbFabric> parse_iblinkinfo(std::string_view name, std::string_view text);

}  // namespace weft::topology
