#include "plan/cost/in_flight.h"

#include <gtest/gtest.h>

namespace weft::cost {
namespace {

TEST(InFlight, PartsOfOneMessageArriveTogetherAndCostOne) {
  InFlight in_flight(8, 20, 100);
  EXPECT_EQ(in_flight.filled_by(7, false), 0);
  in_flight.put(7, {1, 1}, false);
  EXPECT_TRUE(in_flight.empty(7));  // more of it follows
  EXPECT_EQ(in_flight.filled_by(7, true), 1);
  in_flight.put(7, {2, 2}, true);
  EXPECT_EQ(in_flight.take(7, false).first, 2);  // when the last part was put in
  EXPECT_EQ(in_flight.take(7, true).last, 2);
  EXPECT_TRUE(in_flight.empty(7));
}

TEST(InFlight, WhatIsLargerThanAMessageGoesAsSeveral) {
  InFlight in_flight(8, 150, 100);
  EXPECT_EQ(in_flight.filled_by(7, false), 1);
  in_flight.put(7, {1, 2}, false);
  EXPECT_EQ(in_flight.filled_by(7, true), 2);  // 300 in three
  in_flight.put(7, {3, 5}, true);
  EXPECT_EQ(in_flight.take(7, false).first, 1);  // its first slice filled a message alone
  const auto last = in_flight.take(7, true);
  EXPECT_EQ(last.first, 3);  // half of the message's bytes between 1 and 5
  EXPECT_EQ(last.last, 5);
}

TEST(InFlight, EmptyMessagesAreMessages) {
  InFlight in_flight(8, 0, 100);
  EXPECT_EQ(in_flight.filled_by(7, true), 1);
  EXPECT_EQ(in_flight.filled_by(7, false), 0);
}

}  // namespace
}  // namespace weft::cost
