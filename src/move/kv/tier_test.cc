#include "move/kv/tier.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>

#include "move/kv/cache.h"

namespace weft::kv {
namespace {

constexpr Bytes kPage = 4096;
constexpr int kSlots = 4, kBlocks = 10;

BlockKey key_of(int block) { return net::link::sha256("block " + std::to_string(block)); }
std::byte content(int block, Bytes i) { return static_cast<std::byte>(block * 37 + i * 11 + i / 256); }

// An agent with one page of memory, and where a tier's files are.
class KvTierFile : public testing::Test {
 protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("weft-tier-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
    agent.emplace(*transfer::Agent::open({.name = "store"}));
    memory = *agent->allocate(kPage, kPage);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string file() const { return (folder / "blocks").string(); }
  TierOptions options() const { return {.file = file(), .slots = kSlots, .page_bytes = kPage}; }
  Status put(Tier& tier, int block) {
    for (Bytes i = 0; i < kPage; ++i) memory.data[i] = content(block, i);
    return tier.put(key_of(block), memory, 0);
  }
  // Is the block there? If so, with its own bytes.
  bool found(Tier& tier, int block) {
    if (!tier.holds(key_of(block))) return false;
    std::memset(memory.data, 0xee, kPage);
    const Status got = tier.get(key_of(block), memory, 0);
    if (!got) return false;
    for (Bytes i = 0; i < kPage; ++i)
      if (memory.data[i] != content(block, i)) ADD_FAILURE() << "block " << block << " has a wrong byte at " << i;
    return true;
  }
  std::set<int> all_found(Tier& tier) {
    std::set<int> blocks;
    for (int block = 0; block < kBlocks; ++block)
      if (found(tier, block)) blocks.insert(block);
    return blocks;
  }
  void flip(const std::string& where, off_t at) {
    const int fd = open(where.c_str(), O_RDWR);
    char byte = 0;
    ASSERT_EQ(pread(fd, &byte, 1, at), 1);
    byte = static_cast<char>(byte ^ 16);
    ASSERT_EQ(pwrite(fd, &byte, 1, at), 1);
    close(fd);
  }

  std::filesystem::path folder;
  std::optional<transfer::Agent> agent;
  transfer::Registration memory;
};

TEST_F(KvTierFile, BlocksAreThereAfterARestartInTheOrderOfTheirUse) {
  {
    auto tier = Tier::open(*agent, options());
    ASSERT_TRUE(tier) << tier.error().message;
    for (int block = 0; block < 6; ++block) ASSERT_TRUE(put(*tier, block));  // 0 and 1 are given up
    EXPECT_EQ(all_found(*tier), (std::set<int>{2, 3, 4, 5}));
  }
  auto tier = Tier::open(*agent, options());
  ASSERT_TRUE(tier) << tier.error().message;
  EXPECT_EQ(tier->recovered(), 4);
  EXPECT_EQ(tier->damaged(), 0);
  ASSERT_TRUE(put(*tier, 6));  // 2 was written first
  EXPECT_EQ(all_found(*tier), (std::set<int>{3, 4, 5, 6}));
}

// What is in the files after the first `changes` changes of kBlocks puts: a header; per put, once the slots are full,
// the record of the oldest block, then the block, then its record.
std::set<int> model(int changes) {
  std::set<int> there;
  int done = 1;
  for (int block = 0; block < kBlocks; ++block) {
    if (block >= kSlots && ++done <= changes) there.erase(block - kSlots);
    ++done;
    if (++done <= changes) there.insert(block);
  }
  return there;
}

TEST_F(KvTierFile, AProcessThatIsKilledBeforeAnyChangeLeavesExactlyTheBlocksThatWereKept) {
  int killed = 0;
  for (int change = 1;; ++change) {
    std::filesystem::remove(file());
    std::filesystem::remove(file() + ".index");
    const pid_t child = fork();
    if (child == 0) {
      TierOptions mine = options();
      int seen = 0;
      mine.before = [&](const char*) {
        if (++seen == change) kill(getpid(), SIGKILL);
      };
      auto own = transfer::Agent::open({.name = "killed"});
      memory = *own->allocate(kPage, kPage);
      auto tier = Tier::open(*own, mine);
      bool good = tier.has_value();
      for (int block = 0; good && block < kBlocks; ++block) good = put(*tier, block).has_value();
      _exit(good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    auto tier = Tier::open(*agent, options());
    ASSERT_TRUE(tier) << tier.error().message;
    EXPECT_EQ(tier->damaged(), 0);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
      EXPECT_EQ(all_found(*tier), model(change));
      break;
    }
    ++killed;
    EXPECT_EQ(all_found(*tier), model(change - 1)) << "killed before change " << change;
    ASSERT_TRUE(put(*tier, 9)) << "the tier goes on";
    EXPECT_TRUE(found(*tier, 9));
  }
  EXPECT_EQ(killed, 1 + 2 * kBlocks + (kBlocks - kSlots));
}

TEST_F(KvTierFile, ADamagedBlockIsDroppedWhenItIsReadOrAtTheStart) {
  {
    auto tier = Tier::open(*agent, options());
    for (int block = 0; block < kSlots; ++block) ASSERT_TRUE(put(*tier, block));
  }
  flip(file(), 1 * kPage + 77);
  {
    auto tier = Tier::open(*agent, options());
    EXPECT_EQ(tier->recovered(), kSlots) << "contents are not looked at";
    const Status got = tier->get(key_of(1), memory, 0);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().message, file() + ": block 1 does not hold what was written: it has been dropped");
    EXPECT_FALSE(tier->holds(key_of(1)));
    ASSERT_TRUE(put(*tier, 1));
  }
  flip(file(), 2 * kPage);
  TierOptions careful = options();
  careful.check = true;
  auto tier = Tier::open(*agent, careful);
  EXPECT_EQ(tier->recovered(), kSlots - 1);
  EXPECT_EQ(tier->damaged(), 1);
  EXPECT_FALSE(tier->holds(key_of(2)));
}

TEST_F(KvTierFile, NoDamageToTheIndexGivesAWrongBlock) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::filesystem::remove(file());
    std::filesystem::remove(file() + ".index");
    {
      auto tier = Tier::open(*agent, options());
      ASSERT_TRUE(tier);
      for (int block = 0; block < kSlots + 1; ++block) ASSERT_TRUE(put(*tier, block));
    }
    const off_t size = 64 * (kSlots + 1);
    if (round % 3 == 0) {
      ASSERT_EQ(truncate((file() + ".index").c_str(), 1 + random() % (size - 1)), 0);
    } else {
      for (int i = 0; i <= round % 4; ++i) flip(file() + ".index", random() % size);
    }
    auto tier = Tier::open(*agent, options());
    if (!tier) {
      EXPECT_NE(tier.error().message.find("is no index of a tier, or its header is damaged"), std::string::npos);
      continue;
    }
    EXPECT_LE(all_found(*tier).size(), static_cast<std::size_t>(kSlots));
    ASSERT_TRUE(put(*tier, 9));
    EXPECT_TRUE(found(*tier, 9));
  }
}

TEST_F(KvTierFile, AnotherTiersFilesAreRefused) {
  ASSERT_TRUE(Tier::open(*agent, options()));
  TierOptions other = options();
  other.page_bytes = 2 * kPage;
  EXPECT_EQ(Tier::open(*agent, other).error().message, file() + ".index: blocks of 4096 B, not of 8192");
  other = options();
  other.layout = "llama";
  EXPECT_EQ(Tier::open(*agent, other).error().message,
            file() + ".index: its blocks have another layout, or other numbers of tokens, than 'llama'");
  other = options();
  other.slots = 5;
  EXPECT_EQ(Tier::open(*agent, other).error().message, file() + ".index: the tier was made for 4 blocks, not 5");
  const auto first = Tier::open(*agent, options());
  EXPECT_EQ(Tier::open(*agent, options()).error().message, file() + ".index: another store uses it");
  other = options();
  other.file = "/no/such/folder/blocks";
  EXPECT_EQ(Tier::open(*agent, other).error().message, "/no/such/folder/blocks: No such file or directory");
}

TEST_F(KvTierFile, WhatTheFileLacksIsSaidOfTheFileAndNothingIsLeftBehind) {
  ASSERT_TRUE(Tier::open(*agent, options()));
  TierOptions whole = options();
  whole.slots = 0;  // as many as the file has room for
  ASSERT_EQ(truncate(file().c_str(), 2 * kPage), 0);
  EXPECT_EQ(Tier::open(*agent, whole).error().message,
            file() + " has room for 2 blocks, and its index says 4: was the file cut off?");
  ASSERT_EQ(unlink(file().c_str()), 0);
  EXPECT_EQ(Tier::open(*agent, whole).error().message,
            file() + " is missing beside its index: remove " + file() + ".index to begin with an empty tier");
  TierOptions none = options();
  none.file = file() + ".none";
  for (const std::int64_t slots : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 50}) {
    none.slots = slots;
    EXPECT_FALSE(Tier::open(*agent, none));
    EXPECT_NE(access(none.file.c_str(), F_OK), 0) << slots;
  }
}

