#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>

#include "net/ucx/ucx.h"
#include "weft/transfer.h"

// Agents refuse wrong lists and metadata, and register memory once.
namespace weft::transfer {
namespace {

constexpr std::int64_t kSize = 1 << 20, kPage = 4096;

Agent agent(const std::string& name, Options more = {}) {
  more.name = name;
  auto opened = Agent::open(more);
  EXPECT_TRUE(opened) << opened.error().message;
  return std::move(*opened);
}

TEST(TransferMemory, MoreThanTheMachineHasIsRefusedBeforeItIsTaken) {
  Agent a = agent("a");
  const auto refused = a.allocate(std::int64_t{1} << 60);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoResources);
  EXPECT_NE(refused.error().message.find("are more than the"), std::string::npos) << refused.error().message;
}

TEST(TransferInput, WrongListsAreOneClearErrorEach) {
  Agent a = agent("a");
  const Registration r = *a.allocate(4096), paged = *a.allocate(8192, 4096);
  const auto error = [&](std::vector<Rows> rows) {
    const auto list = a.prepare("", rows);
    return list ? std::string("no error") : list.error().message;
  };
  EXPECT_EQ(error({{r.region, 4000, 97}}),
            "this agent: 1 elements of 97 bytes from offset 4000 end past region 0 of 4096 bytes");
  EXPECT_EQ(error({{r.region, 0, 64, 128, 33}}),
            "this agent: 33 elements of 64 bytes from offset 0 end past region 0 of 4096 bytes");
  EXPECT_EQ(error({{r.region, 0, 64, INT64_MAX / 2, 4}}).substr(0, 22), "this agent: 4 elements");
  EXPECT_EQ(error({{r.region, 0, 64, 32, 3}}), "this agent: elements of 64 bytes overlap with a stride of 32");
  EXPECT_EQ(error({{99, 0, 64}}), "this agent: region 99 is not registered, or was not when its metadata was loaded");
  EXPECT_EQ(error({{paged.region, 4000, 200}}),
            "this agent: an element of 200 bytes crosses pages of 4096 bytes of region 1");
  EXPECT_EQ(error({}), "a list without rows");
  EXPECT_FALSE(a.prepare("nobody", std::vector<Rows>{{r.region, 0, 1}}));
  const Prepared one = *a.prepare("", std::vector<Rows>{{r.region, 0, 64}}),
                 two = *a.prepare("", std::vector<Rows>{{r.region, 0, 32, 32, 2}});
  EXPECT_EQ(a.make(Op::kRead, one, two).error().message, "the local list gives 1 elements and the remote one 2");
  const std::uint32_t past[] = {2};
  EXPECT_EQ(a.make(Op::kRead, two, two, {.local_blocks = past, .remote_blocks = past}).error().message,
            "local block 2 is past the end of a list of 2 elements");
}

TEST(TransferInput, MemoryIsRegisteredOnce) {
  Agent a = agent("a");
  std::vector<std::byte> memory(10000);
  ASSERT_TRUE(a.add_memory(memory.data(), 8000));
  EXPECT_NE(a.add_memory(memory.data() + 7999, 100).error().message.find("overlap region 0"), std::string::npos);
  EXPECT_TRUE(a.add_memory(memory.data() + 8000, 100));
  EXPECT_FALSE(a.add_memory(memory.data(), -1));
  EXPECT_EQ(a.rows_at(memory.data() + 10, 20)->offset, 10);
  EXPECT_FALSE(a.rows_at(memory.data() + 9000, 1));
}

TEST(TransferInput, MemoryThatIsNotThereIsNotRegistered) {
  Agent a = agent("a");
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const data =
      static_cast<std::byte*>(mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(munmap(data + page, page), 0);
  const auto bytes = static_cast<std::int64_t>(page);
  EXPECT_FALSE(a.add_memory(data, 3 * bytes)) << "its middle is a hole";
  EXPECT_FALSE(a.add_memory(data + page - 8, 16)) << "its last bytes";
  EXPECT_NE(a.add_memory(data + page, bytes).error().message.find("part of this memory is not there"),
            std::string::npos);
  EXPECT_TRUE(a.add_memory(data + 100, bytes - 100));
  EXPECT_TRUE(a.add_memory(data + 2 * page, 5));
  munmap(data, 3 * page);
}

// KiB of huge pages in the mapping that begins at `data`.
long huge_of(const std::byte* data) {
  std::ifstream maps("/proc/self/smaps");
  const std::string begin = fmt::format("{:x}-", reinterpret_cast<std::uintptr_t>(data));
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    found = found || line.starts_with(begin);
    if (found && line.starts_with("AnonHugePages:")) return std::stol(line.substr(line.find(':') + 1));
  }
  return 0;
}

TEST(TransferInput, PlainMemoryHasHugePagesWhereTheMachineHasThem) {
  constexpr std::size_t kHuge = 2 << 20, kBytes = 4 * kHuge;
  std::string said;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), said);
  if (said.empty() || said.find("[never]") != std::string::npos) GTEST_SKIP() << "huge pages: " << said;
  auto* const all = static_cast<std::byte*>(
      mmap(nullptr, kBytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  auto* const data = all + (kHuge - reinterpret_cast<std::uintptr_t>(all) % kHuge) % kHuge;
  madvise(data, kBytes, MADV_NOHUGEPAGE);  // a mapping of its own, of small pages
  for (std::size_t i = 0; i < kBytes; i += 512) data[i] = static_cast<std::byte>(i / 512);
  ASSERT_EQ(huge_of(data), 0);
  Agent a = agent("a");
  ASSERT_TRUE(a.add_memory(data, kBytes));
  if (huge_of(data) == 0)
    GTEST_SKIP() << "this kernel makes none of small ones (Linux 6.1 does), or memory is scattered";
  EXPECT_EQ(huge_of(data), static_cast<long>(kBytes >> 10));
  for (std::size_t i = 0; i < kBytes; i += 512) ASSERT_EQ(data[i], static_cast<std::byte>(i / 512)) << i;
  munmap(all, kBytes + kHuge);
}

TEST(TransferInput, MetadataOfAnotherKeyOrLayoutOrDamagedIsRefused) {
  Agent a = agent("a", {.key = "one"}), other_key = agent("b", {.key = "two"}),
        other_layout = agent("c", {.key = "one", .layout = "x"});
  Agent good = agent("d", {.key = "one"});
  EXPECT_EQ(a.load(*other_key.metadata()).error().message, "the metadata is damaged, or its agent has another key");
  EXPECT_EQ(a.load(*other_layout.metadata()).error().message,
            "peer 'c' has pages of another layout than this agent ('')");
  std::string bytes = *good.metadata();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(a.load(damaged)) << i;
    EXPECT_FALSE(a.load(bytes.substr(0, i))) << i;
  }
  EXPECT_EQ(*a.load(bytes), "d");
}

