// A store's server and its clients in processes of their own: what is left when one of them is killed at any step.
//   kv_processes_test chaos ROUNDS        more rounds of the chaos, over shared memory and over TCP
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "tests/child.h"
#include "tests/transfer_paths.h"
#include "weft/kv.h"

namespace weft::kv {
namespace {

using namespace std::chrono_literals;
using tests::Child;

constexpr std::int64_t kPage = 256 << 10, kPages = 16, kTokens = 4;
const std::string kKey = "0123456789abcdef";

// Prompts of four blocks. Each word of a block follows from its tokens, so that a wrong block is seen.
std::vector<Token> prompt(int number) {
  std::vector<Token> tokens(4 * kTokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = number * 1000 + static_cast<Token>(i);
  return tokens;
}
std::uint64_t word(int number, std::int64_t block) {
  return (static_cast<std::uint64_t>(number) * 4 + static_cast<std::uint64_t>(block) + 1) * 0x9e3779b97f4a7c15ULL;
}
void fill(const transfer::Registration& memory, int number) {
  for (std::int64_t at = 0; at < 4 * kPage; at += 8) {
    const std::uint64_t value = word(number, at / kPage);
    std::memcpy(memory.data + at, &value, 8);
  }
}
bool holds(const transfer::Registration& memory, int number, std::int64_t blocks) {
  for (std::int64_t at = 0; at < blocks * kPage; at += 8) {
    std::uint64_t value = 0;
    std::memcpy(&value, memory.data + at, 8);
    if (value != word(number, at / kPage)) return false;
  }
  return true;
}

// An engine that is connected to a store.
struct Engine {
  explicit Engine(const std::string& address, const std::string& path = {}, std::chrono::milliseconds lease = 20s)
      : agent(*transfer::Agent::open(tests::by(path, {.name = "engine" + std::to_string(getpid()), .key = kKey}))),
        client(Client::connect(agent, {.address = address, .key = kKey, .timeout = 1s, .lease = lease})) {
    EXPECT_TRUE(client) << client.error().message;
    memory = *agent.allocate(4 * kPage);
  }
  transfer::Agent agent;
  Result<Client> client;
  transfer::Registration memory;
};

struct Serving {
  Serving()
      : agent(*transfer::Agent::open(tests::by_any({.name = "store", .key = kKey, .listen = "127.0.0.1:0"}))),
        store(*Store::open(agent, {.pages = kPages, .page_bytes = kPage, .block_tokens = kTokens})),
        server(*Server::open(store, {.key = kKey})) {}
  // Waits until nothing is out. Then all pages can be written: none has been lost.
  void expect_whole(const std::string& when) {
    for (int i = 0; i < 500 && (store.counters().leases > 0 || store.counters().writings > 0); ++i)
      std::this_thread::sleep_for(10ms);
    EXPECT_EQ(store.counters().leases, 0) << when;
    EXPECT_EQ(store.counters().writings, 0) << when;
    std::vector<Token> all(kPages * kTokens, ++fresh_token);
    Result<Writing> writing = store.begin("whole", all);
    for (int i = 0; i < 500 && !writing; ++i) {  // a page that a killed process was copying comes back
      std::this_thread::sleep_for(10ms);
      writing = store.begin("whole", all);
    }
    ASSERT_TRUE(writing) << when << ": " << writing.error().message;
    EXPECT_EQ(writing->pages().size(), static_cast<std::size_t>(kPages)) << when;
  }
  transfer::Agent agent;
  Store store;
  Server server;
  Token fresh_token = 1 << 20;
};

const char* const kSteps[] = {"connected", "lease", "reading", "begun", "writing", "written", "committed"};

// Goes on to a step, says so and waits to be killed; posts a part of what it moves where that is the step.
void go_to(Child& parent, const std::string& path) {
  const std::string address = parent.receive(), step = parent.receive();
  Engine engine(address, path);
  Client& client = *engine.client;
  const auto stay = [&](const char* here) {
    if (step != here) return;
    parent.say("there");
    (void)parent.receive();
    _exit(1);
  };
  // The request moves about 256 KiB at its post and nothing afterwards: it is under way when this process is killed.
  const auto post = [&](transfer::Op op, const std::vector<transfer::Page>& pages) {
    std::vector<std::uint32_t> blocks;
    std::vector<std::uint64_t> generations;
    for (const auto& page : pages) {
      blocks.push_back(page.index);
      generations.push_back(page.generation);
    }
    const std::vector<transfer::Rows> rows{
        {engine.memory.region, 0, kPage, kPage, static_cast<std::int64_t>(pages.size())}};
    auto request = engine.agent.make(op, *engine.agent.prepare("", rows), client.pages(),
                                     {.remote_blocks = blocks, .generations = generations, .verify = true});
    ASSERT_TRUE(request) << request.error().message;
    ASSERT_TRUE(engine.agent.post(*request));
    ASSERT_EQ(request->state(), transfer::State::kRunning);
    stay(op == transfer::Op::kRead ? "reading" : "writing");
    ASSERT_EQ(engine.agent.wait(*request), transfer::State::kDone);
  };
  stay("connected");
  auto lease = client.match("", prompt(0));
  ASSERT_TRUE(lease);
  ASSERT_EQ(lease->tokens(), 4 * kTokens);
  stay("lease");
  post(transfer::Op::kRead, lease->pages());
  auto writing = client.begin("", prompt(1));
  ASSERT_TRUE(writing);
  stay("begun");
  fill(engine.memory, 1);
  post(transfer::Op::kWrite, writing->pages());
  stay("written");
  ASSERT_TRUE(writing->commit());
  stay("committed");
}

class KvProcesses : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = tests::missing(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(KvProcesses, AClientThatIsKilledAtAnyStepGivesItsPagesBack) {
  for (const std::string step : kSteps) {
    Serving serving;
    Engine other(serving.server.address());
    fill(other.memory, 0);
    ASSERT_EQ(*other.client->put("", prompt(0), other.memory), 4);
    Child client("go_to " + GetParam());
    client.say(serving.server.address());
    client.say(step);
    ASSERT_EQ(client.receive(), "there") << step;
    const Counters before = serving.store.counters();
    EXPECT_EQ(before.leases, step == "connected" ? 0 : 1) << step;
    EXPECT_EQ(before.writings, step == "begun" || step == "writing" || step == "written" ? 1 : 0) << step;
    client.end(SIGKILL);
    for (int i = 0; i < 500 && serving.server.clients() > 1; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(serving.server.clients(), 1) << step;
    EXPECT_EQ(serving.store.match("", prompt(1)).tokens(), step == "committed" ? 4 * kTokens : 0)
        << step << ": blocks are found from their commit on, and not before";
    EXPECT_EQ(*other.client->get("", prompt(0), other.memory), 4 * kTokens);
    EXPECT_TRUE(holds(other.memory, 0, 4)) << step;
    serving.expect_whole(step);
  }
}

// Serves until its parent ends it.
void serve(Child& parent) {
  Serving serving;
  parent.say(serving.server.address());
  (void)parent.receive();
}

TEST_P(KvProcesses, AServerThatIsKilledIsAnErrorWithItsNameInEveryCall) {
  Child child("serve");
  const std::string address = child.receive();
  Engine engine(address, GetParam());
  fill(engine.memory, 0);
  ASSERT_EQ(*engine.client->put("", prompt(0), engine.memory), 4);
  auto lease = engine.client->match("", prompt(0));
  auto writing = engine.client->begin("", prompt(1));
  ASSERT_TRUE(lease && writing);
  child.end(SIGKILL);
  const std::string name = "store 'store' at " + address + ": ";
  const auto expect_named = [&](const Error& error) {
    EXPECT_EQ(error.code, Code::kPeerDied) << error.message;
    EXPECT_EQ(error.message.find(name), 0U) << error.message;
    EXPECT_EQ(error.message.find('\n'), std::string::npos);
  };
  const Status read = engine.client->read(*lease, engine.memory);
  const Status written = engine.client->write(*writing, engine.memory);
  ASSERT_FALSE(read || written);
  expect_named(read.error());
  expect_named(written.error());
  expect_named(writing->commit().error());
  expect_named(engine.client->match("", prompt(0)).error());
  expect_named(engine.client->get("", prompt(0), engine.memory).error());
  expect_named(engine.client->counters().error());
  lease->end();
  const auto again = Client::connect(engine.agent, {.address = address, .key = kKey, .timeout = 1s});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, "store at " + address + ": Connection refused");
  Child next("serve");
  Engine anew(next.receive(), GetParam());
  EXPECT_EQ(*anew.client->put("", prompt(0), anew.memory), 4) << "a store that was started again is empty, and serves";
}

TEST_P(KvProcesses, AServerThatIsStoppedTimesOutAndNothingHangs) {
  Child child("serve");
  const std::string address = child.receive();
  Engine engine(address, GetParam());
  child.stop();
  const auto none = engine.client->match("", prompt(0));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kTimeout);
  EXPECT_EQ(none.error().message,
            "store 'store' at " + address + ": no answer for 1000 ms; the connection has been closed");
  kill(child.pid(), SIGCONT);
  EXPECT_EQ(engine.client->match("", prompt(0)).error().message,
            "store 'store' at " + address + ": an earlier call: no answer for 1000 ms; the connection has been closed");
  auto again = Client::connect(engine.agent, {.address = address, .key = kKey});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->match("", prompt(0))->tokens(), 0);
}

TEST_P(KvProcesses, AStoppedClientsLeaseEndsByItsDeadlineAndItsLateWriteIsRefused) {
  Serving serving;
  Child client("late " + GetParam());
  client.say(serving.server.address());
  ASSERT_EQ(client.receive(), "begun");
  client.stop();
  for (int i = 0; i < 500 && serving.store.counters().expired == 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(serving.store.counters().expired, 1);
  auto all = serving.store.begin("", std::vector<Token>(kPages * kTokens, 7));
  ASSERT_TRUE(all) << all.error().message;
  for (const auto& page : all->pages()) std::memset(serving.store.bytes(page).data(), 0x55, kPage);
  kill(client.pid(), SIGCONT);
  const std::string said = client.receive();
  EXPECT_NE(said.find("has been released, or given to another owner"), std::string::npos) << said;
  for (const auto& page : all->pages())
    for (const std::byte b : serving.store.bytes(page)) ASSERT_EQ(b, std::byte{0x55});
}

void write_late(Child& parent, const std::string& path) {
  Engine engine(parent.receive(), path, 100ms);
  auto writing = engine.client->begin("", prompt(1));
  ASSERT_TRUE(writing);
  parent.say("begun");
  std::this_thread::sleep_for(500ms);
  const Status written = engine.client->write(*writing, engine.memory);
  parent.say(written ? "written" : written.error().message);
  (void)parent.receive();
}

// Puts and gets prompts at random until it is killed.
void put_and_get(Child& parent, const std::string& path) {
  Engine engine(parent.receive(), path);
  std::mt19937 random(static_cast<unsigned>(getpid()));
  parent.say("going");
  for (;;) {
    const int number = static_cast<int>(random() % 12);
    if (random() % 2 == 0) {
      fill(engine.memory, number);
      (void)engine.client->put("", prompt(number), engine.memory);
    } else {
      (void)engine.client->get("", prompt(number), engine.memory);
    }
  }
}

// Two clients are killed and replaced at random moments; a third checks every byte that it gets.
void chaos(const std::string& path, int rounds) {
  Serving serving;
  const auto start = [&] {
    auto child = std::make_unique<Child>("put_and_get " + path);
    child->say(serving.server.address());
    EXPECT_EQ(child->receive(), "going");
    return child;
  };
  std::vector<std::unique_ptr<Child>> victims;
  for (int i = 0; i < 2; ++i) victims.push_back(start());
  Engine checker(serving.server.address(), path);
  std::mt19937 random(11);
  std::int64_t got = 0, refused = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 20'000);
    do {
      const int number = static_cast<int>(random() % 12);
      const auto found = checker.client->get("", prompt(number), checker.memory);
      if (!found) {  // of a store whose pages others hold, nothing else
        ASSERT_EQ(found.error().code, Code::kNoResources) << found.error().message;
        ++refused;
        continue;
      }
      ASSERT_TRUE(holds(checker.memory, number, *found / kTokens)) << "round " << round << ", prompt " << number;
      got += *found / kTokens;
    } while (std::chrono::steady_clock::now() < until);
    auto& victim = victims[static_cast<std::size_t>(round) % 2];
    victim->end(SIGKILL);
    victim = start();
  }
  for (auto& victim : victims) victim->end(SIGKILL);
  EXPECT_GT(got, rounds) << "blocks were found and checked";
  serving.expect_whole("after all");
}

TEST_P(KvProcesses, NoWrongByteIsReadWhileClientsAreKilled) {
  chaos(GetParam(), GetParam() == "ucx" ? 20 : 40);  // each client loads UCX anew
}

INSTANTIATE_TEST_SUITE_P(Paths, KvProcesses, testing::Values("shared_memory", "tcp", "ucx"),
                         [](const auto& info) { return info.param; });

int play(std::string role) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Child parent{Child::Inside()};
  const std::size_t space = std::min(role.find(' '), role.size());
  const std::string path = role.substr(std::min(space + 1, role.size()));
  role.resize(space);
  if (role == "serve") serve(parent);
  if (role == "go_to") go_to(parent, path);
  if (role == "late") write_late(parent, path);
  if (role == "put_and_get") put_and_get(parent, path);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

// The run has no time limit.
int play_chaos(int rounds) {
  for (const std::string path : {"shared_memory", "tcp", "ucx"}) {
    if (!tests::missing(path).empty()) continue;
    chaos(path, rounds);
    std::printf("%s: %d clients killed, %s\n", path.c_str(), rounds, testing::Test::HasFailure() ? "WRONG" : "right");
    std::fflush(stdout);
  }
  return testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace
}  // namespace weft::kv

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string first = argc == 3 ? argv[1] : "";
  if (first == "role") return weft::kv::play(argv[2]);
  if (first == "chaos") return weft::kv::play_chaos(std::max(1, std::atoi(argv[2])));
  return RUN_ALL_TESTS();
}
