#include "plan/collectives/experts.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "plan/collectives/registry.h"
#include "plan/schedule/verify/verify.h"

namespace weft::collectives {
namespace {

using namespace schedule;

// Messages of a rank to ranks of its own node, and of others, counted from the steps.
struct Sent {
  int within = 0, across = 0;
};
Sent sent_by(const Algorithm& a, RankContext context) {
  Sent sent;
  for (context.lane = 0; context.lane < a.lanes; ++context.lane) {
    auto steps = a.steps(context);
    while (const Step* step = steps.next())
      for (const Operand& o : step->destinations)
        if (o.message())
          ++(o.peer / context.ranks_per_node == context.rank / context.ranks_per_node ? sent.within : sent.across);
  }
  return sent;
}

std::shared_ptr<const TokenRoutes> drawn(Draw d) { return draw(d).value(); }

TEST(Experts, ASpreadDispatchSendsATokenOnceToEachRankOfItsExperts) {
  const auto routes =
      drawn({.ranks = 8, .ranks_per_node = 4, .tokens = 32, .per_token = 4, .experts = 32, .imbalance = 2});
  const Algorithm& a = *find_algorithm(Collective::kDispatch, "spread").value();
  for (Rank r = 0; r < 8; ++r) {
    int wanted = 0;
    for (ChunkId t = r * 32; t < (r + 1) * 32; ++t)
      wanted += static_cast<int>(routes->of(t).size()) - routes->goes(t, r);
    const Sent sent = sent_by(a, {.rank = r, .ranks = 8, .ranks_per_node = 4, .routes = routes.get()});
    EXPECT_EQ(sent.within + sent.across, wanted) << r;
  }
}

TEST(Experts, OncePerNodeCrossesTheNetworkOncePerNodeOfATokensExperts) {
  const auto routes =
      drawn({.ranks = 16, .ranks_per_node = 4, .tokens = 16, .per_token = 6, .experts = 64, .imbalance = 1.5});
  for (const Collective c : {Collective::kDispatch, Collective::kCombine}) {
    const Algorithm& a = *find_algorithm(c, "once_per_node").value();
    int across = 0, wanted = 0;
    for (Rank r = 0; r < 16; ++r)
      across += sent_by(a, {.rank = r, .ranks = 16, .ranks_per_node = 4, .routes = routes.get()}).across;
    for (ChunkId t = 0; t < routes->tokens(); ++t) {
      std::set<Rank> nodes;
      for (const Rank to : routes->of(t)) nodes.insert(to / 4);
      nodes.erase(routes->owner(t) / 4);
      wanted += static_cast<int>(nodes.size());
    }
    EXPECT_EQ(across, wanted) << name(c);
  }
}

// What a real router does: tokens without experts, all on one rank, none on some.
TEST(Experts, AreProvedForRoutesOfAnyKind) {
  std::vector<std::int32_t> table;
  for (int r = 0; r < 6; ++r)
    for (int t = 0; t < 5; ++t)
      for (int k = 0; k < 3; ++k) table.push_back(t == 0 ? -1 : t == 1 ? k % 2 : (r * 7 + t * 5 + k * 3) % 12);
  const auto routes = routes_of(table, 6, 3, 12).value();
  for (const Collective c : {Collective::kDispatch, Collective::kCombine})
    for (const Algorithm* a : algorithms_for(c))
      for (const Rank per_node : {1, 2, 3, 6}) {
        const auto proof = verify(write_out(*a, {.ranks = 6, .ranks_per_node = per_node, .routes = routes.get()}),
                                  {.in_order = a->in_order});
        EXPECT_TRUE(proof.ok()) << a->name << " " << name(c) << ": " << proof.counterexample->text;
      }
}

TEST(Experts, ALostContributionIsFound) {
  const Algorithm& a = *find_algorithm(Collective::kCombine, "spread").value();
  Schedule s = write_out(a, {.ranks = 4, .ranks_per_node = 4});
  auto& strand = s.strand(1, 2);
  ASSERT_FALSE(strand.empty());
  for (Step& step : strand)
    if (step.sources.size() > 1) {
      step.sources = Operands{step.sources[0]};
      break;
    }
  EXPECT_FALSE(verify(s).ok());
}

}  // namespace
}  // namespace weft::collectives