// A limit on the size of files stands for a disk that is full.
TEST_F(KvTierFile, AFullDiskIsOneErrorAtTheStart) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{2 * kPage, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto tier = Tier::open(*agent, options());
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  ASSERT_FALSE(tier);
  EXPECT_EQ(tier.error().code, Code::kNoResources);
  EXPECT_EQ(tier.error().message, file() + ": no room for 4 blocks of 4096 B: File too large");
}

// The index grows with its records: there is no room for the third.
TEST_F(KvTierFile, ADiskThatFillsUpCostsTheBlockAndNoOther) {
  auto tier = Tier::open(*agent, options());
  ASSERT_TRUE(tier);
  ASSERT_TRUE(put(*tier, 0));
  ASSERT_TRUE(put(*tier, 1));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{64 * 3, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status written = put(*tier, 2);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("File too large"), std::string::npos) << written.error().message;
  EXPECT_EQ(all_found(*tier), (std::set<int>{0, 1}));
  ASSERT_TRUE(put(*tier, 2));
  EXPECT_EQ(all_found(*tier), (std::set<int>{0, 1, 2}));
}

// Through a cache: what was written back is there in the next one.
TEST_F(KvTierFile, ACacheFindsWhatAnEarlierOneHasLeft) {
  for (const auto write : {CacheOptions::Write::kThrough, CacheOptions::Write::kBack}) {
    std::filesystem::remove(file());
    std::filesystem::remove(file() + ".index");
    const std::vector<Token> prompt{1, 2, 3, 4, 5, 6, 7, 8};
    CacheOptions with{.pages = 8, .page_bytes = kPage, .block_tokens = 4, .tier = options(), .write = write};
    {
      auto cache = Cache::open(*agent, with);
      ASSERT_TRUE(cache) << cache.error().message;
      auto writing = cache->begin("tenant", prompt);
      ASSERT_TRUE(writing);
      for (std::size_t i = 0; i < writing->pages.size(); ++i)
        std::memset(cache->region().data + writing->pages[i].index * kPage, static_cast<int>(i) + 1, kPage);
      cache->commit(*writing);
      const bool back = write == CacheOptions::Write::kBack;
      EXPECT_EQ(cache->tier()->blocks(), back ? 0 : 2);
      ASSERT_TRUE(cache->flush());
      EXPECT_EQ(cache->tier()->blocks(), 2);
      ASSERT_TRUE(agent->deregister(cache->region()));
    }
    auto next = Cache::open(*agent, with);
    ASSERT_TRUE(next) << next.error().message;
    const Cache::Lease lease = next->match("tenant", prompt);
    ASSERT_EQ(lease.tokens, 8);
    EXPECT_EQ(next->reloaded(), 2);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(next->region().data[lease.pages[i].index * kPage + 5], static_cast<std::byte>(i + 1));
    EXPECT_EQ(next->match("another tenant", prompt).tokens, 0);
  }
}

}  // namespace
}  // namespace weft::kv
