#pragma once

#include "apps/cli/common.h"

namespace weft::cli {

// `weft rehearse`: recordings of a training script's ranks (weft.rehearsal/1) on a modelled machine.
Command add_rehearse(CLI::App& app);

// Answers recordings of ranks (weft.rehearsal/1, traces of torch.profiler or Chakra) for a machine, as `weft rehearse`
// does. `groups`: the file of Chakra's groups; empty: none. `faults`: of the machine, as for `weft train`.
Result<int> answer_recordings(const std::vector<std::string>& files, const std::string& on, const std::string& json,
                              const std::string& groups, const std::vector<std::string>& faults);

}  // namespace weft::cli
