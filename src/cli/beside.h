#pragma once

#include "cli/bench.h"
#include "exec/virtual_run.h"

namespace weft::cli {

// The jobs of --beside, each COLLECTIVE:bytes=SIZE,ranks=FIRST-LAST[,algo=NAME][,channels=N], on ranks of the machine
// from `used` on. They have the protocol of the first job: a simulation has one. Errors (bad input): names the job;
// ranks that the machine has not, or that two jobs want.
Result<std::vector<exec::VirtualJob>> jobs_beside(const BenchSpec& spec, const cost::MachineView& view, Rank used,
                                                  std::string_view protocol);

}  // namespace weft::cli
