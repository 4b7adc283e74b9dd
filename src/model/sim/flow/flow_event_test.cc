#include "model/sim/flow/flow_event.h"

#include <gtest/gtest.h>

namespace weft::sim {
namespace {

TEST(FlowEvent, GivesBackTheFieldsOfItsType) {
  const FlowEvent part(FlowEvent::PartArrives{.aggregation = 7, .rank = 3});
  int visited = 0;
  part.visit([&](const auto& what) {
    if constexpr (std::is_same_v<std::decay_t<decltype(what)>, FlowEvent::PartArrives>) {
      EXPECT_EQ(what.aggregation, 7);
      EXPECT_EQ(what.rank, 3);
      ++visited;
    }
  });
  EXPECT_EQ(visited, 1);
  EXPECT_EQ(FlowEvent(FlowEvent::SignalArrives{.connection = 5, .step = -1}).as<FlowEvent::SignalArrives>().step, -1);
}

TEST(FlowEvent, HoldsATimerOfTheCarrier) {
  const FlowEvent event(Carrier::Timer{.kind = 200, .subject = -4, .detail = 4000000000u});
  event.visit([&](const auto& what) {
    if constexpr (std::is_same_v<std::decay_t<decltype(what)>, Carrier::Timer>) {
      EXPECT_EQ(what.kind, 200);
      EXPECT_EQ(what.subject, -4);
      EXPECT_EQ(what.detail, 4000000000u);
    } else {
      ADD_FAILURE();
    }
  });
}

TEST(FlowEvent, KeepsASimulationGoingIfSomethingWaitsForIt) {
  EXPECT_TRUE(FlowEvent(FlowEvent::Resume{0}).keeps_going());
  EXPECT_TRUE(FlowEvent(FlowEvent::Computed{0, 1}).keeps_going());
  EXPECT_FALSE(FlowEvent(FlowEvent::Flap{0, 1}).keeps_going());
  EXPECT_FALSE(FlowEvent(FlowEvent::Change{0}).keeps_going());
  EXPECT_FALSE(FlowEvent(FlowEvent::Background{0}).keeps_going());
  EXPECT_FALSE(FlowEvent(Carrier::Timer{}).keeps_going());
}

}  // namespace
}  // namespace weft::sim
