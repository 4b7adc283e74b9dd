#include "exec/recorder/diagnosis.h"

#include <gtest/gtest.h>

namespace weft::recorder {
namespace {

// A rank that is in operation `number` and waits for `peer`; -1: computes.
Snapshot rank_in(std::uint64_t number, Rank rank, Rank peer, Rank ranks = 4) {
  Snapshot s{.job = "job", .group = "world", .rank = rank, .ranks = ranks, .pid = 100 + rank};
  s.operations.push_back({.number = number, .count = 10, .collective = "all_reduce", .type = "float"});
  if (peer >= 0) s.wait = Wait{.peer = peer};
  return s;
}

Snapshot idle_after(std::uint64_t number, Rank rank, Rank ranks = 4) {
  Snapshot s = rank_in(number, rank, -1, ranks);
  s.operations.back().state = State::kDone;
  s.operations.back().finished = 1;
  return s;
}

TEST(Diagnosis, TheLateRankIsTheOneAtTheEndOfTheChain) {
  const std::vector<Snapshot> all = {rank_in(5, 0, 1), rank_in(5, 1, 2), rank_in(5, 2, 3), idle_after(4, 3)};
  const auto found = standings(all);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(found[0].late.size(), 1u);
  EXPECT_EQ(found[0].late[0].rank, 3);
  EXPECT_EQ(found[0].late[0].behind, 3);
  EXPECT_NE(found[0].late[0].why.find("not called #5"), std::string::npos) << found[0].late[0].why;
}

TEST(Diagnosis, AStoppedRankIsLateAlthoughItSaysThatItWaits) {
  std::vector<Snapshot> all = {rank_in(5, 0, 1), rank_in(5, 1, 2), rank_in(5, 2, 3), rank_in(5, 3, 0)};
  all[2].process = Process::kStopped;
  const auto late = standings(all)[0].late;
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].rank, 2);
  EXPECT_EQ(late[0].behind, 3);
  EXPECT_NE(late[0].why.find("stopped"), std::string::npos);
}

TEST(Diagnosis, SeveralLateRanksComeWithThoseBehindThem) {
  const std::vector<Snapshot> all = {
      rank_in(5, 0, 3),
      rank_in(5, 1, 2),
      idle_after(4, 2),
      rank_in(5, 3, -1),
  };
  const auto late = standings(all)[0].late;
  ASSERT_EQ(late.size(), 2u);
  EXPECT_EQ(late[0].behind, 1);
  EXPECT_EQ(late[1].behind, 1);
}

TEST(Diagnosis, ACircleOfDifferentCallsIsADisagreement) {
  std::vector<Snapshot> all = {rank_in(5, 0, 1, 2), rank_in(5, 1, 0, 2)};
  EXPECT_EQ(standings(all)[0].circle.size(), 2u);
  EXPECT_EQ(standings(all)[0].disagreement, "");
  all[1].operations.back().collective = "broadcast";
  const auto found = standings(all)[0];
  EXPECT_TRUE(found.late.empty());
  EXPECT_NE(found.disagreement.find("broadcast"), std::string::npos) << found.disagreement;
}

TEST(Diagnosis, ARankWithoutRecordKeepsOthersWaiting) {
  const std::vector<Snapshot> all = {rank_in(5, 0, 1, 2)};
  const auto found = standings(all)[0];
  EXPECT_EQ(found.doing[1], Doing::kUnrecorded);
  ASSERT_EQ(found.late.size(), 1u);
  EXPECT_EQ(found.late[0].rank, 1);
}

TEST(Diagnosis, NobodyIsLateWhereNobodyWaits) {
  const std::vector<Snapshot> all = {idle_after(4, 0, 2), rank_in(5, 1, -1, 2)};
  EXPECT_TRUE(standings(all)[0].late.empty());
}

TEST(Diagnosis, ALateRankThatIsInAnotherCommunicatorIsSaidToBeThere) {
  std::vector<Snapshot> all = {rank_in(9, 1, -1, 2), rank_in(5, 0, 1, 2), idle_after(4, 1, 2)};
  all[0].group = "row 0";  // comes first in order
  const auto found = standings(all);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(found[1].late.at(0).why.find("#9 of row 0"), std::string::npos) << found[1].late.at(0).why;
}

// Rank 0 waits for a message of rank 1, which waits for one of rank 2, which is in no call.
TEST(Diagnosis, ChainsOfMessagesWithTagsEndAtTheLateRank) {
  std::vector<Snapshot> all = {idle_after(4, 0, 3), idle_after(4, 1, 3), idle_after(4, 2, 3)};
  all[0].tagged = TaggedWait{.peer = 1, .tag = 5, .bytes = 8};
  all[1].tagged = TaggedWait{.sends = true, .peer = 2, .tag = 6, .bytes = 1 << 20};
  const Standing found = standings(all)[0];
  EXPECT_EQ(found.doing[0], Doing::kWaiting);
  ASSERT_EQ(found.late.size(), 1u);
  EXPECT_EQ(found.late[0].rank, 2);
  EXPECT_EQ(found.late[0].behind, 2);
}

TEST(Diagnosis, ReceivesOfEachOtherAreACircleThatNamesBoth) {
  std::vector<Snapshot> all = {idle_after(4, 0, 2), idle_after(4, 1, 2)};
  all[0].tagged = TaggedWait{.peer = 1, .tag = 5, .bytes = 8};
  all[1].tagged = TaggedWait{.peer = 0, .tag = 6, .bytes = 4};
  const Standing found = standings(all)[0];
  EXPECT_EQ(found.circle.size(), 2u);
  EXPECT_EQ(found.disagreement,
            "rank 1 is in a receive of 4 B from rank 0 with tag 6, rank 0 in a receive of 8 B from rank 1 with tag 5");
}

TEST(Diagnosis, AReceiveFromAnyRankBlamesNobody) {
  std::vector<Snapshot> all = {idle_after(4, 0, 2), idle_after(4, 1, 2)};
  all[0].tagged = TaggedWait{.peer = -1, .tag = 5, .bytes = 8};
  const Standing found = standings(all)[0];
  EXPECT_EQ(found.doing[0], Doing::kWaiting);
  EXPECT_TRUE(found.late.empty());
  EXPECT_TRUE(found.circle.empty());
}

}  // namespace
}  // namespace weft::recorder
