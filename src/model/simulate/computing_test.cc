#include "model/simulate/computing.h"

#include <gtest/gtest.h>

#include "machine/machine.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/simulate/simulate.h"
#include "plan/collectives/registry.h"
#include "plan/cost/shipped.h"

namespace weft::simulate {
namespace {

cost::MachineView dgx() { return cost::shipped_view(topology::load_machine("dgx-h100").value()).value(); }

struct Times {
  Duration collective, computing;
  Rank folded = 1;
};
// All-reduce of 1 GiB in rings beside computing.
Times beside(const std::string& compute, int channels, bool fold = true) {
  const auto machine = dgx();
  const schedule::Task task{.ranks = 8, .ranks_per_node = 8, .elements = Bytes{1} << 28, .element_bytes = 4};
  const auto& ring = **collectives::find_algorithm(Collective::kAllReduce, "ring");
  const auto plan = make_plan(task, ring, protocol::Protocol::kSimple, channels,
                              sim::flow_capabilities(machine.topology(), 64), true);
  const auto computing = computing_of(machine, 8, compute);
  EXPECT_TRUE(computing) << (computing ? "" : computing.error().message);
  const auto outcome = simulate(machine, task, plan, {.fold = fold, .computing = *computing});
  EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message);
  return {outcome->time, outcome->computed, outcome->folded};
}

constexpr double kLaunch = 8.4;  // us, of Simple; until then the collective holds nothing

TEST(Computing, IsSlowerByTheMultiprocessorsThatChannelsHold) {
  // 16 of 132 are held until after it has ended: 1 ms at 116 / 132.
  const Times times = beside("1ms", 16);
  EXPECT_NEAR(times.computing.us(), kLaunch + (1000 - kLaunch) * 132 / 116, 0.1);
  EXPECT_GT(times.collective, times.computing);
}

TEST(Computing, IsAtFullPaceOnceTheCollectiveHasEnded) {
  // The collective held 16 of 132 multiprocessors of the kernel for its own time.
  const Times times = beside("20ms", 16);
  const double held = times.collective.us() - kLaunch;
  EXPECT_NEAR(times.computing.us(), 20000 + held * 16 / 132, 0.002 * held);  // ranks and channels end apart
}

TEST(Computing, DoesNotSlowDownWhereCopyEnginesMoveTheData) {
  EXPECT_NEAR(beside("1ms,by=copy-engine", 16).computing.us(), 1000, 1e-6);
}

TEST(Computing, WaitsWhileAllMultiprocessorsAreHeld) {
  const Times times = beside("1ms,multiprocessors=8", 8);
  EXPECT_NEAR(times.computing.us(), times.collective.us() + 1000 - kLaunch, 0.002 * times.collective.us());
}

TEST(Computing, IsFoldedLikeTheCollective) {
  const Times folded = beside("20ms", 16), full = beside("20ms", 16, false);
  EXPECT_GT(folded.folded, 1);
  EXPECT_EQ(full.folded, 1);
  EXPECT_NEAR(folded.computing / full.computing, 1, 1e-6);
}

TEST(Computing, OverlapIsWhatOfTheShorterOneIsHidden) {
  const auto ms = [](double t) { return Duration::seconds(t * 1e-3); };
  EXPECT_DOUBLE_EQ(overlap(ms(4), ms(5), ms(5)), 1);
  EXPECT_DOUBLE_EQ(overlap(ms(4), ms(5), ms(7)), 0.5);
  EXPECT_DOUBLE_EQ(overlap(ms(4), ms(5), ms(9)), 0);
}

TEST(Computing, ThatCannotBeReadIsNamed) {
  const auto machine = dgx();
  for (const char* text : {"", "5", "5m", "-5ms", "5ms,by=magic", "5ms,multiprocessors=0", "5ms,", "5ms,sms"}) {
    const auto computing = computing_of(machine, 8, text);
    ASSERT_FALSE(computing) << text;
    EXPECT_NE(computing.error().message.find(text), std::string::npos) << computing.error().message;
  }
}

TEST(Computing, CopyEnginesNeitherSumNorSendMessages) {
  const auto machine = dgx();
  const auto plan_of = [&](Collective collective, const char* algorithm, protocol::Protocol protocol) {
    const schedule::Task task{.collective = collective, .ranks = 8, .elements = 1 << 20, .element_bytes = 4};
    return make_plan(task, **collectives::find_algorithm(collective, algorithm), protocol, 4,
                     sim::flow_capabilities(machine.topology(), 64), true);
  };
  const schedule::Task sum{.collective = Collective::kAllReduce}, gather{.collective = Collective::kAllGather};
  const auto engines = *computing_of(machine, 8, "5ms,by=copy-engine"), blocks = *computing_of(machine, 8, "5ms");
  using enum protocol::Protocol;
  EXPECT_FALSE(check_engine(plan_of(sum.collective, "two_shot", kDirect), sum, engines));
  EXPECT_TRUE(check_engine(plan_of(sum.collective, "two_shot", kDirect), sum, blocks));
  EXPECT_FALSE(check_engine(plan_of(gather.collective, "ring", kSimple), gather, engines));
  EXPECT_TRUE(check_engine(plan_of(gather.collective, "direct", kDirect), gather, engines));
}

}  // namespace
}  // namespace weft::simulate
