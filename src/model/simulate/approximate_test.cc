// Collectives whose growth is not known are approximated by the cost model and parts of the machine.

#include <gtest/gtest.h>

#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/simulate/simulate.h"
#include "plan/collectives/registry.h"
#include "plan/cost/estimate.h"
#include "plan/cost/shipped.h"

namespace weft::simulate {
namespace {

struct Case {
  const char* machine;
  Collective collective;
  std::string_view algorithm;
  Bytes bytes;
  double most_unsure = 0.3;  // a larger doubt would let anything pass
};

class Roughly : public testing::TestWithParam<Case> {};

TEST_P(Roughly, TheTimeIsAsSureAsItSays) {
  const Case& c = GetParam();
  const cost::MachineView machine = cost::shipped_view(topology::load_machine(c.machine).value()).value();
  const Rank ranks = machine.endpoints();
  const schedule::Task task{.collective = c.collective,
                            .ranks = ranks,
                            .ranks_per_node = machine.ranks_per_node(ranks),
                            .elements = c.bytes / 4,
                            .element_bytes = 4};
  const schedule::Plan plan =
      make_plan(task, *collectives::find_algorithm(c.collective, c.algorithm).value(), protocol::Protocol::kSimple, 1,
                sim::flow_capabilities(machine.topology(), 64), true);
  const auto full = simulate(machine, task, plan);
  const auto rough = simulate(machine, task, plan, {.most_operations = 4e4, .too_many = 1e4});
  ASSERT_TRUE(full && rough);
  EXPECT_FALSE(full->approximate);
  ASSERT_TRUE(rough->approximate);
  EXPECT_LT(rough->steps_in_all_runs, full->steps_in_all_runs / 2);
  EXPECT_LT(rough->extrapolated_from, ranks);
  EXPECT_NEAR(rough->represented / full->represented, 1, 1e-6);
  EXPECT_LE(rough->uncertainty, c.most_unsure);
  EXPECT_NEAR(rough->time / full->time, 1, rough->uncertainty);
}

INSTANTIATE_TEST_SUITE_P(Machines, Roughly,
                         testing::Values(Case{"gh200:nodes=512,net=ib-ndr", Collective::kAllGather, "pat", 8 << 20},
                                         Case{"gh200:nodes=512,net=ib-ndr", Collective::kReduceScatter, "pat", 64 << 20,
                                              0.6},
                                         Case{"gh200:nodes=512,net=ib-ndr", Collective::kAllGather, "bruck", 64 << 10},
                                         Case{"dgx-h100:nodes=128,net=ib-ndr", Collective::kAllGather, "pat", 4 << 20},
                                         Case{"dgx-h100:nodes=128,net=ib-ndr,wires=switch", Collective::kAllReduce,
                                              "halving_doubling", 1 << 20}),
                         [](const auto& info) { return std::string("Case") + std::to_string(info.index); });

}  // namespace
}  // namespace weft::simulate
