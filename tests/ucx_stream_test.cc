// Streams of bytes over UCX, between two workers of this process.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "net/ucx/byte_stream.h"
#include "net/ucx/ucx.h"

namespace weft::net::ucx {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

class UcxStream : public testing::Test {
 protected:
  void SetUp() override {
    auto context = open_stream_context();
    if (!context) GTEST_SKIP() << context.error().message;
    for (auto* end : {&a_, &b_}) *end = open_stream(*context).value();
    const auto address = [](const ByteStream& of) {
      return std::vector<std::byte>(of.address().begin(), of.address().end());
    };
    ASSERT_TRUE(a_->connect(address(*b_), true));
    ASSERT_TRUE(b_->connect(address(*a_), true));
  }
  // Takes what comes, `bytes` bytes, or less after ten seconds.
  std::string take(ByteStream& from, ByteStream& to, std::size_t bytes) {
    std::string got(bytes, ' ');
    std::size_t n = 0;
    for (const auto until = Clock::now() + 10s; n < bytes && Clock::now() < until;) {
      from.progress();
      const auto more = to.receive(std::as_writable_bytes(std::span(got)).subspan(n));
      EXPECT_TRUE(more) << more.error().message;
      n += more.value_or(0);
    }
    got.resize(n);
    return got;
  }
  std::unique_ptr<ByteStream> a_, b_;
};

TEST_F(UcxStream, BytesComeInOrderBothWaysAndTheirOwnersAreReleased) {
  auto large = std::make_shared<std::string>(3 << 20, 'x');
  for (std::size_t i = 0; i < large->size(); ++i) (*large)[i] = static_cast<char>(i * 31 + (i >> 12));
  ASSERT_TRUE(a_->send(bytes_of("small"), nullptr));
  ASSERT_TRUE(a_->send(bytes_of(*large), large));
  EXPECT_EQ(take(*a_, *b_, 5), "small");
  EXPECT_TRUE(take(*a_, *b_, large->size()) == *large);
  EXPECT_EQ(a_->unsent(), 0U);
  EXPECT_EQ(large.use_count(), 1);
  ASSERT_TRUE(b_->send(bytes_of("back"), nullptr));
  EXPECT_EQ(take(*b_, *a_, 4), "back");
}

TEST_F(UcxStream, WhoeverHasNotTakenWhatCameDoesNotSleep) {
  ASSERT_TRUE(a_->send(bytes_of("first"), nullptr));
  EXPECT_EQ(take(*a_, *b_, 5), "first");
  ASSERT_TRUE(a_->send(bytes_of("second"), nullptr));
  for (const auto until = Clock::now() + 200ms; Clock::now() < until;) {
    a_->progress();
    b_->progress();  // what comes here brings no event any more
  }
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(b_->arm()) << i;
  EXPECT_EQ(take(*a_, *b_, 2), "se");
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(b_->arm()) << i;
  EXPECT_EQ(take(*a_, *b_, 4), "cond");
  bool sleeps = false;
  for (const auto until = Clock::now() + 5s; !sleeps && Clock::now() < until;) sleeps = b_->arm();
  EXPECT_TRUE(sleeps);
}

TEST_F(UcxStream, MemoryOfAStreamThatHasEndedIsItsOwnersAgain) {
  auto memory = std::make_shared<std::vector<std::byte>>(16 << 20);
  ASSERT_TRUE(a_->send(bytes_of("hello"), nullptr));
  EXPECT_EQ(take(*a_, *b_, 5), "hello");
  ASSERT_TRUE(b_->send(bytes_of("hello"), nullptr));
  EXPECT_EQ(take(*b_, *a_, 5), "hello");
  ASSERT_TRUE(a_->send(*memory, memory));
  a_.reset();
  EXPECT_EQ(memory.use_count(), 1);
}

}  // namespace
}  // namespace weft::net::ucx
