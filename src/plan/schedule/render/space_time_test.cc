#include "plan/schedule/render/space_time.h"

#include <gtest/gtest.h>

#include "plan/schedule/render/timeline.h"

namespace weft::schedule {
namespace {

// Rank 0 sends its chunk to rank 1, in the second of two lanes.
Schedule one_message() {
  Schedule s{.shape = {Collective::kBroadcast, 2, 0, 1}, .scratch = 0, .lanes = 2, .strands = {}, .orders = {}};
  s.strands = {{}, {move(0, {in(0)}, {out(0), to(1)})}, {}, {move(0, {from(0)}, {out(0)})}};
  return s;
}

TEST(Timeline, AMessageArrivesOneColumnAfterItWasSent) {
  const Timeline t = timeline(one_message());
  EXPECT_EQ(t.levels, (std::vector<std::vector<int>>{{}, {0}, {}, {1}}));
  ASSERT_EQ(t.arrows.size(), 1u);
  EXPECT_EQ(t.arrows[0].to.strand, 3);
}

TEST(Timeline, OrdersPutAStepAfterAnotherLanes) {
  Schedule s = one_message();
  s.strands[0] = {move(0, {in(0)}, {out(0)}), move(0, {in(0)}, {out(0)})};
  s.orders = {{1, 0, 0, 1}};
  EXPECT_EQ(timeline(s).levels, (std::vector<std::vector<int>>{{0, 1}, {2}, {}, {3}}));
}

TEST(SpaceTime, DrawsAnArrowPerMessageAndNoRowForALaneThatNobodyUses) {
  const std::string svg = *space_time_svg(one_message(), "one <message>");
  EXPECT_NE(svg.find("one &lt;message&gt;: 2 time steps"), std::string::npos);
  const auto count = [&](std::string_view word) {
    int n = 0;
    for (std::size_t i = svg.find(word); i != std::string::npos; i = svg.find(word, i + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<polygon"), 1 + 2);        // and two in the legend
  EXPECT_EQ(count("stroke=\"#d5d8dd\""), 2);  // rows
}

TEST(SpaceTime, SaysHowManyStepsNeverRun) {
  Schedule s = one_message();
  s.strands[1].clear();
  EXPECT_NE(space_time_svg(s, "cut")->find("1 step never run"), std::string::npos);
}

}  // namespace
}  // namespace weft::schedule
