#pragma once

#include "apps/cli/bench.h"
#include "exec/virtual_run.h"

namespace weft::cli {

// The jobs of --beside, each COLLECTIVE:bytes=SIZE,ranks=FIRST-LAST[,algo=NAME][,channels=N][,class=C], on ranks of the
// machine from `used` on. They have the protocol of the first job: a simulation has one. Errors (bad input): names the
// job; ranks that the machine has not, or that two jobs want.
Result<std::vector<exec::VirtualJob>> jobs_beside(const BenchSpec& spec, const cost::MachineView& view, Rank used,
                                                  std::string_view protocol);

// Errors (bad input): `what` asks for a class of service that --level does not have.
Status check_class(const BenchSpec& spec, std::string_view what, std::int64_t service);

}  // namespace weft::cli
