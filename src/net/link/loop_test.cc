#include "net/link/loop.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "net/link/channel.h"
#include "net/link/dial.h"
#include "net/link/framed.h"

namespace weft::net::link {
namespace {

using namespace std::chrono_literals;

constexpr Key kKey{1, 2, 3};

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

struct Head {
  std::uint32_t bytes = 0;
};

// Sends back what it receives, in frames of at most 16 bytes. Known from its first frame on.
class Echo final : public Connection {
 public:
  explicit Echo(UniqueFd fd) : channel_(over_socket(std::move(fd))) {}
  bool open() const override { return channel_ != nullptr; }
  bool known() const override { return known_; }
  bool watch(std::vector<pollfd>& list) override { return channel_->watch(list, true, out_.waiting() > 0); }
  void advance() override {
    Status why;
    for (;;) {
      const auto state = frame_.advance(receiver(*channel_, why), [this](const Head& head) {
        data_.resize(head.bytes);
        return head.bytes <= 16 ? std::optional(std::span(data_)) : std::nullopt;
      });
      if (state == FrameState::kOver) return channel_.reset();
      if (state == FrameState::kMore) return;
      known_ = true;
      out_.put(frame_.head());
      if (!data_.empty()) std::memcpy(out_.grow(data_.size()), data_.data(), data_.size());
      if (!channel_->send(out_)) return channel_.reset();
    }
  }

 private:
  std::unique_ptr<Channel> channel_;
  Framed<Head> frame_;
  std::vector<std::byte> data_;
  Outbox out_;
  bool known_ = false;
};

struct Served {
  explicit Served(LoopOptions options = {}) {
    options.key = kKey;
    options.welcomes = [](const Claim& claim) { return claim.purpose == kData; };
    options.serve = [](UniqueFd fd, const Handshake*) { return std::make_unique<Echo>(std::move(fd)); };
    loop.emplace(std::move(options));
    UniqueFd listener = listen_on(loopback()).value();
    address = local_address(listener.get());
    loop->listen(std::move(listener));
  }
  Result<Dialled> dial(const Key& key = kKey, std::uint32_t purpose = kData) const {
    return link::dial({.to = address, .key = key, .claim = {.purpose = purpose}, .timeout = 20s});
  }
  Address address;
  std::optional<Loop> loop;
};

WaitLimit soon() { return {.deadline = WaitLimit::Clock::now() + 20s}; }

// One frame of these bytes there and back.
bool echoes(const UniqueFd& fd, std::string_view text) {
  const Head head{static_cast<std::uint32_t>(text.size())};
  if (send_all(fd.get(), std::as_bytes(std::span(&head, 1)), std::as_bytes(std::span(text)), soon()) != Outcome::kDone)
    return false;
  std::string back(sizeof head + text.size(), ' ');
  return receive_all(fd.get(), std::as_writable_bytes(std::span(back)), soon()) == Outcome::kDone &&
         back.substr(sizeof head) == text;
}

TEST(Loop, ServesThoseWhoHaveTheKeyAndRefusesOthersWithAReason) {
  Served served;
  served.loop->start();
  const auto one = served.dial(), other = served.dial();
  ASSERT_TRUE(one && other);
  EXPECT_TRUE(echoes(one->fd, "first"));
  EXPECT_TRUE(echoes(other->fd, ""));
  EXPECT_TRUE(echoes(one->fd, "sixteen bytes ok"));
  EXPECT_EQ(served.loop->known(), 2);
  const auto stranger = served.dial(Key{9});
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().code, Code::kInvalidArgument);
  EXPECT_EQ(stranger.error().message, "it has another key");
  const auto lost = served.dial(kKey, kMeeting);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::kInvalidArgument);
}

TEST(Loop, AFrameBeyondItsBoundEndsItsConnectionAlone) {
  Served served;
  served.loop->start();
  const auto good = served.dial(), bad = served.dial();
  ASSERT_TRUE(good && bad);
  EXPECT_FALSE(echoes(bad->fd, "this has seventeen"));
  EXPECT_TRUE(echoes(good->fd, "well"));
}

TEST(Loop, ConnectionsWaitUntilItStarts) {
  Served served;
  std::thread late([&] {
    std::this_thread::sleep_for(20ms);
    served.loop->start();
  });
  EXPECT_TRUE(served.dial());
  late.join();
}

// A loop on its way to its first wait has a wake-up already: that of its listener.
TEST(Loop, EndsThatComeBeforeItsFirstWaitAreNotLost) {
  for (int i = 0; i < 200; ++i) {
    Served served;
    served.loop->start();
    if (i % 2 == 0) std::this_thread::yield();
    served.loop->stop();
  }
}

TEST(Loop, SilentConnectionsTakeFewDescriptorsAndKeepNobodyOut) {
  constexpr int kStrangers = 100;
  Served served({.most_strangers = 8});
  served.loop->start();
  const auto before = descriptors();
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < kStrangers; ++i) {
    strangers.push_back(start_connect(served.address).value());
    EXPECT_EQ(wait_for(strangers.back().get(), POLLOUT, soon()), Outcome::kDone);
    (void)send_now(strangers.back().get(), "weft", 4);  // the kernel keeps those to itself who say nothing
  }
  const auto peer = served.dial();
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_TRUE(echoes(peer->fd, "read"));
  EXPECT_LE(descriptors() - before - kStrangers, 8 + 2) << "the peer's connection has two ends here";
}

TEST(Loop, WhoIsGreetedAndSaysNothingMoreIsClosed) {
  Served served({.stranger_time = 50ms});
  served.loop->start();
  const auto silent = served.dial(), known = served.dial();
  ASSERT_TRUE(silent && known);
  EXPECT_TRUE(echoes(known->fd, "here"));
  std::byte end{};
  EXPECT_EQ(receive_all(silent->fd.get(), {&end, 1}, soon()), Outcome::kOver);
  EXPECT_TRUE(echoes(known->fd, "still"));
}

TEST(Loop, MoreThanItMayServeWaitForAPlace) {
  Served served({.most_connections = 1});
  served.loop->start();
  auto first = served.dial();
  ASSERT_TRUE(first);
  EXPECT_TRUE(echoes(first->fd, "one"));
  std::thread leaves([&] {
    std::this_thread::sleep_for(20ms);
    first->fd.reset();
  });
  const auto second = served.dial();
  leaves.join();
  ASSERT_TRUE(second);
  EXPECT_TRUE(echoes(second->fd, "two"));
}

TEST(WaitLimit, AWaitEndsByItsDeadlineByAQuestionOrByTheOtherSide) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  const UniqueFd here(ends[0]);
  UniqueFd there(ends[1]);
  std::byte byte{};
  EXPECT_EQ(receive_all(here.get(), {&byte, 1}, {.deadline = WaitLimit::Clock::now() + 5ms}), Outcome::kLate);
  int asked = 0;
  const std::function<bool()> enough = [&] { return ++asked == 3; };
  EXPECT_EQ(receive_all(here.get(), {&byte, 1}, {.interrupted = &enough, .ask_every = 1ms}), Outcome::kInterrupted);
  EXPECT_EQ(asked, 3);
  there.reset();
  EXPECT_EQ(receive_all(here.get(), {&byte, 1}, {}), Outcome::kOver);
  EXPECT_EQ(errno, 0) << "an end in order";
  EXPECT_EQ(send_all(here.get(), {&byte, 1}, {}, {}), Outcome::kOver);
  EXPECT_EQ(errno, EPIPE);
}

}  // namespace
}  // namespace weft::net::link
