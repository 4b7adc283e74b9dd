#include <gtest/gtest.h>

#include <filesystem>

#include "weft/transfer.h"

namespace weft::transfer {
namespace {

PathCost cost_of(double us_4k, double us_1m, double element_us = 0) {
  return {.points = {{4096, us_4k}, {1 << 20, us_1m}}, .element_us = element_us, .error = 0.1};
}

TEST(TransferCost, TimesAreInterpolatedBetweenPointsAndGrowInProportionBehindTheLast) {
  const PathCost cost = cost_of(2, 102, 0.5);
  EXPECT_DOUBLE_EQ(cost.us(1, 4096), 2);
  EXPECT_DOUBLE_EQ(cost.us(1, 8), 2);  // the call, not the bytes
  EXPECT_DOUBLE_EQ(cost.us(1, (4096 + (1 << 20)) / 2), 52);
  EXPECT_DOUBLE_EQ(cost.us(1, 4 << 20), 408);
  EXPECT_DOUBLE_EQ(cost.us(11, 4096), 7);
}

TEST(TransferCost, EveryPathOfThisMachineIsMeasured) {
  const auto costs = measure_costs(std::filesystem::temp_directory_path().string());
  ASSERT_TRUE(costs) << costs.error().message;
  for (const Path path : {Path::kDirect, Path::kMapped, Path::kTcp, Path::kFile}) {
    const PathCost& cost = costs->of(path);
    ASSERT_EQ(cost.points.size(), 4U) << name(path);
    EXPECT_GT(cost.points.front().us, 0) << name(path);
    EXPECT_GT(cost.points.back().us, cost.points.front().us) << name(path);
    EXPECT_GE(cost.element_us, 0) << name(path);
  }
  EXPECT_GT(costs->of(Path::kTcp).us(1, 4096), costs->of(Path::kMapped).us(1, 4096));
  EXPECT_FALSE(measure_costs("/no/such/folder"));
}

TEST(TransferCost, ARequestIsEstimatedAndExplainedByItsPaths) {
  Costs costs;
  costs.of(Path::kDirect) = cost_of(2, 102, 0.5);
  auto near = Agent::open({.name = "near", .costs = costs}), far = Agent::open({.name = "far"});
  const Registration mine = *near->allocate(1 << 20), theirs = *far->allocate(1 << 20);
  ASSERT_TRUE(near->load(*far->metadata()));
  auto request = near->make(Op::kRead, *near->prepare("", std::vector<Rows>{{mine.region, 0, 1024, 1024, 4}}),
                            *near->prepare("far", std::vector<Rows>{{theirs.region, 0, 1024, 2048, 4}}));
  ASSERT_TRUE(request);
  EXPECT_DOUBLE_EQ(near->estimate(*request)->us, 3.5);  // 4,096 B, and three more elements
  EXPECT_DOUBLE_EQ(near->estimate(*request)->error, 0.1);
  EXPECT_EQ(near->explain(*request),
            "read of 4 elements, 4096 B: peer 'far'\n"
            "region 0, 4 elements, 4096 B: direct, 3.5 us\n"
            "  not shared memory: the peer is in this process\n"
            "  not process_vm_readv: the peer is in this process\n"
            "  not gpu memory: the memory is not a GPU's\n"
            "  not tcp: it does not listen\n"
            "  not ucx: it does not listen\n"
            "  not file: a peer's files are its own\n"
            "  not object: a peer's objects are its own\n");
  const std::uint32_t one[] = {2};
  auto chosen = near->make(Op::kRead, *near->prepare("", std::vector<Rows>{{mine.region, 0, 1024, 1024, 4}}),
                           *near->prepare("far", std::vector<Rows>{{theirs.region, 0, 1024, 2048, 4}}),
                           {.local_blocks = one, .remote_blocks = one});
  EXPECT_DOUBLE_EQ(near->estimate(*chosen)->us, 2);
  auto without = Agent::open({.name = "without"});
  const Registration its = *without->allocate(4096);
  const Prepared list = *without->prepare("", std::vector<Rows>{{its.region, 0, 64}});
  auto unknown = without->make(Op::kWrite, list, list);
  EXPECT_EQ(without->estimate(*unknown).error().message,
            "region 0: the cost of path direct is not known: measure_costs()");
}

}  // namespace
}  // namespace weft::transfer
