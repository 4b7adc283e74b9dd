#include "plan/cost/link_users.h"

#include <gtest/gtest.h>

namespace weft::cost {
namespace {

using schedule::Operand;
using schedule::Step;

Step moves(int from_peers, int to_peers) {
  const Operand message{.kind = Operand::Kind::kMessage};
  Step step;
  for (int i = 0; i < from_peers; ++i) step.sources.push_back(message);
  for (int i = 0; i < to_peers; ++i) step.destinations.push_back(message);
  return step;
}

void use(LinkUsers& users, std::uint32_t link) {
  users.connect();
  users.add(link);
}

TEST(LinkUsers, StepsOfAStrandFollowEachOther) {
  LinkUsers users;  // one strand, to and from three peers one after the other, over one link
  users.begin_strand(0);
  for (int step = 0; step < 3; ++step) {
    use(users, 0);
    users.end_step(moves(1, 1));
  }
  EXPECT_EQ(users.most(0), 1);
}

TEST(LinkUsers, OneStepsPeersShareALink) {
  LinkUsers users;
  users.begin_strand(0);
  for (int peer = 0; peer < 7; ++peer) use(users, 0);
  users.end_step(moves(0, 7));
  EXPECT_EQ(users.most(0), 7);
}

TEST(LinkUsers, StrandsMeetAtTheSamePlaceOnly) {
  LinkUsers users;  // two strands use link 0 one step apart, link 1 in the same step
  for (int strand = 0; strand < 2; ++strand) {
    users.begin_strand(strand);
    for (int step = 0; step < 3; ++step) {
      if (step == strand) use(users, 0);
      if (step == 2) use(users, 1);
      users.end_step(moves(1, 1));
    }
  }
  EXPECT_EQ(users.most(0), 1);
  EXPECT_EQ(users.most(1), 2);
}

TEST(LinkUsers, StrandsThatDoNotWaitMayMeetAnywhere) {
  LinkUsers users;  // the same, but nothing is received in between
  for (int strand = 0; strand < 2; ++strand) {
    users.begin_strand(strand);
    for (int step = 0; step < 3; ++step) {
      if (step == strand) use(users, 0);
      users.end_step(moves(0, 1));
    }
  }
  EXPECT_EQ(users.most(0), 2);
  EXPECT_EQ(users.most(9), 1);  // of signals only
}

// Every rank sends to every other: at the link into rank 0 one of them arrives at a time, but both channels of it.
TEST(LinkUsers, RanksThatSendToManyUseALinkForAPartOfTheTime) {
  constexpr Rank kRanks = 8;
  LinkUsers users;
  for (Rank rank = 0; rank < kRanks; ++rank)
    for (int channel = 0; channel < 2; ++channel) {
      users.begin_strand(rank);
      for (int k = 1; k < kRanks; ++k) {
        use(users, static_cast<std::uint32_t>((rank + k) % kRanks));
        users.end_step(moves(0, 1));
      }
    }
  EXPECT_EQ(users.most(0), 2);
}

// Strands with the same steps may be counted once.
TEST(LinkUsers, StrandsThatAreAlikeCountAsOftenAsThereAre) {
  LinkUsers once, each;
  for (Rank rank = 0; rank < 3; ++rank) {
    once.begin_strand(rank, 4);
    use(once, 0);
    once.end_step(moves(0, 1));
    for (int channel = 0; channel < 4; ++channel) {
      each.begin_strand(rank);
      use(each, 0);
      each.end_step(moves(0, 1));
    }
  }
  EXPECT_EQ(once.most(0), 12);
  EXPECT_EQ(each.most(0), 12);
}

// All send to rank 0 only.
TEST(LinkUsers, RanksThatSendToOneShareItsLink) {
  LinkUsers users;
  for (Rank rank = 1; rank < 8; ++rank) {
    users.begin_strand(rank);
    use(users, 0);
    users.end_step(moves(0, 1));
  }
  EXPECT_EQ(users.most(0), 7);
}

}  // namespace
}  // namespace weft::cost
