#include "model/simulate/reach.h"

#include <gtest/gtest.h>

#include <string>

#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::simulate {
namespace {

Reach reach_on(const std::string& name, Rank nodes, Rank per_node) {
  return reach_of(cost::shipped_view(topology::load_machine(name).value()).value(), nodes, per_node);
}

// Rails: a leaf has 32 nodes (64 ports, half of them up); of three tiers a pod has 128.
TEST(Reach, FindsFromWhereOnWaysAreLonger) {
  const Reach one = reach_on("dgx-h100:nodes=32,net=ib-ndr,wires=switch", 32, 8);
  EXPECT_TRUE(one.tiers.empty());
  EXPECT_EQ(base_of(one, 32), 0);

  const Reach two = reach_on("dgx-h100:nodes=512,net=ib-ndr", 512, 8);
  ASSERT_EQ(two.tiers.size(), 1u);
  EXPECT_EQ(two.tiers[0].apart, 32);
  EXPECT_EQ(two.tiers[0].nodes, 512);
  EXPECT_EQ(two.least, 64);
  EXPECT_EQ(base_of(two, 512), 64);

  const Reach three = reach_on("dgx-h100:nodes=1024,net=ib-ndr,tiers=3", 1024, 8);
  ASSERT_EQ(three.tiers.size(), 2u);
  EXPECT_EQ(three.tiers[0].nodes, three.tiers[1].apart);
  EXPECT_EQ(three.tiers[1].apart, 128);
  EXPECT_EQ(three.least, 256);
  EXPECT_EQ(base_of(three, 1024), 64);
}

TEST(Tier, IsToldByFewNodesWhereTheyReachOverItAndHaveRoom) {
  EXPECT_EQ((Tier{32, 16384}.sparse()), 32);  // 8, 16 and 32 of them, a leaf apart
  EXPECT_EQ((Tier{32, 512}.sparse()), 16);  // 32 only find room half a leaf apart, but 8 of them reach over four leaves
  EXPECT_TRUE((Tier{32, 512}.known_from_few()));
  EXPECT_FALSE((Tier{128, 256}.known_from_few()));  // 8 nodes that are 8 apart reach over half of one group
}

}  // namespace
}  // namespace weft::simulate
