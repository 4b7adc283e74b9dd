#include "net/memory/store_choice.h"

#include <gtest/gtest.h>

#include <memory>

namespace weft::net::memory {
namespace {

// A sender and a receiver, and a machine on which storing and loading take what it says, per message.
struct Way {
  std::chrono::nanoseconds store, load;
};
struct Line {
  std::unique_ptr<Connection> connection = std::make_unique<Connection>();
  StoreChoice choice;
  std::uint64_t sent = 0;
  int streamed = 0;

  void send(int messages, const Way& plain, const Way& past_caches, std::size_t bytes = kSlotBytes) {
    choice.begin(true);
    for (int i = 0; i < messages; ++i) {
      const bool timed = choice.times(sent + 1, kRingBytes, *connection);
      const Way& way = choice.streams() ? past_caches : plain;
      streamed += choice.streams();
      ++sent;
      if (timed) choice.stored(way.store, bytes);
      choice.passed(bytes);
      receive(way, bytes);
    }
  }
  void receive(const Way& way, std::size_t bytes) {
    const std::uint64_t place = sent - connection->tail.timed_from.load();
    if (place < TimedLoads::kMost)
      connection->loads.of[place].store(sent << 32 | StoreChoice::per_byte(way.load, bytes));
    connection->head.value.store(sent);
  }
};

using std::chrono::nanoseconds;
constexpr Way kNear{nanoseconds(500), nanoseconds(500)}, kFar{nanoseconds(1000), nanoseconds(9000)},
    kPast{nanoseconds(1000), nanoseconds(1000)};

TEST(StoreChoice, StoresIntoTheCachesWhereThatIsFaster) {
  Line line;
  line.send(5000, kNear, kPast);
  EXPECT_FALSE(line.choice.streams());
}

TEST(StoreChoice, StoresPastTheCachesWhereCoresAreFarApartAndSeldomTriesTheOther) {
  Line line;
  line.send(100'000, kFar, kPast);
  EXPECT_TRUE(line.choice.streams());
  EXPECT_GT(line.streamed, 99'000);
  EXPECT_LT(line.streamed, 100'000);
}

TEST(StoreChoice, FollowsCoresThatMove) {
  Line line;
  line.send(20'000, kNear, kPast);
  EXPECT_FALSE(line.choice.streams());
  line.send(20'000, kFar, kPast);
  EXPECT_TRUE(line.choice.streams());
  line.send(20'000, kNear, kPast);
  EXPECT_FALSE(line.choice.streams());
}

TEST(StoreChoice, SeesCoresThatMoveApartWithinSomeMessages) {
  Line line;
  line.send(20'000, kNear, kPast);
  ASSERT_FALSE(line.choice.streams());
  line.send(400, kFar, kPast);
  EXPECT_TRUE(line.choice.streams());
}

TEST(StoreChoice, AMachineThatHasBecomeSlowIsNotTriedAgainAndAgain) {
  Line line;
  line.send(20'000, kNear, kPast);
  line.streamed = 0;
  // Both ways take four times as long, then eight times, and so on: every trial is in vain.
  for (int slower = 4; slower <= 64; slower *= 2)
    line.send(2000, {slower * kNear.store, slower * kNear.load}, {slower * kPast.store, slower * kPast.load});
  EXPECT_FALSE(line.choice.streams());
  EXPECT_LT(line.streamed, 500);
}

TEST(StoreChoice, KeepsToItsWayWhereBothTakeAboutAsLong) {
  Line line;
  line.send(20'000, {nanoseconds(950), nanoseconds(950)}, kPast);
  EXPECT_TRUE(line.choice.streams());
  EXPECT_GT(line.streamed, 18'000);
}

TEST(StoreChoice, DecidesNothingWithoutTheReceiversTimes) {
  Line line;
  line.choice.begin(true);
  for (int i = 0; i < 20'000; ++i) {
    if (line.choice.times(++line.sent, kRingBytes, *line.connection)) line.choice.stored(nanoseconds(1), kSlotBytes);
    line.choice.passed(kSlotBytes);
    line.connection->head.value.store(line.sent);
  }
  line.send(1, kNear, kPast);
  EXPECT_TRUE(line.choice.streams());
}

TEST(StoreChoice, GivesATrialUpIntoWhichSmallMessagesCame) {
  Line line;
  for (int i = 0; i < 5000; ++i) {
    line.send(3, kNear, kPast);
    ++line.sent;  // a small one
  }
  EXPECT_TRUE(line.choice.streams());
}

}  // namespace
}  // namespace weft::net::memory
