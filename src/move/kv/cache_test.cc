#include "move/kv/cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <numeric>

namespace weft::kv {
namespace {

constexpr Bytes kPage = 4096;

std::vector<Token> tokens(std::size_t n, Token first = 0) {
  std::vector<Token> list(n);
  std::iota(list.begin(), list.end(), first);
  return list;
}

// A store in one agent, an engine with another that reads and writes its pages.
class KvCache : public testing::TestWithParam<Policy> {
 protected:
  void SetUp() override {
    agent.emplace(*transfer::Agent::open({.name = "store"}));
    engine.emplace(*transfer::Agent::open({.name = "engine"}));
    auto opened = Cache::open(*agent, {.pages = 8, .page_bytes = kPage, .block_tokens = 4, .policy = GetParam()});
    ASSERT_TRUE(opened) << opened.error().message;
    cache.emplace(std::move(*opened));
    mine = *engine->allocate(8 * kPage);
    ASSERT_TRUE(engine->load(*agent->metadata()));
  }
  transfer::State move(transfer::Op op, const std::vector<transfer::Page>& pages) {
    const std::vector<transfer::Rows> here{{mine.region, 0, kPage, kPage, static_cast<std::int64_t>(pages.size())}};
    const std::vector<transfer::Rows> there{{cache->region().region, 0, kPage, kPage, 8}};
    std::vector<std::uint32_t> blocks;
    std::vector<std::uint64_t> generations;
    for (const auto& page : pages) {
      blocks.push_back(page.index);
      generations.push_back(page.generation);
    }
    auto request = engine->make(op, *engine->prepare("", here), *engine->prepare("store", there),
                                {.remote_blocks = blocks, .generations = generations, .verify = true});
    EXPECT_TRUE(request) << request.error().message;
    EXPECT_TRUE(engine->post(*request));
    return engine->wait(*request);
  }
  void put(const std::vector<Token>& prompt, const char* salt = "") {
    auto writing = cache->begin(salt, prompt);
    ASSERT_TRUE(writing) << writing.error().message;
    for (std::size_t i = 0; i < writing->pages.size(); ++i)
      std::memset(mine.data + i * kPage, static_cast<int>(prompt[0] + writing->first_block + static_cast<int>(i)),
                  kPage);
    if (!writing->pages.empty()) {
      ASSERT_EQ(move(transfer::Op::kWrite, writing->pages), transfer::State::kDone);
    }
    cache->commit(*writing);
  }
  std::optional<transfer::Agent> agent, engine;
  std::optional<Cache> cache;
  transfer::Registration mine;
};

TEST_P(KvCache, APromptFindsTheLongestPrefixThatIsThere) {
  put(tokens(12));
  std::vector<Token> other = tokens(12);
  other[9] = 1000;  // differs in the third block
  Cache::Lease lease = cache->match("", other);
  EXPECT_EQ(lease.tokens, 8);
  std::memset(mine.data, 0xee, 3 * kPage);
  ASSERT_EQ(move(transfer::Op::kRead, lease.pages), transfer::State::kDone);
  EXPECT_EQ(mine.data[0], std::byte{0});
  EXPECT_EQ(mine.data[kPage], std::byte{1});
  cache->end(lease);
  put(other);
  EXPECT_EQ(cache->blocks(), 4) << "the two blocks in common are there once";
}

TEST_P(KvCache, TenantsWithAnotherSaltShareNothing) {
  put(tokens(8), "alice");
  EXPECT_EQ(cache->match("bob", tokens(8)).tokens, 0);
  EXPECT_EQ(cache->match("alice", tokens(8)).tokens, 8);
}

TEST_P(KvCache, LeasedPagesAreNotEvicted) {
  put(tokens(16, 0));
  Cache::Lease lease = cache->match("", tokens(16, 0));
  ASSERT_EQ(lease.pages.size(), 4U);
  put(tokens(16, 100));
  put(tokens(16, 200));  // needs four pages: those of 100
  EXPECT_EQ(cache->match("", tokens(16, 0)).tokens, 16);
  ASSERT_EQ(move(transfer::Op::kRead, lease.pages), transfer::State::kDone);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(mine.data[i * kPage], static_cast<std::byte>(i));
  const auto too_much = cache->begin("", tokens(20, 300));
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().message,
            "the prompt needs 5 more pages, of which 4 can be had: the others of 8 are being read or written");
}

TEST_P(KvCache, APromptThatFindsNoPlaceEvictsNothing) {
  put(tokens(16, 0));
  put(tokens(16, 100));
  const auto too_long = cache->begin("", tokens(36, 300));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().message, "the prompt needs 9 blocks, the store has 8 pages");
  EXPECT_EQ(cache->blocks(), 8);
  Cache::Lease lease = cache->match("", tokens(16, 100));
  ASSERT_FALSE(cache->begin("", tokens(20, 300)));
  EXPECT_EQ(cache->blocks(), 8) << "what one tenant cannot have costs no other tenant its blocks";
  EXPECT_EQ(cache->match("", tokens(16, 0)).tokens, 16);
}

