#include "weft/kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace weft::kv {
namespace {

constexpr std::int64_t kPage = 4096;

std::vector<Token> tokens(std::size_t n, Token first = 0) {
  std::vector<Token> list(n);
  std::iota(list.begin(), list.end(), first);
  return list;
}

class PublicStore : public testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("weft-store-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
    agent.emplace(*transfer::Agent::open({.name = "store"}));
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  Store open(StoreOptions options = {}) {
    if (options.pages == 0) options.pages = 8;
    if (options.page_bytes == 0 && options.model.empty()) options.page_bytes = kPage;
    options.block_tokens = 4;
    auto opened = Store::open(*agent, options);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  std::string refused(const StoreOptions& options) {
    const auto opened = Store::open(*agent, options);
    return opened ? "opened" : opened.error().message;
  }
  static std::int64_t put(Store& store, const std::vector<Token>& prompt) {
    auto writing = store.begin("", prompt);
    EXPECT_TRUE(writing) << writing.error().message;
    for (std::size_t i = 0; i < writing->pages().size(); ++i)
      std::ranges::fill(store.bytes(writing->pages()[i]),
                        static_cast<std::byte>(prompt[0] + writing->first_block() + static_cast<int>(i)));
    return *writing->commit();
  }
  std::filesystem::path folder;
  std::optional<transfer::Agent> agent;
};

TEST_F(PublicStore, BlocksThatWereCommittedAreFoundWithTheirBytes) {
  Store store = open();
  EXPECT_EQ(put(store, tokens(12)), 3);
  EXPECT_EQ(put(store, tokens(16)), 1) << "three of the four blocks are there";
  Lease lease = store.match("", tokens(18));
  EXPECT_EQ(lease.tokens(), 16) << "the two tokens behind the last whole block are ignored";
  ASSERT_EQ(lease.pages().size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto bytes = store.bytes(lease.pages()[i]);
    EXPECT_TRUE(std::ranges::all_of(bytes, [&](std::byte b) { return b == static_cast<std::byte>(i); }));
    EXPECT_TRUE(agent->sealed(store.region(), lease.pages()[i]));
  }
  const Counters counters = store.counters();
  EXPECT_EQ(counters.blocks, 4);
  EXPECT_EQ(counters.leases, 1);
  EXPECT_EQ(counters.asked, 4);
  EXPECT_EQ(counters.found, 4);
  EXPECT_EQ(counters.committed, 4);
}

TEST_F(PublicStore, ALeaseEndsWithItsObjectAndMovesWithIt) {
  Store store = open();
  put(store, tokens(16));
  {
    Lease first = store.match("", tokens(16));
    Lease second = std::move(first);
    EXPECT_TRUE(second.open());
    EXPECT_EQ(store.counters().leases, 1);
    second.end();
    second.end();
    EXPECT_EQ(store.counters().leases, 0);
    second = store.match("", tokens(8));
    second = store.match("", tokens(4));  // ends the one before
    EXPECT_EQ(store.counters().leases, 1);
  }
  EXPECT_EQ(store.counters().leases, 0);
  EXPECT_FALSE(store.match("", tokens(4, 900)).open()) << "nothing was found, so nothing is held";
}

TEST_F(PublicStore, PagesUnderALeaseStayAndAWritingThatIsDroppedGivesItsPagesBack) {
  Store store = open();
  put(store, tokens(16));
  const Lease lease = store.match("", tokens(16));
  {
    auto writing = store.begin("", tokens(16, 100));
    ASSERT_TRUE(writing);
    EXPECT_EQ(store.counters().writings, 1);
    const auto none = store.begin("", tokens(4, 200));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Code::kNoResources);
    EXPECT_EQ(none.error().message, "every page of 8 is being read or written");
  }
  EXPECT_EQ(store.counters().writings, 0);
  EXPECT_FALSE(store.match("", tokens(16, 100)).open());
  EXPECT_EQ(put(store, tokens(16, 200)), 4);
  EXPECT_EQ(store.match("", tokens(16)).tokens(), 16);
}

TEST_F(PublicStore, AWritingEndsOnce) {
  Store store = open();
  auto writing = store.begin("", tokens(8));
  ASSERT_TRUE(writing);
  EXPECT_EQ(*writing->commit(), 2);
  EXPECT_EQ(writing->commit().error().message, "this writing has ended");
  auto all_there = store.begin("", tokens(8));
  ASSERT_TRUE(all_there);
  EXPECT_TRUE(all_there->pages().empty());
  EXPECT_EQ(*all_there->commit(), 0);
}

TEST_F(PublicStore, WhatIsHeldOutlivesTheStoreWithoutHarm) {
  Lease lease;
  Writing writing;
  {
    Store store = open();
    put(store, tokens(8));
    lease = store.match("", tokens(8));
    writing = std::move(*store.begin("", tokens(8, 50)));
  }
  EXPECT_EQ(writing.commit().error().message, "the store has been closed");
  lease.end();
  EXPECT_EQ(open().counters().blocks, 0) << "its memory has been given back: another fits";
}

TEST_F(PublicStore, APageIsAsLargeAsTheModelsConfigSays) {
  const std::string config = (folder / "config.json").string();
  std::ofstream(config) << R"({"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2,
                               "hidden_size": 64, "torch_dtype": "bfloat16"})";
  // 2 layers x keys and values x 2 heads x 8 elements x 2 bytes = 128 bytes a token, in blocks of 4.
  EXPECT_EQ(*block_bytes(config, 4), 512);
  // Four ranks share two heads: each has one of them, 64 bytes a token.
  EXPECT_EQ(*block_bytes(config, 4, 4), 256);
  EXPECT_EQ(open({.model = config}).page_bytes(), 512);
  EXPECT_EQ(refused({.pages = 8, .page_bytes = 100, .model = config, .block_tokens = 4}),
            "pages of 100 bytes; blocks of " + config + " need 512");
  EXPECT_NE(refused({.pages = 8, .model = config + ".not"}).find(config + ".not"), std::string::npos);
}