TEST(TransferInput, ListeningNeedsAKeyAndAnAddress) {
  EXPECT_FALSE(Agent::open({.name = "x", .listen = "127.0.0.1:0"}));
  EXPECT_FALSE(Agent::open({.name = "x", .key = "k", .listen = "nonsense"}));
  EXPECT_TRUE(Agent::open({.name = "x", .key = "k", .listen = "127.0.0.1:0"}));
}

TEST(TransferInput, AnAgentThatIsReplacedByAnotherHasBeenClosedForItsPeers) {
  Agent a = agent("a"), b = agent("b");
  const Registration mine = *a.allocate(4096), theirs = *b.allocate(4096);
  ASSERT_TRUE(a.load(*b.metadata()));
  auto request = a.make(Op::kRead, *a.prepare("", std::vector<Rows>{{mine.region, 0, 64}}),
                        *a.prepare("b", std::vector<Rows>{{theirs.region, 0, 64}}));
  b = agent("b");
  ASSERT_TRUE(a.post(*request));
  EXPECT_EQ(a.wait(*request), State::kFailed);
  EXPECT_EQ(request->error().message, "peer 'b' has been closed");
}

TEST(TransferInput, AnAddressThatNoPeerCanConnectToIsRefused) {
  for (const char* listen : {"0.0.0.0:0", "[::]:0"}) {
    const auto agent = Agent::open({.name = "a", .key = "k", .listen = listen});
    ASSERT_FALSE(agent) << listen;
    EXPECT_NE(agent.error().message.find("name one that they can connect to"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::transfer
