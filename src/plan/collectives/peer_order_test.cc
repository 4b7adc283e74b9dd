#include "plan/collectives/peer_order.h"

#include <gtest/gtest.h>

#include <set>

#include "plan/collectives/registry.h"

namespace weft::collectives {
namespace {

using namespace schedule;

const UnevenNodes kUneven{.first = {0, 3, 7, 9}, .places = {0, 1, 2, 0, 1, 2, 3, 1, 2}, .common = {1, 2}};

std::vector<RankContext> contexts() {
  std::vector<RankContext> all{{.ranks = 9, .nodes = &kUneven}};
  for (const auto& [n, per_node] :
       {std::pair{1, 1}, {5, 1}, {8, 8}, {8, 2}, {9, 3}, {12, 3}, {64, 8}, {10, 4}, {17, 17}, {7, 3}})
    all.push_back({.ranks = n, .ranks_per_node = per_node});
  return all;
}

TEST(PeerOrder, NamesEveryRankOnceAndItselfFirst) {
  for (RankContext s : contexts())
    for (s.rank = 0; s.rank < s.ranks; ++s.rank) {
      const PeerOrder order(s);
      std::set<Rank> after, before;
      for (Rank k = 0; k < s.ranks; ++k) {
        after.insert(order.after(k));
        before.insert(order.before(k));
      }
      EXPECT_EQ(order.after(0), s.rank);
      EXPECT_EQ(order.before(0), s.rank);
      EXPECT_EQ(static_cast<Rank>(after.size()), s.ranks);
      EXPECT_EQ(static_cast<Rank>(before.size()), s.ranks);
      EXPECT_TRUE(*after.begin() == 0 && *after.rbegin() == s.ranks - 1);
      EXPECT_TRUE(*before.begin() == 0 && *before.rbegin() == s.ranks - 1);
    }
}

TEST(PeerOrder, OnEqualNodesTheKthReceiverReceivesFromItsKthSender) {
  for (RankContext s : contexts()) {
    if (!PeerOrder::even(s)) continue;
    for (s.rank = 0; s.rank < s.ranks; ++s.rank)
      for (Rank k = 0; k < s.ranks; ++k) {
        RankContext there = s;
        there.rank = PeerOrder(s).after(k);
        EXPECT_EQ(PeerOrder(there).before(k), s.rank) << "rank " << s.rank << " of " << s.ranks << ", step " << k;
      }
  }
}

// The order of rank numbers would let all eight ranks of a node send to the same first rank of the next node at once.
TEST(PeerOrder, TheRanksOfANodeSendToDifferentRanksAtTheSameStep) {
  constexpr Rank kPerNode = 8, kNodes = 4, kRanks = kNodes * kPerNode;
  for (const auto& [collective, name] : {std::pair{Collective::kAllToAll, "spread"},
                                         {Collective::kAllToAll, "pairwise"},
                                         {Collective::kAllReduce, "all_pairs"},
                                         {Collective::kAllGather, "spread"}}) {
    const Algorithm& a = **find_algorithm(collective, name);
    std::vector<std::vector<Rank>> sent(kPerNode);  // by rank of the first node: to other nodes, in order
    for (Rank r = 0; r < kPerNode; ++r) {
      auto steps = a.steps({.rank = r, .ranks = kRanks, .ranks_per_node = kPerNode});
      auto& mine = sent[static_cast<std::size_t>(r)];
      while (const Step* step = steps.next())
        for (const Operand& o : step->destinations)
          if (o.message() && o.peer >= kPerNode && mine.size() < kRanks - kPerNode) mine.push_back(o.peer);
    }
    for (std::size_t k = 0; k < kRanks - kPerNode; ++k) {
      std::set<Rank> to;
      for (const auto& mine : sent) to.insert(mine.at(k));
      EXPECT_EQ(to.size(), std::size_t{kPerNode}) << name << ", step " << k;
    }
  }
}

}  // namespace
}  // namespace weft::collectives
