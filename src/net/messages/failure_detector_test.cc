#include "net/messages/failure_detector.h"

#include <gtest/gtest.h>

namespace weft::net::messages {
namespace {

using namespace std::chrono_literals;

// Rank 0 of four, which has met those that the test says, and notes whom it notifies. No process answers.
class Rank0 : public testing::Test, protected FailureDetector::Connections {
 protected:
  Rank0() { meeting_.ranks.resize(4); }

  Hub::Guard guard() const override { return {}; }
  bool has_met(Rank peer) const override { return met_[static_cast<std::size_t>(peer)]; }
  bool reads_callers(Rank) const override { return false; }
  void tell_broken(Rank peer, const BrokenBy&) override { told_broken_.push_back(peer); }
  void tell_awaited(Rank peer) override { told_awaited_.push_back(peer); }
  void forget_targets() override { ++forgotten_; }
  void drop_callers() override {}
  bootstrap::Member::Clash clash_with(Rank) const override { return {}; }
  std::optional<std::uint32_t> chain_at(std::uint64_t) const override { return std::nullopt; }
  ContextId number_at(Rank) const override { return 0; }
  std::string describe(Rank) const override { return "a process"; }

  bootstrap::Meeting meeting_;
  std::vector<bool> met_ = std::vector<bool>(4, true);
  std::vector<Rank> told_broken_, told_awaited_;
  int forgotten_ = 0;
  FailureDetector failures_{*this, meeting_, 0, 0, 4};
};

TEST_F(Rank0, ThatHearsAGoodbyeTakesThePeerForGoneWhenAllThatItSentHasCome) {
  failures_.frame_came(1, 10);
  failures_.farewell(1, 30);
  EXPECT_FALSE(failures_.is_gone(1));
  failures_.frame_came(1, 20);
  EXPECT_TRUE(failures_.is_gone(1));
}

TEST_F(Rank0, TellsAPeerThatLeftFromOneThatDied) {
  failures_.ended(1, FailureDetector::kHasLeft);
  EXPECT_TRUE(failures_.has_left(1));
  EXPECT_EQ(failures_.died(), -1);
  EXPECT_EQ(failures_.fate_of(1), fabric::Cause::kLeft);
  failures_.ended(2, "the connection was reset");
  failures_.ended(2, "another reason");  // the first one counts
  EXPECT_EQ(failures_.end_of(2), "the connection was reset");
  EXPECT_EQ(failures_.died(), 2);
  EXPECT_EQ(failures_.fate_of(2), fabric::Cause::kDied);
}

TEST_F(Rank0, ForgetsAnEndWhenAnotherAttemptToConnectSucceedsUnlessThePeerLeft) {
  failures_.ended(1, "nothing listens there");
  failures_.connected(1);
  EXPECT_EQ(failures_.end_of(1), "");
  failures_.ended(1, FailureDetector::kHasLeft);
  failures_.connected(1);
  EXPECT_TRUE(failures_.has_left(1));
}

TEST_F(Rank0, FollowsAChainOfWaitsToItsEndAsFarAsPeersHaveSaidLately) {
  EXPECT_EQ(failures_.wait_chain({1}, 1h).end, 1);  // has said nothing
  failures_.answered(1, 2, 3);                      // waits for 2, and suspects 3
  EXPECT_EQ(failures_.wait_chain({1}, 1h).end, 3);
  EXPECT_EQ(failures_.wait_chain({1}, -1ms).end, 1);  // too long ago
  failures_.answered(1, 0, 0);                        // waits for this rank: a circle
  EXPECT_EQ(failures_.wait_chain({1}, 1h).end, -1);
  const auto [first, end] = failures_.wait_chain({1, 2}, 1h);  // the chain that ends somewhere counts
  EXPECT_EQ(first, 2);
  EXPECT_EQ(end, 2);
}

TEST_F(Rank0, AnswersThoseWhoAskedWhenItsSuspicionChanges) {
  failures_.asked_by(3);
  failures_.say_awaited({1}, 1h);
  failures_.say_awaited({1}, 1h);  // the same
  EXPECT_EQ(told_awaited_, std::vector<Rank>{3});
  EXPECT_EQ(failures_.awaited(), 1);
  failures_.say_awaited({}, 1h);  // it waits no more: nobody is notified, and nobody asks
  failures_.say_awaited({2}, 1h);
  EXPECT_EQ(told_awaited_, std::vector<Rank>{3});
}

TEST_F(Rank0, TellsThosePeersOnceThatItHasMetAndThatHaveNotEnded) {
  met_[0] = met_[1] = false;
  failures_.ended(2, FailureDetector::kHasLeft);
  failures_.break_off(2, fabric::Cause::kTimedOut);
  failures_.break_off(1, fabric::Cause::kDied);  // it is broken already
  EXPECT_EQ(told_broken_, std::vector<Rank>{3});
  EXPECT_EQ(forgotten_, 1);
  ASSERT_TRUE(failures_.broken_by());
  EXPECT_EQ(failures_.broken_by()->culprit, 2);
  failures_.connected(1);  // comes late, and learns it
  EXPECT_EQ(told_broken_, (std::vector<Rank>{3, 1}));
}

TEST_F(Rank0, KeepsWhatAPeerSaysOnAnotherThreadUntilItListens) {
  const bootstrap::Member::Broken found{
      .culprit = 2, .cause = static_cast<std::uint32_t>(fabric::Cause::kDied), .finder = 1};
  failures_.broken_came(found, true);
  EXPECT_FALSE(failures_.failure());
  failures_.listen_to_member();
  ASSERT_TRUE(failures_.failure());
  EXPECT_EQ(failures_.failure()->ranks, std::vector<Rank>{2});
  EXPECT_TRUE(failures_.is_broken());
}

TEST_F(Rank0, SaysOfAnAbortTheFirstWordsOnly) {
  failures_.say_why("the loss is not a number");
  failures_.say_why("later words");
  failures_.break_off(0, fabric::Cause::kAborted);
  EXPECT_EQ(failures_.broken_by()->words, "the loss is not a number");
}

}  // namespace
}  // namespace weft::net::messages
