#include "move/kv/object_tier.h"

#include <gtest/gtest.h>

#include <cstring>

#include "net/object/test_server.h"

namespace weft::kv {
namespace {

using net::object::TestServer;

constexpr Bytes kPage = 1024;

struct Bench {
  TestServer server;
  std::vector<std::byte> pages = std::vector<std::byte>(4 * kPage);
  transfer::Registration memory{.data = pages.data(), .bytes = 4 * kPage};

  Result<std::unique_ptr<BlockTier>> open(std::int64_t slots = 0, const std::string& layout = "l", bool check = false) {
    return ObjectTier::open(
        {.file = "s3://bucket/kv/", .slots = slots, .page_bytes = kPage, .layout = layout, .check = check},
        server.place(), {.first_pause = std::chrono::milliseconds(1)});
  }
  void fill(std::uint32_t page, int with) { std::memset(pages.data() + kPage * page, with, kPage); }
  bool filled(std::uint32_t page, int with) const {
    return std::all_of(pages.begin() + kPage * page, pages.begin() + kPage * (page + 1),
                       [&](std::byte b) { return b == static_cast<std::byte>(with); });
  }
};
BlockKey key(std::uint8_t n) {
  BlockKey k{};
  k[0] = n;
  return k;
}
#define OPEN(tier, ...)                                                                 \
  auto tier##_opened = __VA_ARGS__;                                                     \
  if (!tier##_opened && tier##_opened.error().code == Code::kUnsupported) GTEST_SKIP(); \
  ASSERT_TRUE(tier##_opened) << tier##_opened.error().message;                          \
  BlockTier& tier = **tier##_opened

TEST(ObjectTier, ABlockIsReadBackByALaterTier) {
  Bench b;
  {
    OPEN(tier, b.open());
    b.fill(0, 7);
    ASSERT_TRUE(tier.put(key(1), b.memory, 0));
  }
  OPEN(tier, b.open());
  EXPECT_EQ(tier.recovered(), 1);
  ASSERT_TRUE(tier.holds(key(1)));
  ASSERT_TRUE(tier.get(key(1), b.memory, 2));
  EXPECT_TRUE(b.filled(2, 7));
}

TEST(ObjectTier, BlocksOfAnotherLayoutAreNotFound) {
  Bench b;
  OPEN(tier, b.open());
  ASSERT_TRUE(tier.put(key(1), b.memory, 0));
  OPEN(other, b.open(0, "another"));
  EXPECT_FALSE(other.holds(key(1)));
}

TEST(ObjectTier, AboveItsBoundTheLeastRecentlyUsedBlockGoes) {
  Bench b;
  OPEN(tier, b.open(2));
  for (const std::uint8_t n : {1, 2}) ASSERT_TRUE(tier.put(key(n), b.memory, 0));
  ASSERT_TRUE(tier.put(key(1), b.memory, 0));  // used again
  ASSERT_TRUE(tier.put(key(3), b.memory, 0));
  EXPECT_TRUE(tier.holds(key(1)));
  EXPECT_FALSE(tier.holds(key(2)));
  EXPECT_EQ(tier.blocks(), 2);
}

TEST(ObjectTier, ADamagedBlockIsDroppedAndNeverGivenOut) {
  Bench b;
  OPEN(tier, b.open());
  b.fill(0, 7);
  ASSERT_TRUE(tier.put(key(1), b.memory, 0));
  b.server.fail(TestServer::Fault::kWrongByte);
  EXPECT_EQ(tier.get(key(1), b.memory, 1).error().code, Code::kMismatch);
  EXPECT_FALSE(tier.holds(key(1)));
  EXPECT_EQ(tier.damaged(), 1);
}

TEST(ObjectTier, ABlockThatAnotherStoreHasRemovedIsForgotten) {
  Bench b;
  OPEN(tier, b.open());
  ASSERT_TRUE(tier.put(key(1), b.memory, 0));
  OPEN(other, b.open(1));
  ASSERT_TRUE(other.put(key(2), b.memory, 0));
  EXPECT_NE(tier.get(key(1), b.memory, 0).error().message.find("is there no more"), std::string::npos);
  EXPECT_FALSE(tier.holds(key(1)));
}

TEST(ObjectTier, AServerThatFailsLosesNoBlockThatItHas) {
  Bench b;
  OPEN(tier, b.open());
  b.fill(0, 7);
  ASSERT_TRUE(tier.put(key(1), b.memory, 0));
  b.server.fail(TestServer::Fault::kBusy, 10);
  EXPECT_FALSE(tier.get(key(1), b.memory, 1));
  EXPECT_FALSE(tier.put(key(2), b.memory, 1));
  EXPECT_FALSE(tier.holds(key(2)));
  ASSERT_TRUE(tier.get(key(1), b.memory, 1));
  EXPECT_TRUE(b.filled(1, 7));
}

}  // namespace
}  // namespace weft::kv
