#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/cost/machine_view.h"
#include "weft/types.h"

namespace weft::accuracy {

// What the choice for one collective costs over the best plan that was tried.
struct Regret {
  Collective collective;
  Bytes bytes = 0;
  Rank ranks = 0;
  std::string chosen, best;  // plans, e.g. "ring LL x8"
  Duration chosen_time, best_time;
  int plans = 0;    // that were simulated
  int skipped = 0;  // that would have taken too many steps

  double ratio() const { return chosen_time / best_time; }
};

// Chooses as predict::predict does, and then simulates every plan whose estimate is at most kRegretSlack times the
// least, each up to `steps` steps. A collective that the machine cannot do is left out. Errors: of predict::predict.
inline constexpr double kRegretSlack = 3;
Result<std::vector<Regret>> regrets(const cost::MachineView& machine, std::span<const Collective> collectives,
                                    std::span<const Bytes> sizes, double steps);

}  // namespace weft::accuracy
