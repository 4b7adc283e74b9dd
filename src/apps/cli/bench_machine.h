#pragma once

#include "apps/cli/bench.h"

namespace weft::cli {

// The machine of --on with the faults that lie in its devices and links, for what `weft bench` replays as a one-sided
// program: put, get, transfer, kv. Errors (bad input): naming the option or the fault that such a program does not
// heed.
Result<Machine> machine_to_replay_on(const BenchSpec& spec);

}  // namespace weft::cli
