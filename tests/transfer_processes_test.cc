// Transfer agents in processes of their own: the paths between them, and what is left when one is killed.
//   transfer_processes_test chaos ROUNDS        more of the chaos: some 50 transfers a round, over each path
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/child.h"
#include "tests/transfer_paths.h"
#include "weft/transfer.h"

namespace weft::transfer {
namespace {

using tests::Child;

constexpr std::int64_t kPage = 4096;

std::byte byte_at(std::int64_t i) { return static_cast<std::byte>(i * 11 + i / 4096); }

// Serves `kSize` bytes from the agent's allocator (region 0) and of plain memory (region 1) until it is killed.
constexpr std::int64_t kSize = 8 << 20;
void serve(Child& parent) {
  auto agent = Agent::open(tests::by_any({.name = "server", .key = "k", .listen = "127.0.0.1:0"}));
  ASSERT_TRUE(agent);
  const Registration own = *agent->allocate(kSize);
  std::vector<std::byte> plain(kSize);
  ASSERT_TRUE(agent->add_memory(plain.data(), kSize));
  for (std::int64_t i = 0; i < kSize; ++i) own.data[i] = plain[static_cast<std::size_t>(i)] = byte_at(i);
  parent.say(*agent->metadata());
  while (!parent.receive().empty()) {
    std::string got;
    for (const auto& n : agent->notifications()) got += n.peer + ":" + n.bytes + ";";
    parent.say(got + (own.data[5] == std::byte{0xaa} ? "written" : ""));
  }
}

TEST(TransferProcesses, MemoryOfAnotherProcessIsReadAndWrittenByEveryPath) {
  Child server("serve");
  const std::string metadata = server.receive();
  for (const std::string path : {"shared memory", "tcp", "ucx"}) {
    if (!tests::missing(path).empty()) continue;
    auto agent = Agent::open(tests::by(path, {.name = "by " + path, .key = "k"}));
    ASSERT_TRUE(agent);
    const auto loaded = agent->load(metadata);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const std::string paths = *agent->explain("server");
    const std::string there = path == "shared memory" ? "" : " to 127.0.0.1";
    EXPECT_EQ(paths.find("region 0: " + path + there), 0U) << paths;
    const Registration mine = *agent->allocate(kSize);
    for (const std::uint32_t region : {0U, 1U}) {
      std::memset(mine.data, 0, kSize);
      auto request =
          agent->make(Op::kRead, *agent->prepare("", std::vector<Rows>{{mine.region, 0, kPage, kPage, kSize / kPage}}),
                      *agent->prepare("server", std::vector<Rows>{{region, 0, kPage, kPage, kSize / kPage}}));
      ASSERT_TRUE(request) << request.error().message;
      ASSERT_TRUE(agent->post(*request));
      ASSERT_EQ(agent->wait(*request), State::kDone) << request->error().message;
      for (std::int64_t i = 0; i < kSize; ++i) ASSERT_EQ(mine.data[i], byte_at(i)) << i;
    }
    mine.data[0] = std::byte{0xaa};
    auto request = agent->make(Op::kWrite, *agent->prepare("", std::vector<Rows>{{mine.region, 0, 1}}),
                               *agent->prepare("server", std::vector<Rows>{{0, 5, 1}}), {.notify = "there"});
    ASSERT_TRUE(agent->post(*request));
    ASSERT_EQ(agent->wait(*request), State::kDone) << request->error().message;
    server.say("look");
    EXPECT_EQ(server.receive(), "by " + path + ":there;written");
    mine.data[0] = byte_at(5);
    ASSERT_TRUE(agent->post(*request));
    ASSERT_EQ(agent->wait(*request), State::kDone);
    server.say("look");
    (void)server.receive();
  }
}

TEST(TransferProcesses, TheCheapestOfSeveralPathsIsTakenAndTheOthersSayWhatTheyWouldCost) {
  Child server("serve");
  const std::string metadata = server.receive();
  Costs costs;
  costs.of(Path::kMapped) = {.points = {{kPage, 50}, {1 << 20, 500}}};
  costs.of(Path::kKernel) = {.points = {{kPage, 5}, {1 << 20, 100}}};
  costs.of(Path::kTcp) = {.points = {{kPage, 40}, {1 << 20, 900}}};
  auto agent = Agent::open({.name = "careful", .key = "k", .network = Network::kTcp, .costs = costs});
  ASSERT_TRUE(agent->load(metadata));
  const Registration mine = *agent->allocate(kPage);
  auto request = agent->make(Op::kRead, *agent->prepare("", std::vector<Rows>{{mine.region, 0, kPage}}),
                             *agent->prepare("server", std::vector<Rows>{{0, kPage, kPage}}));
  ASSERT_TRUE(request);
  if (agent->explain("server")->find("region 0: shared memory") == 0)
    GTEST_SKIP() << "no copies between processes here";
  EXPECT_EQ(agent->explain(*request),
            "read of 1 elements, 4096 B: peer 'server'\n"
            "region 0, 1 elements, 4096 B: process_vm_readv, 5.0 us\n"
            "  not direct: the peer is another process\n"
            "  not shared memory: 50.0 us, 45.0 us more\n"
            "  not gpu memory: the memory is not a GPU's\n"
            "  not tcp: 40.0 us, 35.0 us more\n"
            "  not ucx: this agent uses TCP\n"
            "  not file: a peer's files are its own\n"
            "  not object: a peer's objects are its own\n");
  ASSERT_TRUE(agent->post(*request));
  ASSERT_EQ(agent->wait(*request), State::kDone) << request->error().message;
  for (std::int64_t i = 0; i < kPage; ++i) ASSERT_EQ(mine.data[i], byte_at(kPage + i)) << i;
}

TEST(TransferProcesses, APeerThatIsKilledWhileItServesByANetworkIsNamed) {
  for (const std::string path : {"tcp", "ucx"}) {
    if (!tests::missing(path).empty()) continue;
    Child server("serve");
    auto agent = Agent::open(tests::by(path, {.name = "reader", .key = "k"}));
    ASSERT_TRUE(agent->load(server.receive()));
    const Registration mine = *agent->allocate(kSize);
    auto request = agent->make(Op::kRead, *agent->prepare("", std::vector<Rows>{{mine.region, 0, kSize}}),
                               *agent->prepare("server", std::vector<Rows>{{0, 0, kSize}}));
    ASSERT_TRUE(agent->post(*request));
    ASSERT_EQ(request->state(), State::kRunning);
    server.end(SIGKILL);
    EXPECT_EQ(agent->wait(*request, std::chrono::seconds(20)), State::kFailed) << path;
    EXPECT_EQ(request->error().code, Code::kPeerDied) << path;
    EXPECT_EQ(request->error().message.find("peer 'server': the connection has "), 0U) << request->error().message;
  }
}

TEST(TransferProcesses, APeerThatWasKilledIsNamedAndItsSuccessorServes) {
  Child server("serve");
  auto agent = Agent::open({.name = "reader", .key = "k"});
  ASSERT_TRUE(agent->load(server.receive()));
  const Registration mine = *agent->allocate(kSize);
  const Prepared local = *agent->prepare("", std::vector<Rows>{{mine.region, 0, kSize}});
  auto request = agent->make(Op::kRead, local, *agent->prepare("server", std::vector<Rows>{{0, 0, kSize}}));
  ASSERT_TRUE(agent->post(*request));
  ASSERT_EQ(request->state(), State::kRunning);
  const pid_t pid = server.pid();
  server.end(SIGKILL);
  EXPECT_EQ(agent->wait(*request), State::kFailed);
  EXPECT_EQ(request->error().message, "peer 'server' (process " + std::to_string(pid) + ") has ended");
  Child next("serve");
  ASSERT_TRUE(agent->load(next.receive()));
  ASSERT_TRUE(agent->post(*request));
  EXPECT_EQ(agent->wait(*request), State::kFailed);
  EXPECT_EQ(request->error().message, "peer 'server' has restarted since this list was prepared");
  auto again = agent->make(Op::kRead, local, *agent->prepare("server", std::vector<Rows>{{0, 0, kSize}}));
  ASSERT_TRUE(agent->post(*again));
  EXPECT_EQ(agent->wait(*again), State::kDone);
}

// A page's content says for which owner and generation it was written, in every word; so a wrong byte is seen.
std::uint64_t word_of(std::uint64_t generation) { return generation * 0x9e3779b97f4a7c15ULL; }

// Writes to the pages that the owner names, again and again, late or not, until it is killed.
void write_pages(Child& parent, const std::string& path) {
  auto agent = Agent::open(tests::by(path, {.name = "writer" + std::to_string(getpid()), .key = "k"}));
  ASSERT_TRUE(agent);
  ASSERT_TRUE(agent->load(parent.receive()));
  const Registration mine = *agent->allocate(kPage);
  const Prepared local = *agent->prepare("", std::vector<Rows>{{mine.region, 0, kPage}});
  const Prepared remote = *agent->prepare("owner", std::vector<Rows>{{0, 0, kPage, kPage, 8}});
  parent.say("ready");
  for (std::string order = parent.receive(); !order.empty(); order = parent.receive()) {
    Page page;
    std::memcpy(&page, order.data(), sizeof page);
    for (std::int64_t i = 0; i < kPage; i += 8) {
      const std::uint64_t word = word_of(page.generation);
      std::memcpy(mine.data + i, &word, 8);
    }
    const std::uint32_t block[] = {page.index};
    const std::uint64_t generation[] = {page.generation};
    auto request = agent->make(Op::kWrite, local, remote,
                               {.remote_blocks = block, .generations = generation, .notify = "x", .verify = true});
    ASSERT_TRUE(request);
    // The first announces its end; the others are late on purpose.
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(agent->post(*request));
      const State state = agent->wait(*request);
      if (i == 0) parent.say(std::string(name(state)));
    }
  }
}

// The owner gives pages out, takes them back while writers still write and are killed, and gives them to the next.
void chaos(const std::string& path, int rounds) {
  auto owner = Agent::open(tests::by_any({.name = "owner", .key = "k", .listen = "127.0.0.1:0"}));
  ASSERT_TRUE(owner);
  const Registration pages = *owner->allocate(8 * kPage, kPage);
  const std::string metadata = *owner->metadata();
  std::mt19937 random(7);
  const auto start = [&] {
    auto child = std::make_unique<Child>("write_pages " + path);
    child->say(metadata);
    EXPECT_EQ(child->receive(), "ready");
    return child;
  };
  std::vector<std::unique_ptr<Child>> writers;
  for (int i = 0; i < 2; ++i) writers.push_back(start());
  int checked = 0, killed = 0;
  for (int round = 0; round < rounds; ++round) {
    Result<Page> page = owner->acquire(pages, static_cast<std::uint16_t>(1 + round % 1000));
    for (int look = 0; !page && look < 5000; ++look) {
      usleep(100);
      page = owner->acquire(pages, static_cast<std::uint16_t>(1 + round % 1000));
    }
    ASSERT_TRUE(page) << "pages of writers that have been killed come back: " << page.error().message;
    auto& writer = writers[static_cast<std::size_t>(round) % writers.size()];
    writer->say(std::string(reinterpret_cast<const char*>(&*page), sizeof *page));
    const bool killed_now = random() % 3 == 0;
    if (killed_now) {
      usleep(random() % 300);
      kill(writer->pid(), SIGKILL);
      writer->end(SIGKILL);
      ++killed;
      writer = start();
    } else {
      ASSERT_EQ(writer->receive(), "done");
      // Taken back, and no copy is under way: every word stays this generation's, although late writers are still
      // trying.
      ASSERT_TRUE(owner->release(pages, *page));
      for (int look = 0; owner->free_pages(pages) < 8 && look < 5000; ++look) usleep(100);
      ASSERT_EQ(owner->free_pages(pages), 8);
      for (std::int64_t i = 0; i < kPage; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, pages.data + page->index * kPage + i, 8);
        ASSERT_EQ(word, word_of(page->generation)) << "round " << round << ", byte " << i;
      }
      ++checked;
    }
    if (killed_now) {
      ASSERT_TRUE(owner->release(pages, *page));
    }
    (void)owner->notifications();
  }
  EXPECT_GT(checked, rounds / 3);
  EXPECT_GT(killed, 0);
  for (auto& writer : writers) writer->end(SIGKILL);
  for (int look = 0; owner->free_pages(pages) < 8 && look < 5000; ++look) usleep(100);
  EXPECT_EQ(owner->free_pages(pages), 8) << "no page is lost";
}

