#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "plan/collectives/registry.h"
#include "plan/schedule/lower/lower.h"

// What algorithms claim about their texts, so that simulations can leave out ranks and steps.
namespace weft::collectives {
namespace {

using namespace schedule;

// A step as a simulation sees it: who moves how many operands of which kind to whom. Chunks are equally large. `by`:
// the ranks by which peers are rotated back.
std::vector<std::vector<std::int64_t>> seen(const Step& step, Rank by, Rank ranks) {
  const auto back = [&](Rank r) { return r < 0 ? r : (r - by + ranks) % ranks; };
  std::vector<std::vector<std::int64_t>> all{{static_cast<std::int64_t>(step.kind), back(step.peer)}};
  for (const auto* side : {&step.sources, &step.destinations})
    for (const Operand& o : *side)
      all.push_back({side == &step.sources, static_cast<std::int64_t>(o.kind), o.lane, o.open,
                     o.kind == Operand::Kind::kLocal ? -1 : back(o.peer), o.count, o.stride});
  std::sort(all.begin() + 1, all.end());
  return all;
}

// Whether every rank has the steps of the one `rotation` before it.
bool rotates(const Algorithm& a, RankContext context, Rank rotation) {
  for (Rank r = 0; r < context.ranks; ++r) {
    RankContext here = context, there = context;
    here.rank = r;
    there.rank = (r + rotation) % context.ranks;
    auto mine = a.steps(here), rotated = a.steps(there);
    for (;;) {
      const Step *x = mine.next(), *y = rotated.next();
      if ((x == nullptr) != (y == nullptr)) return false;
      if (x == nullptr) break;
      if (seen(*x, 0, context.ranks) != seen(*y, rotation, context.ranks)) return false;
    }
  }
  return true;
}

template <class Visit>
void for_all_stories(const Algorithm& a, Visit&& visit) {
  for (const auto& [n, per_node] : {std::pair{2, 1},
                                    {3, 3},
                                    {5, 1},
                                    {8, 8},
                                    {8, 2},
                                    {9, 3},
                                    {12, 3},
                                    {16, 4},
                                    {24, 8},
                                    {32, 8},
                                    {40, 4},
                                    {10, 4},
                                    {17, 17},
                                    {30, 5}})
    for (int channel = 0; channel < 5; channel += 2)
      for (int lane = 0; lane < a.lanes; ++lane)
        for (const bool staged : {false, true})
          visit(RankContext{.ranks = n,
                            .ranks_per_node = per_node,
                            .channel = channel,
                            .lane = lane,
                            .staged = staged,
                            .bundle = staged ? n : 0});
}

TEST(Orders, ChannelsTellTheSameAfterSoMany) {
  int several = 0;
  const RingOrders rings{{0, 2, 1, 3}, {3, 1, 0, 2}, {1, 0, 3, 2}};
  const UnevenNodes nodes{.first = {0, 3, 7, 9}, .places = {0, 1, 2, 0, 1, 2, 3, 1, 2}, .common = {1, 2}};
  const auto same = [&](const Algorithm& a, RankContext s) {
    const int orders = a.orders_for(s);
    several += orders > 1 ? 1 : 0;
    for (s.rank = 0; s.rank < s.ranks; ++s.rank)
      for (int channel = orders; channel < 2 * orders + 2; ++channel) {
        RankContext first = s, other = s;
        first.channel = channel % orders;
        other.channel = channel;
        auto mine = a.steps(first), others = a.steps(other);
        for (;;) {
          const Step *x = mine.next(), *y = others.next();
          ASSERT_EQ(x == nullptr, y == nullptr) << a.name << " " << name(a.collective);
          if (x == nullptr) break;
          ASSERT_TRUE(*x == *y) << a.name << " " << name(a.collective) << " on " << s.ranks << ", " << s.ranks_per_node
                                << " per node, channel " << channel;
        }
      }
  };
  for (const Algorithm& a : algorithms()) {
    for_all_stories(a, [&](const RankContext& s) {
      if (s.channel > 0) return;
      same(a, s);
      RankContext ordered = s;
      ordered.rings = &rings;
      if (s.ranks_per_node == 4) same(a, ordered);
    });
    for (int lane = 0; lane < a.lanes; ++lane) same(a, {.ranks = 9, .lane = lane, .nodes = &nodes});
  }
  EXPECT_GT(several, 100);
}

TEST(Turn, EveryRankDoesWhatTheOneATurnBeforeItDoes) {
  int claims = 0;
  for (const Algorithm& a : algorithms())
    for_all_stories(a, [&](const RankContext& s) {
      if (const Rank rotation = a.rotation_for(s); rotation > 0 && rotation < s.ranks) {
        ++claims;
        EXPECT_TRUE(rotates(a, s, rotation))
            << a.name << " " << name(a.collective) << " on " << s.ranks << ", " << s.ranks_per_node
            << " per node, channel " << s.channel << ", rotation " << rotation;
      }
    });
  EXPECT_GT(claims, 1000);
}

// What takes time: who moves how many bytes of which message.
std::vector<std::int64_t> timed(const protocol::Operation& o) {
  std::vector<std::int64_t> all{static_cast<std::int64_t>(o.kind), o.peer, o.strand, o.bytes};
  for (const auto* ends : {&o.sources, &o.destinations}) {
    all.push_back(static_cast<std::int64_t>(ends->size()));
    std::multiset<std::vector<std::int64_t>> in_any_order;
    for (const protocol::End& end : *ends)
      in_any_order.insert({static_cast<std::int64_t>(end.kind), end.peer, end.strand, end.last});
    for (const auto& end : in_any_order) all.insert(all.end(), end.begin(), end.end());
  }
  return all;
}

TEST(Turn, AStrandToldByAnotherRankTakesTheSameTime) {
  int compared = 0;
  for (const Algorithm& a : algorithms())
    for (const auto& [n, per_node] : {std::pair{6, 6}, {16, 4}, {48, 8}}) {
      if (uneven(a.collective) || a.collective == Collective::kBarrier) continue;
      const Task task{.collective = a.collective,
                      .ranks = n,
                      .ranks_per_node = per_node,
                      .elements = Bytes{n} * n * 96,
                      .element_bytes = 4};
      const auto protocol = a.needs.messages ? protocol::Protocol::kSimple : protocol::Protocol::kDirect;
      const Plan plan = make_plan(task, a, protocol, 2, {.max_slice = 64 << 10, .scratch_bytes = 1 << 20}, true);
      if (cut_of(task, plan).round == 0) continue;
      const LoweringContext cached(task, plan, LoweringContext::For::kTime);
      LoweringContext own = cached;
      own.symmetric.clear();
      for (Rank r = 0; !cached.symmetric.empty() && r < n; ++r)
        for (int strand = 0; strand < 2 * a.lanes; ++strand, ++compared) {
          StrandStream as_cached(cached, r, strand), of_its_own(own, r, strand);
          for (;;) {
            const protocol::Operation *x = as_cached.next(), *y = of_its_own.next();
            ASSERT_EQ(x == nullptr, y == nullptr) << a.name << " " << name(a.collective) << " on " << n;
            if (x == nullptr) break;
            ASSERT_EQ(timed(*x), timed(*y)) << a.name << " " << name(a.collective) << " on " << n << ", rank " << r;
          }
        }
    }
  EXPECT_GT(compared, 1000);
}

TEST(Turn, TheComparisonSeesWhereRanksDiffer) {
  // Odd nodes of a ring run backwards; ranks of a tree have heights.
  const auto* ring = find_algorithm(Collective::kAllReduce, "ring").value();
  const auto* tree = find_algorithm(Collective::kAllReduce, "tree").value();
  EXPECT_FALSE(rotates(*ring, {.ranks = 16, .ranks_per_node = 4}, 4));
  EXPECT_FALSE(rotates(*tree, {.ranks = 16, .ranks_per_node = 4}, 4));
}

TEST(Repeats, AShorterStoryIsTheSameWithLikeStepsLeftOut) {
  int shortened = 0;
  for (const Algorithm& a : algorithms())
    for_all_stories(a, [&](const RankContext& s) {
      constexpr int kTold = 3;
      const int repeats = a.repeats_for(s);
      if (repeats <= kTold) return;
      ++shortened;
      for (RankContext rank = s; rank.rank < s.ranks; ++rank.rank) {
        // Runs of like steps, as pairs of what they look like and how long they are; the longer one has the same runs
        // but for those that it repeats more often.
        const auto runs_of = [&](RankContext context_of_rank) {
          std::vector<std::pair<std::vector<std::vector<std::int64_t>>, int>> runs;
          auto steps = a.steps(context_of_rank);
          while (const Step* step = steps.next()) {
            auto look = seen(*step, 0, s.ranks);
            if (runs.empty() || runs.back().first != look)
              runs.emplace_back(std::move(look), 1);
            else
              ++runs.back().second;
          }
          return runs;
        };
        const auto whole = runs_of(rank);
        RankContext fewer = rank;
        fewer.repeat_limit = kTold;
        const auto part = runs_of(fewer);
        ASSERT_EQ(whole.size(), part.size()) << a.name << " " << name(a.collective);
        for (std::size_t i = 0; i < whole.size(); ++i) {
          EXPECT_EQ(whole[i].first, part[i].first) << a.name;
          EXPECT_TRUE(whole[i].second == part[i].second || whole[i].second - part[i].second == repeats - kTold)
              << a.name << " " << name(a.collective) << ": run " << i;
        }
      }
    });
  EXPECT_GT(shortened, 100);
}

// Who sends to whom among nodes in one lane, as pairs of nodes.
std::set<std::pair<Rank, Rank>> edges_between_nodes(const Algorithm& a, RankContext context) {
  std::set<std::pair<Rank, Rank>> edges;
  for (context.rank = 0; context.rank < context.ranks; ++context.rank) {
    auto steps = a.steps(context);
    while (const Step* step = steps.next())
      for (const Operand& o : step->destinations)
        if (const Rank from = context.rank / context.ranks_per_node, to = o.peer / context.ranks_per_node;
            o.message() && from != to)
          edges.emplace(from, to);
  }
  return edges;
}

TEST(Growth, ATreeOnEverySecondNodeIsTheSameWithoutItsLeaves) {
  int compared = 0;
  for (const Algorithm& a : algorithms()) {
    if (a.growth != Growth::kPerLevel) continue;
    for (const Rank nodes : {4, 8, 12, 32})
      for (const Rank per_node : {2, 4})
        for (int lane = 0; lane < a.lanes; ++lane) {
          const auto on = [&](Rank count) {
            return edges_between_nodes(a, {.ranks = count * per_node, .ranks_per_node = per_node, .lane = lane});
          };
          const auto all = on(2 * nodes), fewer = on(nodes);
          const auto contained = [&](Rank odd) {  // mirrored trees have their leaves at even nodes
            return std::ranges::all_of(fewer, [&](const auto& edge) {
              return all.contains({2 * edge.first + odd, 2 * edge.second + odd});
            });
          };
          EXPECT_TRUE(contained(0) || contained(1)) << a.name << " on " << nodes << " nodes, lane " << lane;
          EXPECT_EQ(all.size(), fewer.empty() ? 0 : fewer.size() + static_cast<std::size_t>(nodes)) << a.name;
          compared += fewer.empty() ? 0 : 1;
        }
  }
  EXPECT_GE(compared, 3 * 8);
}

}  // namespace
}  // namespace weft::collectives
