#pragma once

#include <string_view>

#include "machine/import/network_tree.h"

namespace weft::topology {

// What `ibnetdiscover` prints: switches and adapters with the ports they are joined by. `network` is the catalogue's
// network of the widest and fastest adapter link that occurs ("4xNDR" is ib-ndr), or empty.
struct IbFabric {
  NetworkTree tree;
  std::string network;
};

// Whether a text is of that form: a line "Switch\t<ports> \"S-…\"".
bool is_ibnetdiscover(std::string_view text);

// Adapters of one host (the first word of their description) are its ports, in the order of the file.
// Errors (bad input), naming line and value: a port line before any switch or adapter, a line that is none, a device
// that is there twice, a port to a device that is not there, no adapter at a switch.
Result<IbFabric> parse_ibnetdiscover(std::string_view name, std::string_view text);

}  // namespace weft::topology
