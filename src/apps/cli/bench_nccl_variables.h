#pragma once

#include "apps/cli/bench.h"

namespace weft::cli {

// NCCL_* variables of this process's environment are a question of what they would do on a machine named by --on: they
// change `spec`, and each is named on stderr with what it does there. Options of the command come first. Errors: those
// of env::read.
Status take_nccl_variables(BenchSpec& spec);

// The NICs that NCCL_IB_HCA leaves out become faults of the spec, so that the answer stands beside the whole machine's.
// A NIC's name is the machine's, or mlx5_N by its number in the node.
void leave_out_nics(BenchSpec& spec, const Machine& machine);

}  // namespace weft::cli
