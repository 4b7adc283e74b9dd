#include "plan/schedule/step.h"

#include <gtest/gtest.h>

namespace weft::schedule {
namespace {

TEST(Step, ReadsLikeASentence) {
  EXPECT_EQ(to_string(move(3, {from(1), in(3)}, {out(3), to(2)})),
            "move chunk 3: message from 1 + in[3] -> out[3], message to 2");
  EXPECT_EQ(to_string(move(0, {at(4, scratch(0))}, {at(5, out(0))})), "move chunk 0: scratch[0] of 4 -> out[0] of 5");
  EXPECT_EQ(to_string(signal(2)), "signal 2");
  EXPECT_EQ(to_string(wait(0)), "wait for 0");
}

TEST(Step, ComparesByValue) {
  EXPECT_EQ(move(0, {in(0)}, {out(0)}), move(0, {in(0)}, {out(0)}));
  EXPECT_FALSE(move(0, {in(0)}, {out(0)}) == move(0, {in(0)}, {scratch(0)}));
  EXPECT_FALSE(signal(1) == wait(1));
}

}  // namespace
}  // namespace weft::schedule
