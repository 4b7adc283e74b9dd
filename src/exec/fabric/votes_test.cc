#include "exec/fabric/votes.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace weft::fabric {
namespace {

TEST(Votes, WindowsDoubleAndTheLastNeverEnds) {
  for (const auto& [call, window] : {std::pair{1, 0}, {2, 1}, {3, 1}, {4, 2}, {7, 2}, {8, 3}})
    EXPECT_EQ(Votes::window_of(static_cast<std::uint64_t>(call)), window) << call;
  for (int w = 0; w + 1 < Votes::kWindows; ++w) EXPECT_EQ(Votes::window_of(Votes::end_of(w)), w + 1);
  EXPECT_EQ(Votes::window_of(~std::uint64_t{0}), Votes::kWindows - 1);
}

TEST(Votes, AWindowIsDirectOnlyIfAllRanksHaveVotedInTheOneBefore) {
  Votes votes{};
  votes.vote(0);
  votes.vote(0);
  EXPECT_FALSE(votes.decide(0, 2));  // the first calls are staged
  EXPECT_TRUE(votes.decide(1, 2));
  votes.vote(1);
  EXPECT_FALSE(votes.decide(2, 2));  // one of two
}

TEST(Votes, ADecisionStaysWhateverIsVotedLater) {
  Votes votes{};
  votes.vote(0);
  EXPECT_FALSE(votes.decide(1, 2));
  votes.vote(0);
  EXPECT_FALSE(votes.decide(1, 2));
}

TEST(Votes, RanksThatDecideAtTheSameTimeFindTheSame) {
  for (int round = 0; round < 200; ++round) {
    Votes votes{};
    std::vector<int> found(4);
    std::vector<std::thread> ranks;
    for (std::size_t r = 0; r < found.size(); ++r)
      ranks.emplace_back([&, r] {
        votes.vote(0);
        found[r] = votes.decide(1, 4) ? 1 : 0;
      });
    for (std::thread& t : ranks) t.join();
    for (const int each : found) EXPECT_EQ(each, found[0]);
  }
}

}  // namespace
}  // namespace weft::fabric