TEST_P(KvCache, AReaderWithoutALeaseFailsWhenItsPageHasBeenGivenToAnotherBlock) {
  put(tokens(16, 0));
  Cache::Lease lease = cache->match("", tokens(16, 0));
  const auto pages = lease.pages;
  cache->end(lease);
  for (int i = 1; i < 10; ++i) put(tokens(32, 100 * i));
  EXPECT_EQ(move(transfer::Op::kRead, pages), transfer::State::kFailed);
  EXPECT_EQ(move(transfer::Op::kWrite, pages), transfer::State::kFailed);
}

TEST_P(KvCache, BlocksThatWereAbandonedAreNeverFound) {
  auto writing = cache->begin("", tokens(8));
  ASSERT_TRUE(writing);
  EXPECT_EQ(cache->match("", tokens(8)).tokens, 0) << "before they are written";
  const auto pages = writing->pages;
  cache->abandon(*writing);
  EXPECT_EQ(move(transfer::Op::kWrite, pages), transfer::State::kFailed) << "a late writer";
  EXPECT_EQ(cache->match("", tokens(8)).tokens, 0);
}

// A file of 32 pages behind 8 pages of memory.
class KvTier : public KvCache {
 protected:
  void SetUp() override {
    fd = mkstemp(path);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(ftruncate(fd, 32 * kPage), 0);
    agent.emplace(*transfer::Agent::open({.name = "store"}));
    engine.emplace(*transfer::Agent::open({.name = "engine"}));
    auto opened = Cache::open(
        *agent, {.pages = 8, .page_bytes = kPage, .block_tokens = 4, .policy = GetParam(), .tier = {.file = path}});
    ASSERT_TRUE(opened) << opened.error().message;
    cache.emplace(std::move(*opened));
    mine = *engine->allocate(8 * kPage);
    ASSERT_TRUE(engine->load(*agent->metadata()));
  }
  void TearDown() override {
    close(fd);
    unlink(path);
    unlink((std::string(path) + ".index").c_str());
  }
  void expect_block(const Cache::Lease& lease, std::size_t block, int value) {
    ASSERT_EQ(move(transfer::Op::kRead, lease.pages), transfer::State::kDone);
    for (Bytes i = 0; i < kPage; ++i)
      ASSERT_EQ(mine.data[static_cast<Bytes>(block) * kPage + i], static_cast<std::byte>(value));
  }
  char path[32] = "/tmp/weft-kv-XXXXXX";
  int fd = -1;
};

TEST_P(KvTier, BlocksThatWereEvictedAreReadBackFromTheFile) {
  put(tokens(16, 0));
  for (int i = 1; i < 5; ++i) put(tokens(16, 50 * i));
  ASSERT_GT(cache->evicted(), 0);
  Cache::Lease lease = cache->match("", tokens(16, 0));
  EXPECT_EQ(lease.tokens, 16);
  EXPECT_GT(cache->reloaded(), 0);
  for (std::size_t block = 0; block < 4; ++block) expect_block(lease, block, static_cast<int>(block));
  EXPECT_EQ(cache->lost(), 0);
}

TEST_P(KvTier, ABlockThatWasDamagedInTheFileIsDroppedAndNeverServed) {
  put(tokens(16, 0));
  for (int i = 1; i < 5; ++i) put(tokens(16, 50 * i));
  std::vector<char> whole(32 * kPage);
  ASSERT_EQ(pread(fd, whole.data(), whole.size(), 0), static_cast<ssize_t>(whole.size()));
  for (std::size_t i = 100; i < whole.size(); i += kPage) whole[i] = static_cast<char>(whole[i] ^ 4);
  ASSERT_EQ(pwrite(fd, whole.data(), whole.size(), 0), static_cast<ssize_t>(whole.size()));
  const Cache::Lease lease = cache->match("", tokens(16, 0));
  EXPECT_EQ(cache->reloaded(), 0);
  EXPECT_LT(lease.tokens, 16);
  EXPECT_EQ(cache->lost(), 1);
}

TEST_P(KvTier, AFullFileForgetsTheBlocksThatWereUsedLeastRecently) {
  for (int i = 0; i < 20; ++i) put(tokens(16, 50 * i));
  EXPECT_EQ(cache->match("", tokens(16, 0)).tokens, 0);
  Cache::Lease lease = cache->match("", tokens(16, 50 * 14));
  EXPECT_EQ(lease.tokens, 16);
  expect_block(lease, 0, static_cast<int>(static_cast<unsigned char>(50 * 14)));
  EXPECT_EQ(cache->lost(), 0);
}

constexpr auto kNameOf = [](const testing::TestParamInfo<Policy>& info) { return std::string(name(info.param)); };
INSTANTIATE_TEST_SUITE_P(Policies, KvTier, testing::Values(Policy::kLru, Policy::kLfu, Policy::kS3Fifo), kNameOf);
INSTANTIATE_TEST_SUITE_P(Policies, KvCache, testing::Values(Policy::kLru, Policy::kLfu, Policy::kS3Fifo), kNameOf);

}  // namespace
}  // namespace weft::kv
