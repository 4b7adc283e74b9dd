#pragma once

#include <map>
#include <utility>
#include <vector>

#include "apps/training/traffic.h"

namespace weft::serving {

// Collectives of a step, answered at a grid of sizes, one per factor of two, linearly between: small all-reduces by
// weft's own choice, which is what engines' own kernels do, all others by what NCCL's tuner takes where it models them;
// dispatch and combine of experts' tokens by the kernels that carry them; all timed by weft's simulator
// (training::Traffic). Answers are kept. Thread: one at a time.
class Network {
 public:
  using Group = training::Traffic::Group;

  // `troubled`: nodes that are worse than the others.
  explicit Network(const cost::MachineView& machine, std::vector<int> troubled = {})
      : traffic_(machine, std::move(troubled)) {}
  // Seconds. `bytes`: of the larger side of the collective. Errors: those of training::Traffic.
  Result<double> operator()(Collective collective, Group group, double bytes);
  // Seconds of a dispatch or combine of `tokens` of each rank, by the faster of the kernels that send a token once to a
  // rank and those that send it once for each expert. `like`: all of it but tokens and copies.
  Result<double> operator()(Collective collective, Group group, double tokens, const training::Traffic::Experts& like);
  Rank gpus() const { return traffic_.gpus(); }
  const cost::MachineView& machine() const { return traffic_.machine(); }

 private:
  Result<double> at(Collective collective, Group group, Bytes bytes);
  Result<double> at(Collective collective, Group group, const training::Traffic::Experts& experts);
  training::Traffic traffic_;
  std::map<std::tuple<Collective, Group, Bytes>, double> known_;
};

}  // namespace weft::serving