// Writes one large page, which takes milliseconds.
constexpr std::int64_t kLargePage = 64 << 20;
void write_a_large_page(Child& parent) {
  auto agent = Agent::open({.name = "writer"});
  ASSERT_TRUE(agent);
  ASSERT_TRUE(agent->load(parent.receive()));
  const Registration mine = *agent->allocate(kLargePage);
  const std::string order = parent.receive();
  Page page;
  ASSERT_EQ(order.size(), sizeof page);
  std::memcpy(&page, order.data(), sizeof page);
  auto request = agent->make(Op::kWrite, *agent->prepare("", std::vector<Rows>{{mine.region, 0, kLargePage}}),
                             *agent->prepare("owner", std::vector<Rows>{{0, 0, kLargePage}}),
                             {.generations = {&page.generation, 1}});
  ASSERT_TRUE(request);
  parent.say("going");
  ASSERT_TRUE(agent->post(*request));
  (void)agent->wait(*request);
  (void)parent.receive();
}

TEST(TransferProcesses, APageOfAStoppedWriterStaysOutUntilTheWriterHasEnded) {
  auto owner = Agent::open({.name = "owner"});
  const Registration pages = *owner->allocate(kLargePage, kLargePage);
  bool caught = false;
  for (int attempt = 0; attempt < 50 && !caught; ++attempt) {
    const Page page = *owner->acquire(pages, 1);
    Child writer("write_a_large_page");
    writer.say(*owner->metadata());
    writer.say(std::string(reinterpret_cast<const char*>(&page), sizeof page));
    ASSERT_EQ(writer.receive(), "going");
    usleep(static_cast<useconds_t>(1000 + attempt * 200));
    kill(writer.pid(), SIGSTOP);
    usleep(2000);
    ASSERT_TRUE(owner->release(pages, page));
    caught = owner->free_pages(pages) == 0;
    if (caught) {
      usleep(20000);
      EXPECT_EQ(owner->free_pages(pages), 0) << "the writer may go on";
      EXPECT_EQ(owner->acquire(pages, 2).error().code, Code::kNoResources);
    }
    writer.end(SIGKILL);
    EXPECT_EQ(owner->free_pages(pages), 1);
  }
  EXPECT_TRUE(caught) << "no writer was stopped while it copied";
}

