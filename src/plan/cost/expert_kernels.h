#pragma once

#include <optional>
#include <string>

#include "plan/cost/machine_view.h"
#include "plan/schedule/token_routes.h"

namespace weft::cost {

// The kernels that carry dispatch and combine on GPUs are not NCCL's: they store into buffers that peers have set
// aside, post to NICs from the GPU itself, and wait for nobody's slots. What they cost:
// data/protocol/expert_kernels.json.
struct ExpertKernel {
  schedule::Copies copies = schedule::Copies::kPerRank;  // once per rank: DeepEP's normal kernels; else low latency
  int experts = 256;                                     // of all ranks
  int multiprocessors = 20;                              // of the normal kernels; the others take what there is
  bool counts_known = false;             // normal kernels: how many tokens come is known, and not exchanged first
  std::optional<Duration> posting = {};  // of a message by another than the GPU: see posting_time
};

// Is this collective carried by such kernels on this machine?
bool by_expert_kernels(const MachineView& machine, Collective collective);

// The machine's costs with those of the kernel in place of the protocol Simple's. Requires: by_expert_kernels.
// Errors: see HopCosts::calibrated.
Result<protocol::HopCosts> expert_costs(const MachineView& machine, Collective collective, Rank ranks,
                                        const ExpertKernel& kernel);

}  // namespace weft::cost
