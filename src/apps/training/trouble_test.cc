#include "apps/training/trouble.h"

#include <gtest/gtest.h>

#include <set>

#include "apps/training/answer.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::training {
namespace {

cost::MachineView machine(const std::string& name) {
  auto topology = topology::load_machine(name);
  EXPECT_TRUE(topology);
  auto constants = cost::read_calibration("");
  EXPECT_TRUE(constants);
  auto view = cost::shipped_view(std::move(*topology), *constants);
  EXPECT_TRUE(view);
  return std::move(*view);
}

Words words(std::vector<std::string> faults = {}) {
  Words w{.model = "llama3-8b", .on = "dgx-h100:nodes=4"};
  w.plan.tp = 4;
  w.plan.global_batch = 64;
  w.plan.seq = 4096;
  w.faults = std::move(faults);
  return w;
}

double seconds(const cost::MachineView& on, const Words& w) {
  const auto found = answer(*load_model(w.model), on, w);
  EXPECT_TRUE(found) << found.error().message;
  return found ? found->step.seconds : 0;
}

TEST(Trouble, ADeadNicCostsTheSameWhereverItIsAndMoreThanHalfOfOne) {
  const auto view = machine("dgx-h100:nodes=4");
  const double healthy = seconds(view, words());
  const double dead = seconds(view, words({"nic:0/3=down"}));
  EXPECT_GT(dead, healthy);
  for (const char* elsewhere : {"nic:0/0=down", "nic:2/5=down", "nic:3/7=down"})
    EXPECT_NEAR(seconds(view, words({elsewhere})), dead, 1e-9 * dead) << elsewhere;
  const double half = seconds(view, words({"nic:2/5=50%"}));
  EXPECT_GE(half, healthy);
  EXPECT_LE(half, dead * (1 + 1e-9));
}

TEST(Trouble, ASwitchThatIsGoneIsSeenByEveryNodeThatHangsAtIt) {
  const auto view = machine("dgx-h100:nodes=16");
  const auto trouble = trouble_of(view, std::vector<std::string>{"switch:0=down"});
  ASSERT_TRUE(trouble) << trouble.error().message;
  const topology::Topology& whole = view.topology();
  std::set<int> hang;
  for (const topology::Link& l : whole.links())
    for (const auto& [end, other] : {std::pair{l.a, l.b}, {l.b, l.a}})
      if (whole.name_of(other) == "switch0" && whole.device(end).node >= 0) hang.insert(whole.device(end).node);
  EXPECT_EQ(trouble->nodes, std::vector<int>(hang.begin(), hang.end()));
  EXPECT_GT(hang.size(), 1u);
  EXPECT_GE(seconds(view, words({"switch:0=down"})), seconds(view, words({"nic:0/0=down"})) * (1 - 1e-9));
}

TEST(Trouble, EverybodyWaitsForASlowGpuInWhicheverReplica) {
  const auto view = machine("dgx-h100:nodes=4");
  const Words whole = words();
  const auto healthy = answer(*load_model("llama3-8b"), view, whole);
  ASSERT_TRUE(healthy);
  const double slow = seconds(view, words({"rank:0=slow:1.5x"}));
  EXPECT_EQ(slow, seconds(view, words({"rank:17=slow:1.5x"})));
  // What is computed takes 1.5 times as long; gradients on the wire and the optimizer do not.
  EXPECT_GT(slow, 1.3 * healthy->step.seconds);
  EXPECT_LT(slow, 1.5001 * healthy->step.seconds);
}

TEST(Trouble, FaultsThatAStepDoesNotKnowAreRefusedByName) {
  const auto view = machine("dgx-h100:nodes=4");
  for (const char* fault : {"jitter=exp:2us", "nic:1/0=50%@t=2ms", "nic:77=down", "gpu:0/0=down"}) {
    const auto found = answer(*load_model("llama3-8b"), view, words({fault}));
    EXPECT_FALSE(found) << fault;
  }
}

TEST(Budget, OfAPublishedRunIsItsMoney) {
  // DeepSeek-V3 (arXiv 2412.19437, table 1): 14.8 T tokens in 2.664 M H800-hours at 2 dollars: 5.328 M.
  const auto b = budget_of({.tokens = 14.8e12, .price = 2}, 14.8e12 / (2.664e6 * 3600), 2048, 256);
  ASSERT_TRUE(b);
  EXPECT_EQ(b->goodput, 1);
  EXPECT_NEAR(b->gpu_hours, 2.664e6, 1);
  EXPECT_NEAR(b->money, 5.328e6, 2);
}

TEST(Budget, FailuresAreAsFrequentAsMetaMeasuredAndTheIntervalIsTheBest) {
  // arXiv 2410.21680: 6.5 failures per 1000 node-days, 1.8 hours between them at 16,384 GPUs.
  report::TrainRun run{.tokens = 1e12, .failures = 6.5, .checkpoint_s = 20, .restart_s = 300, .spares = 40};
  const auto best = budget_of(run, 400, 16384, 2048);
  ASSERT_TRUE(best) << best.error().message;
  EXPECT_NEAR(best->mttf_s / 3600, 1.8, 0.05);
  EXPECT_LT(best->waiting, 1e-6);
  EXPECT_NEAR(best->goodput, (1 - best->waiting) * (1 - best->checkpoints - best->lost - best->restarts), 1e-12);
  for (const double times : {0.5, 2.0}) {
    report::TrainRun other = run;
    other.checkpoint_every_s = best->interval_s * times;
    EXPECT_LT(budget_of(other, 400, 16384, 2048)->goodput, best->goodput) << times;
  }
  run.spares = 0;
  EXPECT_LT(budget_of(run, 400, 16384, 2048)->goodput, 0.01);  // 13 failures a day, each a day without a spare
}

TEST(Budget, NumbersThatCannotBeAreRefusedByName) {
  EXPECT_EQ(budget_of({.tokens = 1, .price = -2}, 1, 8, 1).error().message, "--price -2: at least 0");
  const auto hopeless = budget_of({.tokens = 1, .failures = 1e9}, 1, 8, 1);
  ASSERT_FALSE(hopeless);
  EXPECT_NE(hopeless.error().message.find("--failures"), std::string::npos);
}

}  // namespace
}  // namespace weft::training