TEST(TransferChaos, NoWrongByteIsDeliveredWhileWritersAreKilledAndLateInSharedMemory) { chaos("shared memory", 400); }
TEST(TransferChaos, NoWrongByteIsDeliveredWhileWritersAreKilledAndLateOverTcp) { chaos("tcp", 400); }
TEST(TransferChaos, NoWrongByteIsDeliveredWhileWritersAreKilledAndLateOverUcx) {
  if (const std::string why = tests::missing("ucx"); !why.empty()) GTEST_SKIP() << why;
  chaos("ucx", 100);  // each writer loads UCX anew
}

int play(const std::string& role) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Child parent{Child::Inside()};
  if (role == "serve") serve(parent);
  if (const std::string writes = "write_pages "; role.starts_with(writes))
    write_pages(parent, role.substr(writes.size()));
  if (role == "write_a_large_page") write_a_large_page(parent);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

// The run has no time limit.
int play_chaos(int rounds) {
  for (const std::string path : {"shared memory", "tcp", "ucx"}) {
    if (!tests::missing(path).empty()) continue;
    chaos(path, rounds);
    std::printf("%s: %d rounds, %s\n", path.c_str(), rounds, testing::Test::HasFailure() ? "WRONG" : "right");
    std::fflush(stdout);
  }
  return testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace
}  // namespace weft::transfer

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string first = argc == 3 ? argv[1] : "";
  if (first == "role") return weft::transfer::play(argv[2]);
  if (first == "chaos") return weft::transfer::play_chaos(std::max(1, std::atoi(argv[2])));
  return RUN_ALL_TESTS();
}
