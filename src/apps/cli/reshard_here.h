#pragma once

#include <optional>

#include "base/report/reshard.h"
#include "move/reshard/convert.h"
#include "move/reshard/plan.h"
#include "weft/transfer.h"

namespace weft::cli {

// What is tried of a plan on this machine.
struct ReshardTrial {
  const reshard::Layout& from;                    // as the senders have it before they convert
  const reshard::Converted* converted = nullptr;  // what the plan's first layout is then
  std::optional<transfer::Network> network;       // over loopback; nothing: shared memory
  bool check = false;                             // compare every byte
  double changed = 0;                             // > 0: a second version, of which this share of blocks is new
};

// Runs a plan on this machine: another process has the memory of all ranks of its first layout, with elements that say
// where they belong; agents of this process read from it, a thread per CPU. Errors (bad input): more memory than
// kMostReshardHere.
Result<report::ReshardReport::Here> reshard_here(const reshard::Plan& plan, const ReshardTrial& trial);

// Whether layouts are too large for that, before there is a plan: each tensor is held at least once. Errors: as above.
Status check_fits_here(const reshard::Layout& from, const reshard::Layout& to);

inline constexpr std::int64_t kMostReshardHere = std::int64_t{4} << 30;  // bytes of both layouts together

}  // namespace weft::cli
