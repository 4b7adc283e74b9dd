#include "net/tcp/tcp.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace weft::net::tcp {
namespace {

using protocol::End;
using protocol::Memory;
using protocol::Operation;

constexpr std::chrono::seconds kLong{20};
constexpr Bytes kBytes = 64 << 10;  // large enough to leave without a copy

void copy(std::byte* const* to, int count, const std::byte* const* from, int, Bytes bytes, const fabric::Scalar*) {
  for (int i = 0; i < count; ++i)
    if (to[i] != from[0]) std::memcpy(to[i], from[0], static_cast<std::size_t>(bytes));
}

// Two ranks of this process, whose endpoints the test moves on by turns.
class TwoRanks : public testing::Test {
 protected:
  void SetUp() override {
    auto host = bootstrap::Host::open(link::loopback(), 2).value();
    std::optional<Result<bootstrap::Meeting>> met[2];
    std::vector<std::thread> coming;
    for (const Rank r : {0, 1})
      coming.emplace_back([&, r] { met[r] = bootstrap::meet({.id = host.id(), .rank = r, .ranks = 2}); });
    const Status served = host.serve(kLong);
    for (std::thread& t : coming) t.join();
    ASSERT_TRUE(served) << served.error().message;
    for (const Rank r : {0, 1}) {
      ASSERT_TRUE(*met[r]) << met[r]->error().message;
      world[r] = open(std::move(**met[r]), r, {.zero_copy = ZeroCopy::kAlways}, {.spins = 1, .timeout = kLong});
      at(r).begin({.in = in[r].data(), .out = out[r].data(), .fold = copy});
    }
    cross(0, 0);  // so that they are connected
  }

  messages::Endpoint& at(Rank r) { return world[r]->endpoint; }
  static Operation send(Rank from, int strand, Bytes bytes = kBytes) {
    return {.bytes = bytes, .sources = {local(Memory::kIn)}, .destinations = {message(1 - from, strand)}};
  }
  static Operation receive(Rank to, int strand, Bytes bytes = kBytes) {
    return {.bytes = bytes, .sources = {message(1 - to, strand)}, .destinations = {local(Memory::kOut)}};
  }
  static End local(Memory memory) { return {.kind = End::Kind::kLocal, .memory = memory}; }
  static End message(Rank peer, int strand) {
    return {.kind = End::Kind::kMessage, .strand = static_cast<std::int16_t>(strand), .peer = peer};
  }
  void cross(Rank from, int strand) {
    ASSERT_TRUE(at(from).ready(strand, send(from, strand)));
    at(from).post(strand, send(from, strand));
    const Rank to = 1 - from;
    for (const auto until = messages::Clock::now() + kLong; !at(to).ready(strand, receive(to, strand));) {
      ASSERT_LT(messages::Clock::now(), until);
      at(from).pump_all();
      at(to).pump_all();
    }
    at(to).post(strand, receive(to, strand));
    at(to).pump_all();  // which says that the bytes have been read
  }
  // As one who waits sleeps, but in vain: not so long that a peer had to wake it.
  void expect_no_sleep(Rank r) {
    const auto began = messages::Clock::now();
    at(r).sleep(kLong);
    EXPECT_LT(messages::Clock::now() - began, kLong / 2);
  }

  std::vector<std::byte> in[2] = {std::vector<std::byte>(kBytes), std::vector<std::byte>(kBytes)};
  std::vector<std::byte> out[2] = {in[0], in[1]};
  std::unique_ptr<messages::World> world[2];
};

// A look for one strand's message takes in another's, which had been looked for before it came.
TEST_F(TwoRanks, NobodySleepsOnWhatHasComeForAnotherStrand) {
  constexpr Bytes kFew = 64;
  at(1).calm();
  EXPECT_FALSE(at(1).ready(1, receive(1, 1, kFew)));
  ASSERT_TRUE(at(0).ready(1, send(0, 1, kFew)));
  at(0).post(1, send(0, 1, kFew));
  EXPECT_FALSE(at(1).ready(2, receive(1, 2, kFew)));
  expect_no_sleep(1);
  EXPECT_TRUE(at(1).ready(1, receive(1, 1, kFew)));
}

// The look at who still reads what was sent may be the one that finds that nobody does any more.
TEST_F(TwoRanks, ASenderWhoseBytesWereReadDoesNotSleep) {
  cross(0, 1);
  at(0).calm();
  while (at(0).unsettled() >= 0) expect_no_sleep(0);
}

// A look for one strand takes in another strand's message, which had been missing when the look began, and that its
// sender has left.
TEST_F(TwoRanks, APeerWhoseLastMessageComesDuringTheLookIsNotBlamedForLeaving) {
  constexpr Bytes kFew = 64;
  int asked = 0;
  const auto waiting_for = [&]() -> std::vector<Rank> {
    if (at(1).blocker(1, receive(1, 1, kFew)) < 0) return {};
    if (++asked < 2) return {0};
    EXPECT_TRUE(at(0).ready(1, send(0, 1, kFew)));
    at(0).post(1, send(0, 1, kFew));
    world[0].reset();
    for (const auto until = messages::Clock::now() + kLong; !at(1).has_left(0) && messages::Clock::now() < until;)
      at(1).pump_all();
    return {0};
  };
  auto& policy = world[1]->wait_policy;
  for (const auto until = messages::Clock::now() + kLong; asked < 2 && messages::Clock::now() < until;) {
    const Status looked = policy.look(waiting_for);
    ASSERT_TRUE(looked) << looked.error().message;
  }
  EXPECT_TRUE(at(1).has_left(0));
  EXPECT_LT(at(1).blocker(1, receive(1, 1, kFew)), 0);
  const Status healthy = policy.health();
  EXPECT_TRUE(healthy) << healthy.error().message;
}

}  // namespace
}  // namespace weft::net::tcp