TEST_F(PublicStore, ASecondTierGoesOnInTheNextStore) {
  const SecondTier tier{.file = (folder / "blocks").string(), .blocks = 16, .layout = "a", .write_back = true};
  {
    Store store = open({.tier = tier});
    put(store, tokens(16));
    EXPECT_EQ(store.counters().tier_blocks, 0);
  }  // written back
  {
    Store store = open({.tier = tier});
    EXPECT_EQ(store.counters().recovered, 4);
    const Lease lease = store.match("", tokens(16));
    EXPECT_EQ(lease.tokens(), 16);
    EXPECT_EQ(store.counters().reloaded, 4);
    EXPECT_EQ(store.bytes(lease.pages()[3])[9], std::byte{3});
    EXPECT_NE(refused({.pages = 8, .page_bytes = kPage, .block_tokens = 4, .tier = tier}).find("another store uses it"),
              std::string::npos);
  }
  SecondTier other = tier;
  other.layout = "b";
  EXPECT_NE(refused({.pages = 8, .page_bytes = kPage, .tier = other}).find("than 'b, blocks of 16 tokens'"),
            std::string::npos);
}

TEST_F(PublicStore, OptionsThatMakeNoSenseAreOneErrorEach) {
  EXPECT_EQ(refused({}), "a store: pages 0: 1 to 1048576");
  EXPECT_EQ(refused({.pages = 8, .page_bytes = std::int64_t{1} << 62}),
            "a store: page_bytes 4611686018427387904: 1 to 1099511627776");
  EXPECT_EQ(refused({.pages = 8, .page_bytes = 64, .policy = Policy::kClairvoyant}),
            "the optimum needs the future; a store has lru, lfu and s3fifo");
  EXPECT_EQ(refused({.pages = 8, .page_bytes = 64, .tier = {.blocks = 4}}),
            "options of a second tier without its file");
  EXPECT_EQ(agent->free_pages({0}), 0) << "nothing stays registered";
}

}  // namespace
}  // namespace weft::kv
