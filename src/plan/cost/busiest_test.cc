#include "plan/cost/busiest.h"

#include <gtest/gtest.h>

#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::cost {
namespace {

using namespace schedule;

// Every rank sends two chunks to the one sixteen nodes further, and one to its neighbour.
constexpr Rank kFar = 16;
Generator<Step> send_far(RankContext context) {
  const auto at = [&](Rank distance) { return (context.rank + distance + context.ranks) % context.ranks; };
  for (int i = 0; i < 2; ++i) co_yield move(context.rank, {in(context.rank)}, {to(at(kFar))});
  co_yield move(context.rank, {in(context.rank)}, {to(at(1))});
}
const Algorithm kFarther{.name = "farther",
                         .collective = Collective::kAllGather,
                         .steps = send_far,
                         .rotation = [](const RankContext&) -> Rank { return 1; }};

constexpr Bytes kChunk = 1 << 20;

struct Answer {
  double seconds, alone;  // on the busiest link, and on a NIC that only one rank sends through
};
Answer ask(const std::string& name, Algorithm algorithm = kFarther, double least = 0) {
  const MachineView machine = shipped_view(topology::load_machine(name).value()).value();
  const Rank ranks = machine.endpoints();
  const Task task{.collective = Collective::kAllGather, .ranks = ranks, .elements = ranks * kChunk};
  const Plan plan{.algorithm = &algorithm, .slice_bytes = 512 << 10};
  const topology::Path path = machine.path(0, kFar);
  const auto& cost = *machine.costs().find(topology::name(path.type), protocol::Protocol::kSimple);
  Busiest busiest(machine, task, plan);
  return {busiest.seconds(protocol::Protocol::kSimple, kChunk, least),
          3 * static_cast<double>(kChunk) / (path.rate.value() * cost.efficiency)};
}

TEST(Busiest, ThroughOneSwitchEveryNicCarriesItsOwnChunks) {
  const Answer one = ask("gh200:nodes=64,net=ib-ndr,wires=switch");
  EXPECT_NEAR(one.seconds / one.alone, 1, 1e-9);
}

// 512 nodes on 16 leaves, each with as many uplinks as nodes: half of them send far at once, and some share an uplink.
TEST(Busiest, WhereWaysArePickedByChanceSomeMeet) {
  const Answer many = ask("gh200:nodes=512,net=ib-ndr");
  EXPECT_GE(many.seconds / many.alone, 1.2);  // at least two with two chunks each, on a link a little faster than a NIC
  EXPECT_LE(many.seconds / many.alone, 5);
  const Answer avoided = ask("gh200:nodes=512,net=ib-ndr,routing=adaptive");
  EXPECT_EQ(avoided.seconds, 0);
}

TEST(Busiest, IsOnlyLookedForWhereItCouldMatter) {
  EXPECT_EQ(ask("gh200:nodes=512,net=ib-ndr", kFarther, 1).seconds, 0);
  Algorithm unclaimed = kFarther;
  unclaimed.rotation = nullptr;
  EXPECT_EQ(ask("gh200:nodes=64,net=ib-ndr", unclaimed).seconds, 0);
}

}  // namespace
}  // namespace weft::cost
