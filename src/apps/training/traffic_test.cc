#include "apps/training/traffic.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::training
