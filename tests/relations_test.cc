// What must hold on every machine, whatever its numbers: relations between limit, load, estimate and simulation, on
// random machines of 2 to 8 nodes. WEFT_RELATIONS=MACHINES[,SEED] tries other ones, or more of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/cli/answers.h"
#include "model/accuracy/predict.h"
#include "model/accuracy/regret.h"
#include "model/simulate/runs.h"
#include "plan/cost/estimate.h"
#include "plan/cost/limit.h"
#include "plan/cost/load.h"
#include "relations.h"

namespace weft {
namespace {

// Relation 2. A ring goes through nodes with even numbers from their first GPU to their last, and back through the
// others: two nodes on it looks the same, so it does not matter which of two such nodes has the slow link. Nodes next
// to each other are each other's mirror image, and with an odd number of nodes one connection leads from a last GPU to
// a first one, over two rails: then channels that share a NIC meet at other times, and the node matters a little.
TEST_F(Relations, OneFaultCostsARingTheSameTwoNodesOn) {
  constexpr double kMirrored = 0.04, kMostSteps = 1e5;  // twice what was seen; a third of a second
  constexpr int kShared = 8;                            // channels from which on several share a NIC
  for (int i = 0; i < machines_; ++i) {
    const Made made = machine();
    const int nodes = made.healthy.nodes(), one = below(nodes), on = below(nodes - 1);
    int channels = 1 << below(5);
    const Bytes size = bytes();
    const auto time_with = [&](int node) {
      const Asked asked(made.with({nic_link(made, node) + "=50%"}));
      const Task task = task_on(asked.view, Collective::kAllReduce, size);
      while (channels > 1 &&
             simulate::operations_of(task, plan_on(asked.view, task, kCases[0], channels), task.ranks) > kMostSteps)
        channels /= 2;
      const Plan plan = plan_on(asked.view, task, kCases[0], channels);
      // Thresholds as low as if the machine were huge.
      return asked.simulated(task, plan, {.affordable = 1e3, .most_operations = 1e3, .too_many = 1e3}).time.s();
    };
    const int other = (one + 1 + on) % nodes;
    const bool same = nodes % 2 == 0 && (other - one) % 2 == 0;
    EXPECT_NEAR(time_with(other) / time_with(one), 1,
                same                 ? 1e-6
                : channels < kShared ? kSame
                                     : kMirrored)
        << made.name << ", nodes " << one << " and " << other << ", " << size << " B, x" << channels;
  }
}

// A rank of a tree serves what comes from its children and from above in the order in which it comes, which a fault
// changes, to the better now and then: of 3,000 machines 25 were faster, by up to 5.7 % (docs/simulation.md).
double allowed_for(const Case& c) {
  constexpr double kOrders = 0.07;
  return std::string_view(c.algorithm) == "tree" ? kOrders : kSame;
}

// Relations 3 and 4, for one plan: what carries less is not faster, and its limit is not better.
TEST_F(Relations, ASlowerLinkIsNeverFaster) {
  for (int i = 0; i < machines_; ++i) {
    const Made made = machine();
    const Case& c = one_case();
    const int node = below(made.healthy.nodes()), channels = 1 << below(5);
    const Bytes size = bytes();
    const std::string link = nic_link(made, node);
    Duration before, limit_before;
    for (const char* how : {"", "=90%", "=50%", "=10%"}) {
      const Asked asked(made.with(*how ? std::vector{link + how} : std::vector<std::string>{}));
      const Task task = task_on(asked.view, c.collective, size);
      const Plan plan = plan_on(asked.view, task, c, channels);
      if (cut_of(task, plan).round == 0) continue;
      const Duration time = asked.simulated(task, plan, {.extrapolate = false}).time,
                     limit = cost::limit(asked.view, task).time;
      EXPECT_GE(time.s(), before.s() * (1 - allowed_for(c)))
          << made.name << " " << link << how << ", " << c.algorithm << ", " << size << " B, x" << channels;
      EXPECT_GE(limit, limit_before) << made.name << " " << link << how;
      before = time;
      limit_before = limit;
    }
  }
}

TEST_F(Relations, ASlowRankIsNeverFaster) {
  for (int i = 0; i < machines_; ++i) {
    const Made made = machine();
    const Case& c = one_case();
    const Asked healthy(made.with({}));
    const Task task = task_on(healthy.view, c.collective, bytes());
    const Plan plan = plan_on(healthy.view, task, c, 1 << below(5));
    if (cut_of(task, plan).round == 0) continue;
    const Asked slow(made.with({fmt::format("rank:{}=slow:1.2x", below(task.ranks))}));
    EXPECT_GE(slow.simulated(task, plan).time.s(), healthy.simulated(task, plan).time.s() * (1 - allowed_for(c)))
        << made.name << ", " << c.algorithm;
  }
}

// Relation 5: nothing is faster than what its busiest link must carry, and nothing than the limit. Faults included.
TEST_F(Relations, LimitAndLoadBoundEveryTime) {
  for (int i = 0; i < 2 * machines_; ++i) {
    const Made made = machine();
    const Asked asked(made.with({nic_link(made, below(made.healthy.nodes())) + "=30%"}));
    for (const Case& c : kCases) {
      const Task task = task_on(asked.view, c.collective, bytes());
      const Plan plan = plan_on(asked.view, task, c, 1 << below(5));
      if (cut_of(task, plan).round == 0) continue;
      const Duration time = asked.simulated(task, plan).time,
                     load = cost::Load(asked.view, task, plan).least(task, plan);
      EXPECT_GT(load, Duration()) << made.name << ", " << c.algorithm;
      EXPECT_LE(load.s(), time.s() * (1 + kSame)) << made.name << ", " << c.algorithm << ", " << task.elements;
      EXPECT_LE(cost::limit(asked.view, task).time, time) << made.name << ", " << c.algorithm;
    }
  }
}

// Relation 6.
TEST_F(Relations, FoldedIsFullAndExtrapolatedIsWithinItsBounds) {
  for (int i = 0; i < machines_; ++i) {
    const Made made = machine();
    const Asked asked(made.with({}));
    const Case& c = one_case();
    const Task task = task_on(asked.view, c.collective, bytes());
    const Plan plan = plan_on(asked.view, task, c, 1 << below(5));
    if (cut_of(task, plan).round == 0) continue;
    const Outcome full = asked.simulated(task, plan, {.fold = false, .fast_forward = false}),
                  any = asked.simulated(task, plan);
    EXPECT_EQ(full.method, simulate::Method::kFull);
    EXPECT_NEAR(any.time / full.time, 1, any.enlarged > 0 ? 0.02 : kSame)
        << made.name << ", " << c.algorithm << " " << simulate::name(any.method);
    const Outcome rough = asked.simulated(
        task, plan, {.fold = false, .affordable = 1e3, .most_operations = 1e4, .too_many = 1e3, .most_in_full = 1e3});
    EXPECT_LE(rough.low.s(), full.time.s() * 1.02)
        << made.name << ", " << c.algorithm << " " << simulate::name(rough.method);
    EXPECT_GE(rough.high.s(), full.time.s() * 0.98)
        << made.name << ", " << c.algorithm << " " << simulate::name(rough.method);
  }
}

// Relation 8, over all channels, lanes and rails: also where the first channel does not see the fault. Not yet as
// narrow as it should be: shares that change while a schedule runs are the simulator's.
TEST_F(Relations, EstimatesAreNearTimes) {
  double worst = 1;
  for (int i = 0; i < 2 * machines_; ++i) {
    const Made made = machine();
    const Asked asked(made.with({nic_link(made, below(made.healthy.nodes())) + "=50%"}));
    for (const Case& c : kCases) {
      const Task task = task_on(asked.view, c.collective, bytes());
      const Plan plan = plan_on(asked.view, task, c, 1 << below(5));
      if (cut_of(task, plan).round == 0) continue;
      const double ratio = cost::estimate(asked.view, task, plan)->total / asked.simulated(task, plan).time;
      worst = std::max({worst, ratio, 1 / ratio});
      EXPECT_GT(ratio, 0.5) << made.name << ", " << c.algorithm << " " << schedule::name(c.collective) << ", "
                            << task.elements * 4 << " B, x" << plan.channels;
      EXPECT_LT(ratio, 1.9) << made.name << ", " << c.algorithm << " " << schedule::name(c.collective) << ", "
                            << task.elements * 4 << " B, x" << plan.channels;
    }
  }
  RecordProperty("worst", std::to_string(worst));
}

// Relation 7: on small machines no plan of which the estimates say that it might be faster is more than 10 % faster by
// the simulator than the one that is chosen.
TEST_F(Relations, NoPlanIsMuchFasterThanTheOneChosen) {
  constexpr Collective kAll[] = {Collective::kAllReduce, Collective::kAllGather, Collective::kAllToAll};
  for (int i = 0; i < machines_ / 2; ++i) {
    const Made made = machine();
    const Asked asked(made.with({}));
    const Bytes size = bytes();
    const auto found = accuracy::regrets(asked.view, kAll, std::span(&size, 1), 3e5);
    ASSERT_TRUE(found.has_value()) << found.error().message;
    EXPECT_EQ(found->size(), std::size(kAll));
    for (const accuracy::Regret& r : *found)
      EXPECT_LE(r.ratio(), 1.1) << made.name << ", " << schedule::name(r.collective) << ", " << r.bytes
                                << " B: " << r.chosen << ", but " << r.best;
  }
}

// On eight nodes the tree with LL128 that is first by its estimate takes nearly all steps of the search. Plans with
// Simple, behind it and simulated with few steps, take less time (decision 0181).
TEST(Choice, SpendsItsStepsOnPlansThatTakeFewToo) {
  const auto answer = cli::answer(
      {"bench", "all_reduce", "--on", "dgx-h100:nodes=8,net=ib-ndr", "--min", "268435456", "--max", "268435456"});
  ASSERT_TRUE(answer.has_value());
  const auto& row = (*answer)["rows"][0];
  EXPECT_EQ(row["protocol"], "Simple");
  EXPECT_LT(row["time_us"].get<double>(), 1700);
}

// Relation 11: one question has one answer, whichever command gives it.
TEST(Commands, AgreeOnOneNumber) {
  const std::string on = "dgx-h100:nodes=2,net=ib-ndr", bytes = "1048576";
  const auto bench = cli::answer({"bench", "all_reduce", "--on", on, "--min", bytes, "--max", bytes});
  const auto explain = cli::answer({"explain", "all_reduce", "--on", on, "--bytes", bytes});
  ASSERT_TRUE(bench.has_value() && explain.has_value());
  const double time = (*bench)["rows"][0]["time_us"];
  EXPECT_EQ(time, (*explain)["simulated"]["time_us"].get<double>());
  EXPECT_EQ((*bench)["rows"][0]["measured"], (*explain)["simulated"]["measured"]);
  // Rows that were measured over several nodes take 10 % longer at the least, at this size.
  const auto& range = (*bench)["rows"][0]["measured"];
  EXPECT_LT(range["low_us"].get<double>(), 1.2 * time);
  EXPECT_LT(range["low_us"].get<double>(), range["high_us"].get<double>());
  // By NCCL's tuner, as tables of nccl-tests are predicted.
  const auto nccl = cli::answer({"bench", "all_reduce", "--on", on, "--min", bytes, "--max", bytes, "--tuner", "nccl"});
  accuracy::Predictor predictor(cost::shipped_view(topology::load_machine(on).value()).value());
  const auto predicted = predictor.predict({.name = "", .machine = on}, {.bytes = 1 << 20, .time = {}});
  ASSERT_TRUE(nccl.has_value() && predicted.has_value());
  EXPECT_NEAR((*nccl)["rows"][0]["time_us"].get<double>(), predicted->time.us(), 1e-9 * predicted->time.us());
}

// What the time was spent on adds up to it, and names the cause that was put there.
TEST(WhereTheTimeGoes, AddsUpAndNamesTheCause) {
  const Made made("dgx-h100:nodes=4,net=ib-ndr,wires=switch");
  const auto spent = [&](const std::vector<std::string>& faults, Bytes bytes) {
    const Asked asked(made.with(faults));
    const Task task = task_on(asked.view, Collective::kAllReduce, bytes);
    return asked.simulated(task, plan_on(asked.view, task, kCases[0], bytes > 1 << 20 ? 16 : 1), {.why = true});
  };
  const auto part = [](const Outcome& o, sim::Cause cause, std::string_view where = "") {
    double sum = 0;
    for (const sim::PathShare& share : o.why)
      if (share.cause == cause && share.where.find(where) != std::string::npos) sum += share.time / o.time;
    return sum;
  };
  const std::string link = nic_link(made, 1), nic = link.substr(5, link.find('-') - 5);
  const Outcome healthy = spent({}, 64 << 20), small = spent({}, 4096), slow_link = spent({link + "=10%"}, 64 << 20),
                slow_rank = spent({"rank:9=slow:8x"}, 64 << 20), jitter = spent({"jitter=uniform:100us"}, 4096);
  for (const Outcome* o : {&healthy, &small, &slow_link, &slow_rank, &jitter}) {
    double sum = 0;
    for (const sim::PathShare& share : o->why) sum += share.time.us();
    EXPECT_NEAR(sum, o->time.us(), 1e-6 * o->time.us());
    EXPECT_GT(o->path_steps, 0);
  }
  EXPECT_GT(part(small, sim::Cause::kHop), 0.5);
  EXPECT_GT(part(slow_link, sim::Cause::kLink, nic), 0.8);
  EXPECT_GT(part(slow_rank, sim::Cause::kSlowRank, "rank 9"), 0.5);
  EXPECT_GT(part(jitter, sim::Cause::kJitter), 0.5);
}

// Relation 12. NCCL takes 20.4 GB/s of data for all channels of LL over more than two nodes; a ring's node sends
// 2 (n - 1) / n of the message. And one channel of a tree has four lanes, but one thread block: what a rank in the
// middle sends up and down is at most what a channel sends, 14 GB/s with flags on Hopper's NVLink.
TEST(Lines, AreAsSlowAsTheHostsMemoryAndTheChannelAllow) {
  const auto time_of = [](const char* machine, const Case& c, int channels) {
    const Asked asked(Made(machine).with({}));
    const Task task = task_on(asked.view, c.collective, 64 << 20);
    return asked.simulated(task, plan_on(asked.view, task, c, channels)).time.s();
  };
  const double bytes = 64 << 20;
  const char* four = "dgx-h100:nodes=4,net=ib-ndr";
  const double lines = time_of(four, {"ring", Collective::kAllReduce, Protocol::kLL}, 16),
               simple = time_of(four, {"ring", Collective::kAllReduce, Protocol::kSimple}, 16);
  EXPECT_GE(lines, 2 * 31.0 / 32 * bytes / 20.4e9 * 0.99);
  EXPECT_GE(lines, 2 * simple);
  EXPECT_GE(time_of("dgx-h100", {"tree", Collective::kAllReduce, Protocol::kLL}, 1), 2 * 2 * bytes / 14e9 * 0.99);
}

}  // namespace
}  // namespace weft
