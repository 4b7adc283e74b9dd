#pragma once

#include <cstdint>
#include <string>

#include "weft/communicator.h"

namespace weft::disagreement {

// One-sided windows of a communicator's ranks: they open a World beside it, by a meeting of its own, and mix puts with
// signals, gets, atomic operations and barriers there with collectives here. Collective; all ranks must live, as a
// World ends its process otherwise. `by_network`: the World uses TCP although its ranks share memory. Empty, or what
// was wrong.
std::string use_windows(Communicator& comm, bool by_network, std::size_t count, std::uint64_t salt);

}  // namespace weft::disagreement
