#pragma once

#include <optional>

#include "base/report/reshard.h"
#include "move/reshard/plan.h"
#include "weft/transfer.h"

namespace weft::cli {

// Runs a plan on this machine: another process has the memory of all ranks of its first layout, filled with
// bytes that say which byte of which tensor they are; agents of this process read from it, a thread per CPU. `check`:
// compares every byte. `network`: over loopback; nothing: shared memory. Errors (bad input): more memory than
// kMostReshardHere.
Result<report::ReshardReport::Here> reshard_here(const reshard::Plan& plan, std::optional<transfer::Network> network,
                                                 bool check);

// Whether layouts are too large for that, before there is a plan: each tensor is held at least once. Errors: as above.
Status check_fits_here(const reshard::Layout& from, const reshard::Layout& to);

inline constexpr std::int64_t kMostReshardHere = std::int64_t{4} << 30;  // bytes of both layouts together

}  // namespace weft::cli
