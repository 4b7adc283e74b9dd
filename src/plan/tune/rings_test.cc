#include "plan/tune/rings.h"

#include <gtest/gtest.h>

#include <map>

#include "machine/machine.h"
#include "plan/collectives/ring.h"
#include "plan/cost/shipped.h"

namespace weft::tune {
namespace {

std::shared_ptr<const schedule::RingOrders> orders_on(std::string_view machine) {
  const auto view = cost::shipped_view(topology::load_machine(machine).value()).value();
  return ring_orders(view, view.endpoints());
}

// How often the orders go from one local rank to another; `closed`: also from the last to the first.
std::map<std::pair<Rank, Rank>, int> uses(const schedule::RingOrders& orders, bool closed) {
  std::map<std::pair<Rank, Rank>, int> uses;
  for (const auto& order : orders)
    for (std::size_t i = 0; i + (closed ? 0 : 1) < order.size(); ++i) ++uses[{order[i], order[(i + 1) % order.size()]}];
  return uses;
}

TEST(RingOrders, ZigzagsUseEveryLinkOfAFullMeshOnceInEachDirection) {
  const auto orders = orders_on("mi300x:nodes=2");
  ASSERT_NE(orders, nullptr);
  EXPECT_EQ(orders->size(), 8U);
  const auto used = uses(*orders, false);
  EXPECT_EQ(used.size(), 56U);  // 8 * 7 pairs
  for (const auto& [pair, times] : used) EXPECT_EQ(times, 1) << pair.first << " -> " << pair.second;
}

// Three rings of NVLinks, each in both directions: 6 links per GPU. Some pairs are joined by two links.
TEST(RingOrders, FindsTheSixRingsOfADgx1) {
  const auto orders = orders_on("dgx1-v100");
  ASSERT_NE(orders, nullptr);
  EXPECT_EQ(orders->size(), 6U);
  const auto used = uses(*orders, true);
  for (const auto& [pair, times] : used) EXPECT_LE(times, 2) << pair.first << " -> " << pair.second;
  EXPECT_FALSE(used.contains({0, 5})) << "no NVLink joins them";
}

TEST(RingOrders, AreLeftAloneWhereAllPeersAreAlike) {
  EXPECT_EQ(orders_on("dgx-h100"), nullptr);
  EXPECT_EQ(orders_on("pcie-4x3090"), nullptr);
}

TEST(RingOrders, AreFollowedFromNodeToNodeOnOneRail) {
  const auto orders = orders_on("mi300x:nodes=2");
  for (int channel = 0; channel < 16; ++channel) {
    schedule::RankContext context{.ranks = 16, .ranks_per_node = 8, .channel = channel, .rings = orders.get()};
    Rank at = channel % 8;
    for (int position = 0; position < 16; ++position) {
      context.rank = at;
      const collectives::Ring ring(context);
      EXPECT_EQ(ring.position(), position);
      const Rank next = ring.next();
      if (at / 8 != next / 8) {
        EXPECT_EQ(at % 8, next % 8) << "rails";
      }
      at = next;
    }
    EXPECT_EQ(at, channel % 8) << "a ring closes";
  }
}

TEST(UnevenNodes, HaveTheGpusOfAllInCommon) {
  const auto view = cost::shipped_view(topology::load_machine("dgx-h100:nodes=3,net=ib-ndr").value()).value();
  const auto nodes = uneven_nodes(view, 19);  // the last node has three of eight
  ASSERT_NE(nodes, nullptr);
  EXPECT_EQ(nodes->first, (std::vector<Rank>{0, 8, 16, 19}));
  EXPECT_EQ(nodes->common, (std::vector<Rank>{0, 1, 2}));
  EXPECT_EQ(nodes->places.at(18), 2);
  EXPECT_EQ(nodes->node_of(15), 1);
  EXPECT_EQ(nodes->node_of(16), 2);
}

TEST(UnevenNodes, AreNotThoseWithAsManyGpusEach) {
  const auto view = cost::shipped_view(topology::load_machine("dgx-h100:nodes=3,net=ib-ndr").value()).value();
  EXPECT_EQ(uneven_nodes(view, 24), nullptr);
  EXPECT_EQ(uneven_nodes(view, 7), nullptr);
}

}  // namespace
}  // namespace weft::tune
