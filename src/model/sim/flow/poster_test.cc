#include "model/sim/flow/poster.h"

#include <gtest/gtest.h>

namespace weft::sim {
namespace {

using Actors = std::vector<std::int32_t>;

TEST(Poster, SharesItsTimeEqually) {
  Poster poster;
  poster.add(1, 1e-6, {});
  poster.add(2, 2e-6, {});
  Duration now = poster.next({});
  EXPECT_EQ(now, Duration::microseconds(2));  // both are under way; half of the time each
  EXPECT_EQ(poster.take(now), Actors{1});
  now += poster.next(now);
  EXPECT_EQ(now, Duration::microseconds(3));  // all the work there is, whatever the order
  EXPECT_EQ(poster.take(now), Actors{2});
  EXPECT_TRUE(poster.idle());
}

// The clock counts picoseconds; a share of one may be below its resolution.
TEST(Poster, EndsWhateverTheShares) {
  for (const int posts : {3, 7, 64}) {
    Poster poster;
    Duration now;
    for (int i = 0; i < posts; ++i) poster.add(i, 1e-6 + i * 0.37e-12, now += Duration::picoseconds(i));
    int done = 0;
    for (int events = 0; !poster.idle(); ++events) {
      ASSERT_LT(events, 4 * posts);
      now += poster.next(now);
      done += static_cast<int>(poster.take(now).size());
    }
    EXPECT_EQ(done, posts);
    EXPECT_NEAR(now.s(), posts * 1e-6, posts * 40e-12);
  }
}

}  // namespace
}  // namespace weft::sim
