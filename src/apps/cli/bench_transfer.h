#pragma once

#include <optional>

#include "apps/cli/bench.h"
#include "apps/cli/transfer_spec.h"
#include "weft/transfer.h"

namespace weft::cli {

// The network between the agents that --transport names; nothing: shm. Errors (bad input): another transport.
Result<std::optional<transfer::Network>> network_of(const char* command, const std::string& transport);

// `weft bench transfer`: lists of blocks between the agents of two processes here, beside memcpy of the same blocks.
// Errors (bad input): options that only collectives have, sizes.
Result<int> bench_transfer(const BenchSpec& spec, const TransferSpec& asked);

}  // namespace weft::cli
