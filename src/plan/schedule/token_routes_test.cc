#include "plan/schedule/token_routes.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::schedule {
namespace {

std::vector<int> taken_by_rank(const TokenRoutes& routes) {
  std::vector<int> taken(static_cast<std::size_t>(routes.ranks()));
  for (ChunkId t = 0; t < routes.tokens(); ++t)
    for (const Rank r : routes.of(t)) ++taken[static_cast<std::size_t>(r)];
  return taken;
}

TEST(TokenRoutes, WithoutImbalanceAllRanksGetEquallyMuch) {
  for (const Rank per_node : {1, 4, 8}) {
    const auto routes =
        draw({.ranks = 16, .ranks_per_node = per_node, .tokens = 128, .per_token = 8, .experts = 256}).value();
    EXPECT_EQ(routes->tokens_per_rank(), 64);  // groups of two
    const std::vector<int> taken = taken_by_rank(*routes);
    EXPECT_EQ(std::set(taken.begin(), taken.end()).size(), 1) << per_node;
  }
}

TEST(TokenRoutes, RepeatWithTheRotationThatTheySay) {
  const auto routes = draw({.ranks = 12, .ranks_per_node = 4, .tokens = 16, .per_token = 3, .experts = 24}).value();
  ASSERT_EQ(routes->rotation(), 4);
  for (Rank r = 0; r < 8; ++r)
    for (ChunkId i = 0; i < 16; ++i)
      for (const Rank to : routes->of(r * 16 + i)) EXPECT_TRUE(routes->goes((r + 4) * 16 + i, (to + 4) % 12));
}

TEST(TokenRoutes, TheBusiestRankGetsAsManyTimesTheMeanAsAsked) {
  const auto routes =
      draw({.ranks = 8, .ranks_per_node = 8, .tokens = 64, .per_token = 1, .experts = 64, .imbalance = 3}).value();
  EXPECT_EQ(routes->rotation(), 0);
  EXPECT_NEAR(taken_by_rank(*routes)[0], 3 * 64, 25);
}

TEST(TokenRoutes, PerExpertATokenTravelsForEachOfItsExperts) {
  const Draw d{.ranks = 4, .ranks_per_node = 4, .tokens = 8, .per_token = 6, .experts = 8};
  Draw each = d;
  each.copies = Copies::kPerExpert;
  const auto once = draw(d).value(), copies = draw(each).value();
  EXPECT_EQ(copies->tokens_per_rank(), 8 * 6);
  EXPECT_NEAR(copies->sent_per_token() * 6, 6 * 3 / 4.0, 1);
  EXPECT_LE(once->sent_per_token(), 3);
}

TEST(TokenRoutes, OfACallAreThoseOfItsTable) {
  const std::int32_t table[] = {0, 3, -1, -1, 2, 2, 1, 0};  // two ranks, two tokens, two experts each of four
  const auto routes = routes_of(table, 2, 2, 4).value();
  EXPECT_EQ(routes->of(0).size(), 2);
  EXPECT_TRUE(routes->of(1).empty());
  EXPECT_EQ(std::vector(routes->of(2).begin(), routes->of(2).end()), std::vector<Rank>{1});
  EXPECT_EQ(std::vector(routes->of(3).begin(), routes->of(3).end()), std::vector<Rank>{0});
}

TEST(TokenRoutes, WhatDoesNotFitIsNamed) {
  const std::int32_t table[] = {0, 1, 9, 2};
  EXPECT_EQ(routes_of(table, 2, 1, 4).error().message, "rank 1 token 0: expert 9 of 4");
  EXPECT_EQ(routes_of(table, 2, 3, 4).error().message,
            "4 numbers of experts are not 3 per token of 2 ranks, as many tokens on each");
  EXPECT_FALSE(draw({.ranks = 3, .experts = 8}).has_value());
  EXPECT_FALSE(draw({.ranks = 2, .per_token = 9, .experts = 8}).has_value());
  EXPECT_FALSE(draw({.ranks = 2, .experts = 8, .imbalance = 0.5}).has_value());
  EXPECT_FALSE(draw({.ranks = 2, .experts = 8, .imbalance = 2.5}).has_value());
  EXPECT_FALSE(draw({.ranks = 2, .tokens = 0, .experts = 8}).has_value());
}

}  // namespace
}  // namespace weft::schedule
