#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "net/ucx/ucx.h"
#include "weft/transfer.h"

namespace weft::transfer {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kSize = 1 << 20;
constexpr std::size_t kWindow = 256 << 10, kEach = 48;  // bytes; of each notification besides its own

// Two agents that reach each other by a network only; `owner` takes notifications when the test says so.
class Notifications : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const Status there = net::ucx::available(); network() == Network::kUcx && !there)
      GTEST_SKIP() << there.error().message;
    sender = open("sender");
    owner = open("owner");
    mine = owner->allocate(kSize).value();
    meet();
  }
  static Network network() { return GetParam() == std::string_view("ucx") ? Network::kUcx : Network::kTcp; }
  static std::optional<Agent> open(const std::string& name) {
    return Agent::open(
               {.name = name, .key = "key", .listen = "127.0.0.1:0", .network = network(), .only_network = true})
        .value();
  }
  void meet() {
    here = sender->allocate(kSize).value();
    ASSERT_TRUE(sender->load(*owner->metadata()));
    local = sender->prepare("", std::vector<Rows>{{here.region, 0, kSize}}).value();
    remote = sender->prepare("owner", std::vector<Rows>{{mine.region, 0, kSize}}).value();
  }
  static std::string text(std::size_t number, std::size_t bytes) {
    std::string text = std::to_string(number);
    text.resize(std::max(text.size(), bytes), '.');
    return text;
  }
  // Sends notifications of at least this size until one is refused.
  void fill(std::size_t bytes = 0) {
    for (; sent < 1'000'000; ++sent) {
      const Status accepted = sender->notify("owner", text(sent, bytes));
      if (accepted) continue;
      EXPECT_EQ(accepted.error().code, Code::kNoResources) << accepted.error().message;
      EXPECT_EQ(accepted.error().message, "peer 'owner': its queue of notifications is full");
      return;
    }
  }
  // Takes notifications until as many as were accepted are there, and looks for more.
  void take_all(std::size_t bytes = 0) {
    const auto until = std::chrono::steady_clock::now() + 10s;
    const auto take = [&] {
      for (const Notification& n : owner->notifications()) ASSERT_EQ(n.bytes, text(taken++, bytes));
    };
    while (taken < sent && !HasFailure() && std::chrono::steady_clock::now() < until) {
      take();
      usleep(100);
    }
    usleep(2000);
    take();
    EXPECT_EQ(taken, sent);
  }

  std::optional<Agent> sender, owner;
  Registration mine, here;
  Prepared local, remote;
  std::size_t sent = 0, taken = 0;
};

TEST_P(Notifications, AreRefusedBeyondAWindowAndThoseAcceptedArriveWithoutAnotherCallOfTheSender) {
  for (const std::size_t bytes : {0U, 5U, 1000U, 4096U}) {
    const std::size_t before = sent;
    fill(bytes);
    EXPECT_LE(sent - before, kWindow / (kEach + std::max<std::size_t>(bytes, 1)));
    EXPECT_GE(sent - before, 10U);
    take_all(bytes);
    for (const auto until = std::chrono::steady_clock::now() + 10s; std::chrono::steady_clock::now() < until;) {
      if (sender->notify("owner", text(sent, bytes))) break;  // the window is open again
      usleep(100);
    }
    ++sent;
    take_all(bytes);
  }
}

TEST_P(Notifications, ArriveOnceInOrderThroughAWindowThatOpensAgainAndAgain) {
  constexpr std::size_t kCount = 30'000;  // six windows
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (taken < kCount && std::chrono::steady_clock::now() < until) {
    for (int i = 0; i < 1000 && sent < kCount && sender->notify("owner", text(sent, 0)); ++i) ++sent;
    for (const Notification& n : owner->notifications()) ASSERT_EQ(n.bytes, text(taken++, 0));
  }
  EXPECT_EQ(taken, kCount);
}

TEST_P(Notifications, ThatWereAcceptedArriveAlthoughTheirSenderEndsOrForgetsThePeer) {
  for (const bool ends : {true, false}) {
    fill(700);
    ASSERT_GT(sent, taken);
    if (ends) {
      sender.reset();
      sender = open("sender");
    } else {
      ASSERT_TRUE(sender->forget("owner"));
    }
    take_all(700);
    meet();
  }
}

TEST_P(Notifications, ThatNobodyTakesKeepNoReadAndNoWriteWaiting) {
  fill();
  for (const Op op : {Op::kRead, Op::kWrite, Op::kRead}) {
    Request request = sender->make(op, local, remote, {.deadline = 10s}).value();
    ASSERT_TRUE(sender->post(request));
    EXPECT_EQ(sender->wait(request), State::kDone) << request.error().message;
  }
  EXPECT_FALSE(sender->notify("owner", ""));
  Request request = sender->make(Op::kWrite, local, remote, {.notify = text(sent, 0), .deadline = 20s}).value();
  ASSERT_TRUE(sender->post(request));
  EXPECT_EQ(sender->wait(request, 100ms), State::kRunning) << "its notification waits for a place";
  EXPECT_EQ(request.moved_bytes(), kSize);
  take_all();
  EXPECT_EQ(sender->wait(request), State::kDone) << request.error().message;
  ++sent;
  take_all();
}

INSTANTIATE_TEST_SUITE_P(Over, Notifications, testing::Values("tcp", "ucx"), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace weft::transfer
