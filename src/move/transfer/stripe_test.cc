#include "weft/stripe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "net/object/test_server.h"

namespace weft::transfer {
namespace {

using net::object::TestServer;

constexpr std::int64_t kBlock = 4096, kBlocks = 32;

std::string content() {
  std::string text(kBlock * kBlocks, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i / kBlock * 17 + i);
  return text;
}

// A prefix of 32 blocks in a peer's memory, in a file and in an object.
struct Bench {
  TestServer server;
  Agent agent = Agent::open({.name = "reader"}).value();
  Agent peer = Agent::open({.name = "peer"}).value();
  Registration here = agent.allocate(kBlock * kBlocks).value();
  Registration there = peer.allocate(kBlock * kBlocks).value();
  std::string path = testing::TempDir() + "weft_stripe_" + std::to_string(getpid());
  std::optional<Registration> object;
  Prepared local = list("", here);

  Bench() {
    const std::string text = content();
    std::memcpy(there.data, text.data(), text.size());
    std::ofstream(path, std::ios::binary) << text;
    server.set("k", text);
    (void)agent.load(peer.metadata().value()).value();
    auto added = agent.add_object("s3://bucket/k", 0,
                                  {.endpoint = server.endpoint(), .region = "r", .key_id = "id", .secret = "secret"});
    if (added) object = *added;
  }
  ~Bench() { unlink(path.c_str()); }

