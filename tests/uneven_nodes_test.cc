// A cluster that loses one GPU loses one rail of eight, not the rails altogether.
#include <gtest/gtest.h>

#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/simulate/faults.h"
#include "model/simulate/simulate.h"
#include "plan/cost/shipped.h"
#include "plan/tune/tune.h"

namespace weft {
namespace {

Duration all_reduce_time(const std::vector<std::string>& faults, const std::string& algorithm) {
  const auto healthy = topology::load_machine("dgx-h100:nodes=4,net=ib-ndr").value();
  const auto machine = cost::shipped_view(simulate::apply_faults(healthy, faults)->machine).value();
  const Rank ranks = machine.endpoints();
  const schedule::Task task{.collective = Collective::kAllReduce,
                            .ranks = ranks,
                            .ranks_per_node = machine.ranks_per_node(ranks),
                            .elements = Bytes{1} << 28,
                            .element_bytes = 4};
  const tune::Question question{
      .task = task, .can = sim::flow_capabilities(machine.topology()), .algorithm = algorithm, .protocol = "Simple"};
  return simulate::simulate(machine, task, tune::choose(machine, question)->plan)->time;
}

// Seven rails carry what eight did: 8/7 = 1.14 times as long, and a little for channels that share less evenly. Where
// rings and trees ignored the rails, it was more than six times as long.
TEST(ClusterWithADeadGpu, LosesOneRailOfEight) {
  for (const std::string algorithm : {"ring", "tree", ""}) {
    const double factor = all_reduce_time({"gpu:1/3=down"}, algorithm) / all_reduce_time({}, algorithm);
    EXPECT_GT(factor, 1.05) << algorithm;
    EXPECT_LT(factor, 1.35) << algorithm;
  }
}

}  // namespace
}  // namespace weft
