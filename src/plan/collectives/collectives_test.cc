#include <gtest/gtest.h>

#include <map>
#include <set>

#include "plan/collectives/double_binary_tree.h"
#include "plan/collectives/pat.h"
#include "plan/collectives/registry.h"
#include "plan/collectives/ring.h"
#include "plan/schedule/verify/verify.h"

namespace weft::collectives {
namespace {

using namespace schedule;

// Messages one rank sends and chunks it moves over its links, counted from its own steps.
struct Count {
  int steps = 0, sends = 0, remote = 0;
};
Count count(const Algorithm& algorithm, RankContext context) {
  Count n;
  for (context.lane = 0; context.lane < algorithm.lanes; ++context.lane) {
    auto steps = algorithm.steps(context);
    while (const Step* step = steps.next()) {
      ++n.steps;
      for (const auto* side : {&step->sources, &step->destinations})
        for (const Operand& o : *side) n.remote += o.kind == Operand::Kind::kRemote;
      for (const Operand& o : step->destinations) n.sends += o.message() && !o.open;
    }
  }
  return n;
}

void prove(const Algorithm& a, RankContext context) {
  for (const bool in_place : {false, true}) {
    for (const bool staged : {false, true}) {
      if ((staged && !a.needs.memory()) || (in_place && !may_be_in_place(a.collective))) continue;
      context.staged = staged;
      const auto proof = verify(write_out(a, context), {.in_place = in_place, .in_order = a.in_order});
      ASSERT_TRUE(proof.ok()) << a.name << " " << name(a.collective) << " on " << context.ranks << ", "
                              << context.ranks_per_node << " per node, channel " << context.channel << ", root "
                              << context.root << (staged ? ", staged" : "") << (in_place ? ", in place: " : ": ")
                              << proof.counterexample->text;
    }
  }
}

class EveryAlgorithm : public testing::TestWithParam<const Algorithm*> {};

TEST_P(EveryAlgorithm, IsProvedForOneToSeventeenRanks) {
  const Algorithm& a = *GetParam();
  for (Rank n = 1; n <= 17; ++n)
    for (Rank root = 0; root < (rooted(a.collective) ? n : 1); ++root)
      prove(a, {.ranks = n, .root = root, .ranks_per_node = n});
}

TEST_P(EveryAlgorithm, IsProvedOnEveryChannelOfEveryNodeSize) {
  const Algorithm& a = *GetParam();
  for (const auto& [n, per_node] : {std::pair{8, 1}, {8, 2}, {8, 4}, {12, 3}, {12, 4}, {10, 5}, {10, 4}, {24, 8}})
    for (int channel = 0; channel < 4; ++channel)
      prove(a, {.ranks = n, .root = n / 3, .ranks_per_node = per_node, .channel = channel});
}

// Three nodes that have lost a GPU each, or none: places 1 and 3 are common. Two, of which one has no place of the
// other.
const UnevenNodes kThree{.first = {0, 3, 7, 9}, .places = {0, 1, 3, 0, 1, 2, 3, 1, 3}, .common = {1, 3}};
const UnevenNodes kApart{.first = {0, 2, 5}, .places = {0, 1, 2, 3, 4}, .common = {}};

TEST_P(EveryAlgorithm, IsProvedOnUnevenNodes) {
  const Algorithm& a = *GetParam();
  for (const UnevenNodes* nodes : {&kThree, &kApart})
    for (int channel = 0; channel < 3; ++channel)
      prove(a, {.ranks = nodes->first.back(), .root = 4, .channel = channel, .nodes = nodes});
}

// Lowering may let any number of chunks share a message.
TEST_P(EveryAlgorithm, IsProvedHoweverManyChunksShareAMessage) {
  const Algorithm& a = *GetParam();
  if (a.parts == nullptr) return;
  for (const Rank n : {32, 37})
    for (const int bundle : {1, 12, 16, n}) prove(a, {.ranks = n, .ranks_per_node = 1, .bundle = bundle});
}

// Lowering generates the steps once per round, and calls follow each other, without a barrier in between.
TEST_P(EveryAlgorithm, MayBeRepeatedAtOnce) {
  const Algorithm& a = *GetParam();
  if (a.collective == Collective::kBarrier) return;  // the second barrier's begin is not the first one's
  for (const Rank n : {1, 2, 3, 8})
    for (const bool staged : {false, true}) {
      Schedule s = write_out(a, {.ranks = n, .ranks_per_node = n, .staged = staged});
      for (auto& strand : s.strands) {
        const auto once = strand;
        strand.insert(strand.end(), once.begin(), once.end());
      }
      const auto proof = verify(s);
      EXPECT_TRUE(proof.ok()) << a.name << " " << name(a.collective) << " on " << n << ": "
                              << proof.counterexample->text;
    }
}

// What the algorithm says of itself bounds what it does: lowering sizes slots and scratch by it.
TEST_P(EveryAlgorithm, KeepsToTheScratchAndPartsItAsksFor) {
  const Algorithm& a = *GetParam();
  for (const Rank n : {1, 2, 5, 8, 17, 24, 48})
    for (const bool staged : {false, true}) {
      const RankContext context{
          .ranks = n, .root = n / 2, .ranks_per_node = n == 24 ? 8 : n, .staged = staged, .bundle = staged ? n : 0};
      const Schedule s = write_out(a, context);
      int most_parts = 1;
      ChunkId most_slots = 0;
      for (const auto& strand : s.strands) {
        std::map<Rank, int> parts;
        for (const Step& step : strand)
          for (const auto* side : {&step.sources, &step.destinations})
            for (const Operand& o : *side) {
              if (o.message()) most_parts = std::max(most_parts, ++parts[o.peer]);
              if (o.message() && !o.open) parts[o.peer] = 0;
              if (o.memory() && o.buffer == Buffer::kScratch) most_slots = std::max(most_slots, o.chunk + 1);
            }
      }
      EXPECT_LE(most_parts, a.parts_for(context)) << n;
      EXPECT_LE(most_slots, s.scratch) << n;
    }
}

TEST_P(EveryAlgorithm, SaysWhetherItStoresIntoPeersMemory) {
  bool stores = false;
  for (const Rank n : {1, 2, 5, 8})
    for (const auto& strand : write_out(*GetParam(), {.ranks = n, .ranks_per_node = n}).strands)
      for (const Step& step : strand)
        for (const Operand& o : step.destinations) stores |= o.kind == Operand::Kind::kRemote;
  EXPECT_EQ(stores, GetParam()->needs.stores);
}

std::string label(const testing::TestParamInfo<const Algorithm*>& info) {
  return std::string(name(info.param->collective)) + "_" + std::string(info.param->name);
}
std::vector<const Algorithm*> all_algorithms() {
  std::vector<const Algorithm*> all;
  for (const Algorithm& a : algorithms()) all.push_back(&a);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithm, testing::ValuesIn(all_algorithms()), label);

TEST(RingAllReduce, SendsTwiceNMinusOneChunksOfOneNthEach) {
  for (Rank n = 2; n <= 9; ++n)
    EXPECT_EQ(count(ring_all_reduce(), {.ranks = n, .ranks_per_node = n}).sends, 2 * (n - 1));
}

TEST(Pat, NeedsAsManyMessagesAsDoublingsWhereAllBlocksFit) {
  for (const Algorithm& a : {pat_all_gather(), pat_reduce_scatter()}) {
    EXPECT_EQ(count(a, {.ranks = 64, .bundle = 64}).sends, 6) << name(a.collective);
    EXPECT_EQ(count(a, {.ranks = 64, .bundle = 16}).sends, 4 + 3) << name(a.collective);
    EXPECT_EQ(count(a, {.ranks = 64, .bundle = 0}).sends, 3 + 7) << name(a.collective);
  }
}

TEST(RingAllReduce, EveryChannelLeavesANodeThroughAnotherRank) {
  std::set<Rank> exits;
  for (int channel = 0; channel < 4; ++channel)
    for (Rank r = 0; r < 4; ++r)
      if (Ring ring({.rank = r, .ranks = 8, .ranks_per_node = 4, .channel = channel}); ring.next() >= 4)
        exits.insert(r);
  EXPECT_EQ(exits.size(), 4u);
}

TEST(RingAllReduce, CrossesBetweenEvenNodesOnOneRail) {
  for (int channel = 0; channel < 4; ++channel)
    for (Rank r = 0; r < 16; ++r)
      if (Ring ring({.rank = r, .ranks = 16, .ranks_per_node = 4, .channel = channel}); ring.next() / 4 != r / 4) {
        EXPECT_EQ(ring.next() % 4, r % 4) << "channel " << channel << " rank " << r;
      }
}

// … and between uneven ones; only from the last of three back to the first it cannot, as it passes them to and fro.
TEST(RingAllReduce, CrossesBetweenUnevenNodesOnACommonRail) {
  for (int channel = 0; channel < 4; ++channel) {
    int crossings = 0;
    for (Rank r = 0; r < 9; ++r) {
      const Rank next = Ring({.rank = r, .ranks = 9, .channel = channel, .nodes = &kThree}).next();
      if (kThree.node_of(next) == kThree.node_of(r)) continue;
      ++crossings;
      const Rank from = kThree.at(kThree.places, r), to = kThree.at(kThree.places, next);
      EXPECT_TRUE(from % 2 == 1 && to % 2 == 1) << from << " to " << to;
      EXPECT_TRUE(from == to || kThree.node_of(next) == 0) << from << " to " << to;
    }
    EXPECT_EQ(crossings, 3);
  }
}

TEST(TreeAllReduce, JoinsUnevenNodesAtHeadsOnACommonRail) {
  for (int channel = 0; channel < 4; ++channel)
    for (Rank r = 0; r < 9; ++r)
      for (const auto neighbours : {tree_neighbours, nested_tree_neighbours}) {
        const Rank up = neighbours({.rank = r, .ranks = 9, .channel = channel, .nodes = &kThree}, 0).parent;
        if (up < 0 || kThree.node_of(up) == kThree.node_of(r)) continue;
        EXPECT_EQ(kThree.at(kThree.places, r), kThree.at(kThree.common, channel % 2));
        EXPECT_EQ(kThree.at(kThree.places, up), kThree.at(kThree.common, channel % 2));
      }
}

TEST(RingBroadcast, EveryRankButTheLastForwardsOnce) {
  int sends = 0;
  for (Rank r = 0; r < 6; ++r)
    sends += count(ring_broadcast(), {.rank = r, .ranks = 6, .root = 4, .ranks_per_node = 6}).sends;
  EXPECT_EQ(sends, 5);
}

// Vectors: reference facts on NCCL's trees.cc for 8 and 5 vertices.
TEST(DoubleBinaryTree, HasNcclsParentsAndChildren) {
  const auto expect = [](Rank n, int tree, Rank rank, Rank parent, std::initializer_list<Rank> children) {
    Vertex v = double_binary_tree(rank, n, tree);
    EXPECT_EQ(v.parent, parent) << n << " ranks, tree " << tree << ", rank " << rank;
    std::multiset<Rank> got(v.children.begin(), v.children.end());
    EXPECT_EQ(got, std::multiset<Rank>(children)) << n << " ranks, tree " << tree << ", rank " << rank;
  };
  expect(8, 0, 0, -1, {4});
  expect(8, 0, 2, 4, {1, 3});
  expect(8, 0, 4, 0, {2, 6});
  expect(8, 0, 7, 6, {});
  expect(8, 1, 0, 1, {});
  expect(8, 1, 1, 3, {2, 0});
  expect(8, 1, 3, 7, {5, 1});
  expect(8, 1, 7, -1, {3});
  expect(5, 0, 0, -1, {4});
  expect(5, 0, 2, 4, {1, 3});
  expect(5, 0, 4, 0, {2});
  expect(5, 1, 0, 1, {3});
  expect(5, 1, 1, -1, {0});
  expect(5, 1, 3, 0, {2, 4});
}

TEST(DoubleBinaryTree, NoRankIsInnerInBothTreesForEvenCounts) {
  for (Rank n = 2; n <= 32; n += 2)
    for (Rank r = 0; r < n; ++r)
      EXPECT_FALSE(double_binary_tree(r, n, 0).children.size() == 2 &&
                   double_binary_tree(r, n, 1).children.size() == 2);
}

TEST(TreeNeighbours, JoinNodesAtOneHeadPerChannel) {
  // 4 nodes of 2, channel 1: heads are the odd ranks; node 2's T0 parent is node 0, its children nodes 1 and 3.
  const Vertex head = tree_neighbours({.rank = 5, .ranks = 8, .ranks_per_node = 2, .channel = 1}, 0);
  EXPECT_EQ(head.parent, 1);
  std::multiset<Rank> children(head.children.begin(), head.children.end());
  EXPECT_EQ(children, (std::multiset<Rank>{3, 4, 7}));
  EXPECT_EQ(tree_neighbours({.rank = 4, .ranks = 8, .ranks_per_node = 2, .channel = 1}, 0).parent, 5);
}

TEST(OneShot, SendsTheWholeMessageToEveryPeer) {
  EXPECT_EQ(count(*find_algorithm(Collective::kAllReduce, "one_shot").value(), {.ranks = 5}).sends, 4);
}

TEST(TwoShot, TouchesEveryPeersMemoryOnceToLoadAndOnceToStore) {
  const Count n = count(*find_algorithm(Collective::kAllReduce, "two_shot").value(), {.ranks = 5});
  EXPECT_EQ(n.remote, 2 * 4);
  EXPECT_EQ(n.steps, 4 * 4 + 1);
}

TEST(Registry, TakesNcclsNamesInAnyCase) {
  const auto named = [](std::string_view name) {
    return std::string((*find_algorithm(Collective::kAllReduce, name))->name);
  };
  EXPECT_EQ(named("Tree"), "tree");
  EXPECT_EQ(named("RING"), "ring");
  EXPECT_EQ(named("CollnetChain"), "collnet_chain");
  EXPECT_EQ(named("NVLSTree"), "nvls_tree");
  EXPECT_FALSE(find_algorithm(Collective::kAllReduce, "tre").has_value());
}

TEST(Registry, NamesTheAlternativesWhenAnAlgorithmCannotServe) {
  auto r = find_algorithm(Collective::kBarrier, "tree");
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().message, "algorithm 'tree' cannot do barrier; there are dissemination, spread");
}

}  // namespace
}  // namespace weft::collectives