  Prepared list(const std::string& of, const Registration& region) {
    const Rows rows{region.region, 0, kBlock, kBlock, kBlocks};
    return agent.prepare(of, {&rows, 1}).value();
  }
  StripeSource memory() { return {.name = "memory", .list = list("peer", there)}; }
  StripeSource file() { return {.name = "file", .list = list("", agent.add_file(path).value())}; }
  StripeSource bucket() { return {.name = "bucket", .list = list("", *object)}; }
  std::string got() const { return {reinterpret_cast<const char*>(here.data), kBlock * kBlocks}; }
};

std::int64_t blocks_of(const std::vector<StripeShare>& shares) {
  std::int64_t sum = 0;
  for (const StripeShare& s : shares) sum += s.blocks;
  return sum;
}

TEST(Stripe, EveryBlockComesOnceFromSomewhere) {
  Bench b;
  if (!b.object) GTEST_SKIP() << "weft was built without libcurl";
  const std::vector<StripeSource> sources{b.memory(), b.file(), b.bucket()};
  const auto shares = read_striped(b.agent, b.local, kBlock, sources);
  ASSERT_TRUE(shares) << shares.error().message;
  EXPECT_EQ(blocks_of(*shares), kBlocks);
  EXPECT_EQ(b.got(), content());
}

// Blocks 0 to 9 are in the peer's memory only, the next ten in the file, the last in the bucket.
TEST(Stripe, BlocksThatOneSourceHasComeFromIt) {
  Bench b;
  if (!b.object) GTEST_SKIP() << "weft was built without libcurl";
  std::vector<StripeSource> sources{b.memory(), b.file(), b.bucket()};
  for (std::int64_t i = 0; i < kBlocks; ++i)
    for (std::size_t s = 0; s < 3; ++s)
      sources[s].elements.push_back(static_cast<std::size_t>(std::min<std::int64_t>(i / 10, 2)) == s ? i : -1);
  const auto shares = read_striped(b.agent, b.local, kBlock, sources);
  ASSERT_TRUE(shares) << shares.error().message;
  EXPECT_EQ((*shares)[0].blocks, 10);
  EXPECT_EQ((*shares)[1].blocks, 10);
  EXPECT_EQ((*shares)[2].blocks, 12);
  EXPECT_EQ(b.got(), content());
}

TEST(Stripe, ASourceThatHangsIsHedgedByAnother) {
  Bench b;
  if (!b.object) GTEST_SKIP() << "weft was built without libcurl";
  b.server.fail(TestServer::Fault::kHangs, 100);
  std::vector<StripeSource> sources{b.bucket(), b.file()};
  sources[0].start_us = 0;
  sources[0].bytes_per_us = 1e6;  // looks like the fastest
  const auto shares = read_striped(b.agent, b.local, kBlock, sources, std::chrono::seconds(10));
  ASSERT_TRUE(shares) << shares.error().message;
  EXPECT_EQ((*shares)[1].blocks, kBlocks);
  EXPECT_GT((*shares)[1].hedged, 0);
  EXPECT_EQ(b.got(), content());
}

TEST(Stripe, WhereASourceFailsTheOthersGoOn) {
  Bench b;
  if (!b.object) GTEST_SKIP() << "weft was built without libcurl";
  b.server.fail(TestServer::Fault::kRefused, 100);
  std::vector<StripeSource> sources{b.bucket(), b.file()};
  sources[0].start_us = 0;
  sources[0].bytes_per_us = 1e6;
  const auto shares = read_striped(b.agent, b.local, kBlock, sources);
  ASSERT_TRUE(shares) << shares.error().message;
  EXPECT_EQ(b.got(), content());
  EXPECT_EQ((*shares)[0].blocks, 0);
  EXPECT_EQ((*shares)[1].blocks, kBlocks);
  // The file may have brought all blocks before the server refused the first.
  if ((*shares)[0].failed > 0) {
    EXPECT_NE((*shares)[0].problem.find("403 AccessDenied"), std::string::npos);
  }
}

TEST(Stripe, ABlockThatNoSourceCanGiveIsAnErrorWithEachReason) {
  Bench b;
  std::ofstream(b.path, std::ios::binary) << content().substr(0, 20 * kBlock);
  StripeSource file{.name = "file", .list = b.list("", b.agent.add_file(b.path, 0, kBlock * kBlocks).value())};
  StripeSource memory = b.memory();
  for (std::int64_t i = 0; i < kBlocks; ++i) memory.elements.push_back(i < 20 ? i : -1);
  const auto shares = read_striped(b.agent, b.local, kBlock, std::vector<StripeSource>{memory, file});
  ASSERT_FALSE(shares);
  EXPECT_NE(shares.error().message.find("comes from no source: memory: does not have it; file: "), std::string::npos)
      << shares.error().message;
  EXPECT_NE(shares.error().message.find("the file ends there"), std::string::npos) << shares.error().message;
}

TEST(Stripe, BlocksHaveTheSizeOfTheListsElements) {
  Bench b;
  const std::vector<StripeSource> sources{b.memory()};
  for (const std::int64_t bytes : {kBlock / 2, kBlock * 2}) {
    const auto shares = read_striped(b.agent, b.local, bytes, sources);
    ASSERT_FALSE(shares) << bytes;
    EXPECT_NE(shares.error().message.find(std::to_string(bytes) + " B, and the elements of the local list have 4096 B"),
              std::string::npos)
        << shares.error().message;
  }
  const std::vector<Rows> mixed{{b.here.region, 0, kBlock, 0, 1}, {b.here.region, kBlock, kBlock / 2, 0, 1}};
  const Prepared several = b.agent.prepare("", mixed).value();
  EXPECT_EQ(several.element_bytes(), 0);
  EXPECT_EQ(b.local.element_bytes(), kBlock);
  EXPECT_FALSE(read_striped(b.agent, several, kBlock, sources));
}

TEST(Stripe, ThePeersDeathLeavesTheFile) {
  Bench b;
  auto sources = std::vector<StripeSource>{b.memory(), b.file()};
  { const Agent gone = std::move(b.peer); }
  const auto shares = read_striped(b.agent, b.local, kBlock, sources);
  ASSERT_TRUE(shares) << shares.error().message;
  EXPECT_EQ((*shares)[1].blocks, kBlocks);
  EXPECT_EQ(b.got(), content());
}

}  // namespace
}  // namespace weft::transfer
