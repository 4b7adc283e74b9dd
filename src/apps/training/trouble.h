#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/cost/machine_view.h"

namespace weft::training {

// What is wrong with a machine while it trains.
struct Trouble {
  cost::MachineView machine;      // what the faults have left
  std::vector<int> nodes;         // whose links, or whose way to the others, changed: groups there are slower
  std::vector<double> slow_rank;  // by rank: how many times as long it computes; empty: none is slow
};

// Faults as simulate::apply_faults reads them. Errors (bad input): its own; a fault that begins or ends within the
// step, or jitter, which a step does not know.
Result<Trouble> trouble_of(const cost::MachineView& machine, std::span<const std::string> faults);

}  // namespace weft::training
