// The soak for some seconds, always the same: every transport, with and without faults.

#include <gtest/gtest.h>

#include "net/ucx/ucx.h"
#include "tests/soak/episode.h"

namespace weft::soak {
namespace {

class ShortSoak : public testing::TestWithParam<Episode> {};

TEST_P(ShortSoak, EveryResultIsRightWhateverHappens) {
  if (GetParam().over >= Episode::Over::kUcx && !net::ucx::available()) GTEST_SKIP() << "no UCX here";
  const Outcome outcome = run(GetParam());
  EXPECT_EQ(outcome.wrong, "") << GetParam().text();
  EXPECT_GT(outcome.checked, 0);
  if (GetParam().kills == 0) {
    EXPECT_EQ(outcome.checked, GetParam().calls);
  }
}

using Over = Episode::Over;
INSTANTIATE_TEST_SUITE_P(
    Over, ShortSoak,
    testing::Values(Episode{.over = Over::kThreads, .ranks = 3, .calls = 300, .seed = 11},
                    Episode{.over = Over::kShm, .ranks = 4, .calls = 400, .kills = 1, .stops = 1, .seed = 12},
                    Episode{.over = Over::kTcp, .ranks = 3, .calls = 200, .kills = 1, .stops = 1, .seed = 13},
                    Episode{.over = Over::kMixed, .ranks = 4, .calls = 200, .kills = 1, .stops = 1, .seed = 14},
                    Episode{.over = Over::kMixed, .ranks = 5, .calls = 150, .seed = 15},
                    Episode{.over = Over::kUcx, .ranks = 4, .calls = 200, .kills = 1, .stops = 1, .seed = 16},
                    Episode{.over = Over::kMixedUcx, .ranks = 4, .calls = 200, .kills = 1, .stops = 1, .seed = 17}),
    [](const auto& info) { return "Seed" + std::to_string(info.param.seed); });

}  // namespace
}  // namespace weft::soak
