#include "plan/cost/queues.h"

#include <gtest/gtest.h>

namespace weft::cost {
namespace {

TEST(Queues, AreFirstInFirstOutEachByItself) {
  Queues<int> queues(3);
  for (int round = 0; round < 2; ++round) {  // again in the room of the first
    for (int i = 0; i < 4; ++i) queues.push(0, i);
    queues.push(2, 10);
    queues.push(0, 4);
    queues.back(2) = 11;
    for (int i = 0; i < 5; ++i) {
      ASSERT_FALSE(queues.empty(0));
      EXPECT_EQ(queues.front(0), i);
      queues.pop(0);
    }
    EXPECT_TRUE(queues.empty(0));
    EXPECT_TRUE(queues.empty(1));
    EXPECT_EQ(queues.front(2), 11);
    queues.pop(2);
    EXPECT_TRUE(queues.empty(2));
  }
}

}  // namespace
}  // namespace weft::cost
