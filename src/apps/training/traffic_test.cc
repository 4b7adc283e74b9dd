#include "apps/training/traffic.h"

#include <gtest/gtest.h>

#include "apps/training/trouble.h"
#include "machine/machine.h"
#include "model/predict/predict.h"
#include "model/sim/flow/flow_fabric.h"
#include "plan/cost/shipped.h"
#include "plan/schedule/collective.h"

namespace weft::training {
namespace {

// The estimates alone take nvls for reduce_scatter here, whose simulation is a tenth slower than the ring's.
TEST(Traffic, ChoosesAsWeftBenchDoes) {
  const auto view = *cost::shipped_view(*topology::load_machine("dgx-h100:nodes=8"));
  constexpr Rank kRanks = 64;
  constexpr Bytes kBytes = 256 << 20;
  for (const Collective collective : {Collective::kReduceScatter, Collective::kAllReduce}) {
    Traffic traffic(view);
    const auto cost = traffic(collective, {kRanks, 1}, kBytes);
    ASSERT_TRUE(cost) << cost.error().message;
    const Bytes unit = schedule::message_parts(collective, kRanks);
    const schedule::Task task{.collective = collective,
                              .ranks = kRanks,
                              .ranks_per_node = 8,
                              .elements = kBytes / 2 / unit * unit,
                              .element_bytes = 2};
    const auto bench =
        predict::predict(view, {.question = {.task = task, .can = sim::flow_capabilities(view.topology())}});
    ASSERT_TRUE(bench) << bench.error().message;
    EXPECT_EQ(cost->algorithm, bench->choice.plan.algorithm->name);
    EXPECT_NEAR(cost->seconds, bench->outcome.time.s(), 0.02 * bench->outcome.time.s());
  }
}

// A NIC less, a network of half the rate, twice the nodes: what is shared among versions answers as each version alone.
TEST(Traffic, PartsThatVersionsOfAMachineShareAnswerAsTheirOwn) {
  const auto view = *cost::shipped_view(*topology::load_machine("dgx-h100:nodes=2"));
  Traffic first(view);
  const auto ask = [](Traffic& traffic, Traffic::Group group) {
    const auto cost = traffic(Collective::kAllReduce, group, 16 << 10);
    EXPECT_TRUE(cost) << cost.error().message;
    return cost ? cost->seconds : 0;
  };
  const Traffic::Group within{8, 1}, across{2, 8};
  const double alone = ask(first, within);
  ask(first, across);
  const auto larger = *cost::shipped_view(*topology::load_machine("dgx-h100:nodes=3"));
  for (const std::vector<std::string>& faults : {std::vector<std::string>{"nic:0/0=down"}, {"nic:1/2=50%"}, {}}) {
    const auto other = trouble_of(faults.empty() ? larger : view, faults);
    ASSERT_TRUE(other) << other.error().message;
    Traffic shared(other->machine, other->nodes, first.parts()), own(other->machine, other->nodes);
    EXPECT_EQ(ask(shared, within), alone);
    EXPECT_EQ(ask(shared, within), ask(own, within));
    EXPECT_EQ(ask(shared, across), ask(own, across));
  }
}

}  // namespace
}  // namespace weft::training
