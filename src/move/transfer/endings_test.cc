#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "net/ucx/ucx.h"
#include "weft/transfer.h"

namespace weft::transfer {
namespace {

constexpr std::int64_t kSize = 16 << 20;

// A peer that is a process of its own, reached by a network only. Its memory is this process's, too.
class Ending : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (network() == Network::kUcx && !net::ucx::available()) GTEST_SKIP() << "weft was built without UCX";
    memory_ = static_cast<std::byte*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    peer_ = fork();
    if (peer_ == 0) serve(ends[1]);
    char bytes[4096];
    const ssize_t n = read(ends[0], bytes, sizeof bytes);
    ASSERT_GT(n, 0);
    metadata_.assign(bytes, static_cast<std::size_t>(n));
    close(ends[0]);
    close(ends[1]);
    connect();
  }
  void TearDown() override {
    if (peer_ > 0) {
      kill(peer_, SIGKILL);
      waitpid(peer_, nullptr, 0);
    }
  }
  static Network network() { return GetParam() == std::string_view("ucx") ? Network::kUcx : Network::kTcp; }
  void connect() {
    a_.reset();
    a_.emplace(Agent::open({.name = "a", .key = "k", .network = network(), .only_network = true}).value());
    mine_ = a_->allocate(kSize).value();
    ASSERT_TRUE(a_->load(metadata_));
  }
  Request write_of(std::byte value, std::chrono::milliseconds deadline = {}) {
    std::fill_n(mine_.data, kSize, value);
    const Prepared l = a_->prepare("", std::vector<Rows>{{mine_.region, 0, kSize, kSize, 1}}).value();
    const Prepared r = a_->prepare("b", std::vector<Rows>{{0, 0, kSize, kSize, 1}}).value();
    return a_->make(Op::kWrite, l, r, {.deadline = deadline}).value();
  }
  // Of the peer's memory, in the time that late writes would take.
  bool stays_as_it_is() const {
    const std::vector<std::byte> then(memory_, memory_ + kSize);
    usleep(20'000);
    return std::memcmp(then.data(), memory_, kSize) == 0;
  }

  std::byte* memory_ = nullptr;
  pid_t peer_ = -1;
  std::string metadata_;
  std::optional<Agent> a_;
  Registration mine_;

 private:
  [[noreturn]] void serve(int out) {
    auto b = Agent::open({.name = "b", .key = "k", .listen = "127.0.0.1:0", .network = network()});
    if (!b || !b->add_memory(memory_, kSize)) _exit(1);
    const std::string metadata = b->metadata().value();
    if (write(out, metadata.data(), metadata.size()) < 0) _exit(1);
    for (;;) pause();
  }
};

TEST_P(Ending, NoByteOfACancelledOrExpiredWriteArrivesAfterItsEnd) {
  for (int i = 1; i <= 20; ++i) {
    const bool expires = i % 2 == 0;
    Request request = write_of(static_cast<std::byte>(i), std::chrono::milliseconds(expires ? 1 : 0));
    ASSERT_TRUE(a_->post(request));
    if (request.state() == State::kRunning && !expires) {
      const Status cancelled = a_->cancel(request);  // a peer that has not run since confirms later
      ASSERT_TRUE(cancelled || cancelled.error().code == Code::kTimeout) << cancelled.error().message;
    }
    a_->wait(request);
    EXPECT_TRUE(stays_as_it_is()) << "case " << i;
  }
}

TEST_P(Ending, AWriteToAStoppedPeerEndsWithinSecondsAndNothingArrivesWhenThePeerGoesOn) {
  for (const bool expires : {false, true}) {
    kill(peer_, SIGSTOP);
    ASSERT_EQ(waitpid(peer_, nullptr, WUNTRACED), peer_);  // it has stopped
    Request request = write_of(std::byte{99}, std::chrono::milliseconds(expires ? 10 : 0));
    ASSERT_TRUE(a_->post(request));
    for (int i = 0; i < 100; ++i) a_->poll(request);
    if (!expires) {
      const Status cancelled = a_->cancel(request);
      ASSERT_FALSE(cancelled);
      EXPECT_EQ(cancelled.error().code, Code::kTimeout) << cancelled.error().message;
    }
    EXPECT_EQ(a_->wait(request), expires ? State::kExpired : State::kCancelled);
    EXPECT_NE(request.error().message.find("so the connection was cut"), std::string::npos) << request.error().message;
    const std::vector<std::byte> then(memory_, memory_ + kSize);
    kill(peer_, SIGCONT);
    usleep(100'000);
    EXPECT_EQ(std::memcmp(then.data(), memory_, kSize), 0) << "expires: " << expires;
    connect();
  }
}

TEST_P(Ending, APeerWhoseConnectionWasCutIsReachedAgainByItsMetadata) {
  kill(peer_, SIGSTOP);
  ASSERT_EQ(waitpid(peer_, nullptr, WUNTRACED), peer_);
  Request cut = write_of(std::byte{7}, std::chrono::milliseconds(10));
  ASSERT_TRUE(a_->post(cut));
  ASSERT_EQ(a_->wait(cut), State::kExpired);
  kill(peer_, SIGCONT);
  Request before = write_of(std::byte{8});
  ASSERT_TRUE(a_->post(before));
  EXPECT_EQ(a_->wait(before), State::kFailed);
  EXPECT_NE(before.error().message.find("load() of its metadata makes another"), std::string::npos)
      << before.error().message;
  ASSERT_TRUE(a_->load(metadata_));
  Request after = write_of(std::byte{9});
  ASSERT_TRUE(a_->post(after));
  ASSERT_EQ(a_->wait(after), State::kDone) << after.error().message;
  EXPECT_EQ(memory_[kSize - 1], std::byte{9});
}

TEST_P(Ending, AnAgentWhosePeerIsStoppedEndsWithinSeconds) {
  kill(peer_, SIGSTOP);
  ASSERT_EQ(waitpid(peer_, nullptr, WUNTRACED), peer_);
  const std::string bytes(4096, 'x');
  int accepted = 0;
  while (a_->notify("b", bytes)) ++accepted;
  EXPECT_GT(accepted, 0);
  EXPECT_LE(accepted, 63) << "256 KiB of them, 4,144 bytes each";
  const auto begin = std::chrono::steady_clock::now();
  a_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

INSTANTIATE_TEST_SUITE_P(Over, Ending, testing::Values("tcp", "ucx"), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace weft::transfer
