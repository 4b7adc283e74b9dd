#include "model/sim/flow/switches.h"

#include <gtest/gtest.h>

namespace weft::sim {
namespace {

Aggregation of_three() {
  protocol::End end{.kind = protocol::End::Kind::kAggregation, .peer = 4};
  end.count = 3, end.stride = 2;  // ranks 4, 6, 8
  return {Group(end), 0};
}

TEST(Aggregation, ASumSetsOutWithTheLastPart) {
  Aggregation a = of_three();
  for (const Rank r : {4, 6, 8}) a.send(a.member(r), 100, nullptr);
  EXPECT_FALSE(a.arrive(a.member(8)));
  EXPECT_FALSE(a.arrive(a.member(4)));
  EXPECT_EQ(a.arrive(a.member(6)), 100);
}

TEST(Aggregation, TurnsAreKeptApartWhenOneMemberRunsAhead) {
  Aggregation a = of_three();
  for (const Bytes bytes : {10, 20}) a.send(a.member(4), bytes, nullptr);
  for (const Rank r : {6, 8})
    for (const Bytes bytes : {10, 20}) a.send(a.member(r), bytes, nullptr);
  EXPECT_FALSE(a.arrive(a.member(4)));
  EXPECT_FALSE(a.arrive(a.member(4)));
  EXPECT_FALSE(a.arrive(a.member(6)));
  EXPECT_EQ(a.arrive(a.member(8)), 10);
  EXPECT_FALSE(a.arrive(a.member(8)));
  EXPECT_EQ(a.arrive(a.member(6)), 20);
}

TEST(Aggregation, EveryMemberTakesAllPartsInTheirOrder) {
  Aggregation a = of_three();
  for (const Rank r : {8, 4, 6}) {
    std::vector<std::byte> data{std::byte(r)};
    a.send(a.member(r), 1, &data);
    a.arrive(a.member(r));
  }
  for (const Rank r : {4, 6, 8}) {
    const auto parts = a.take(a.member(r));
    ASSERT_EQ(parts.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(parts[i], std::vector{std::byte(4 + 2 * i)});
  }
}

}  // namespace
}  // namespace weft::sim
