#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

#include "move/kv/cache.h"
#include "move/kv/line.h"
#include "move/kv/wire.h"
#include "net/link/handshake.h"
#include "net/link/socket.h"
#include "weft/kv.h"

namespace weft::kv {
namespace {

using namespace std::chrono_literals;
namespace link = net::link;

constexpr std::int64_t kPage = 4096;
const std::string kKey = "0123456789abcdef";

std::vector<Token> tokens(std::size_t n, Token first = 0) {
  std::vector<Token> list(n);
  std::iota(list.begin(), list.end(), first);
  return list;
}

// A store of 8 pages and its server; an engine with an agent of its own, which reaches it as another process would over
// its connection, and the pages directly or, with `only_network`, by TCP.
class KvServer : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    agent.emplace(*transfer::Agent::open({.name = "store", .key = kKey, .listen = "127.0.0.1:0"}));
    engine.emplace(*transfer::Agent::open(
        {.name = "engine", .key = kKey, .network = transfer::Network::kTcp, .only_network = GetParam()}));
    auto opened = Store::open(*agent, {.pages = 8, .page_bytes = kPage, .block_tokens = 4});
    ASSERT_TRUE(opened) << opened.error().message;
    store.emplace(std::move(*opened));
    serve();
    mine = *engine->allocate(8 * kPage);
  }
  void serve(std::chrono::milliseconds most_lease = 60s) {
    server.reset();
    auto served = Server::open(*store, {.key = kKey, .most_lease = most_lease});
    ASSERT_TRUE(served) << served.error().message;
    server.emplace(std::move(*served));
  }
  Client connect(std::chrono::milliseconds lease = 10s) {
    auto client = Client::connect(*engine, {.address = server->address(), .key = kKey, .timeout = 2s, .lease = lease});
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
  void fill(std::int64_t blocks, int first) {
    for (std::int64_t i = 0; i < blocks; ++i)
      std::memset(mine.data + i * kPage, first + static_cast<int>(i), static_cast<std::size_t>(kPage));
  }
  // A connection that has proved the key, for questions that Client would not ask.
  UniqueFd greeted() {
    auto fd = link::start_connect(*link::parse_address("x", server->address()));
    EXPECT_TRUE(fd);
    link::Handshake handshake(link::Handshake::Role::kOpener, connection_key(kKey), {.purpose = kStorePurpose});
    EXPECT_TRUE(soon([&] { return handshake.advance(fd->get()) == link::Handshake::State::kDone; }));
    return std::move(*fd);
  }
  static void ask(const UniqueFd& fd, const Question& question) {
    ASSERT_EQ(send(fd.get(), &question, sizeof question, 0), static_cast<ssize_t>(sizeof question));
  }
  // Waits for what the server's thread does on its own.
  template <class F>
  static bool soon(F&& holds) {
    for (int i = 0; i < 500 && !holds(); ++i) std::this_thread::sleep_for(10ms);
    return holds();
  }
  std::optional<transfer::Agent> agent, engine;
  std::optional<Store> store;
  std::optional<Server> server;
  transfer::Registration mine;
};

TEST_P(KvServer, WhatOneClientPutsAnotherGets) {
  Client writer = connect(), reader = connect();
  EXPECT_EQ(writer.peer(), "store");
  EXPECT_EQ(writer.page_bytes(), kPage);
  EXPECT_EQ(writer.block_tokens(), 4);
  fill(4, 10);
  EXPECT_EQ(*writer.put("salt", tokens(16), mine), 4);
  fill(6, 90);
  EXPECT_EQ(*reader.get("salt", tokens(24), mine, kPage), 16);
  for (int i = 0; i < 4; ++i)
    for (const std::int64_t at : {std::int64_t{0}, kPage - 1})
      EXPECT_EQ(mine.data[(i + 1) * kPage + at], static_cast<std::byte>(10 + i));
  EXPECT_EQ(mine.data[5 * kPage], std::byte{95}) << "nothing behind the prefix is touched";
  EXPECT_EQ(*reader.get("another salt", tokens(24), mine), 0);
  fill(6, 10);
  EXPECT_EQ(*writer.put("salt", tokens(24), mine), 2) << "the four blocks in front are there";
  const Counters counters = *reader.counters();
  EXPECT_EQ(counters.blocks, 6);
  EXPECT_EQ(counters.leases, 0);
  EXPECT_EQ(counters.writings, 0);
}

TEST_P(KvServer, RequestsOfOnesOwnReadAndWriteByBlockTable) {
  Client client = connect();
  auto writing = client.begin("", tokens(8));
  ASSERT_TRUE(writing) << writing.error().message;
  fill(8, 1);
  const std::vector<transfer::Rows> rows{{mine.region, 0, kPage, kPage, 8}};
  const auto local = engine->prepare("", rows);
  const std::vector<std::uint32_t> here{5, 2}, there{writing->pages()[0].index, writing->pages()[1].index};
  const std::vector<std::uint64_t> generations{writing->pages()[0].generation, writing->pages()[1].generation};
  auto request =
      engine->make(transfer::Op::kWrite, *local, client.pages(),
                   {.local_blocks = here, .remote_blocks = there, .generations = generations, .verify = true});
  ASSERT_TRUE(engine->post(*request));
  ASSERT_EQ(engine->wait(*request), transfer::State::kDone) << request->error().message;
  EXPECT_EQ(*writing->commit(), 2);
  EXPECT_EQ(*client.get("", tokens(8), mine), 8);
  EXPECT_EQ(mine.data[0], std::byte{6});
  EXPECT_EQ(mine.data[kPage], std::byte{3});
}

TEST_P(KvServer, ABlockThatWasNotWrittenIsNotKept) {
  Client client = connect();
  auto writing = client.begin("", tokens(8));
  ASSERT_TRUE(writing);
  const auto committed = writing->commit();
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code, Code::kMismatch);
  EXPECT_EQ(committed.error().message,
            "store 'store' at " + server->address() + ": block 0 was not written whole with its checksum");
  EXPECT_EQ(client.counters()->writings, 0);
  EXPECT_EQ(*client.get("", tokens(8), mine), 0);
}

TEST_P(KvServer, ABlockThatHasChangedInTheStoresMemoryIsAnErrorAndNeverTokens) {
  Client client = connect();
  fill(2, 1);
  ASSERT_EQ(*client.put("", tokens(8), mine), 2);
  const Lease held = store->match("", tokens(8));
  store->bytes(held.pages()[1])[17] ^= std::byte{4};
  const auto got = client.get("", tokens(8), mine);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kMismatch);
  EXPECT_NE(got.error().message.find("store 'store' at " + server->address()), std::string::npos)
      << got.error().message;
  EXPECT_NE(got.error().message.find("its checksum differs"), std::string::npos) << got.error().message;
  EXPECT_EQ(*client.get("", tokens(4), mine), 4) << "the other block is unharmed";
}

TEST_P(KvServer, AClientsLeaseKeepsItsPagesUntilItEnds) {
  Client client = connect(), other = connect();
  fill(8, 1);
  ASSERT_EQ(*client.put("", tokens(16), mine), 4);
  auto lease = client.match("", tokens(16));
  ASSERT_TRUE(lease);
  ASSERT_EQ(*other.put("", tokens(16, 100), mine), 4);
  ASSERT_EQ(*other.put("", tokens(16, 200), mine), 4);  // in place of those from 100 on
  const auto none = other.put("", tokens(32, 300), mine);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNoResources);
  EXPECT_EQ(none.error().message,
            "store 'store' at " + server->address() +
                ": the prompt needs 8 more pages, of which 4 can be had: the others of 8 are being read or written");
  EXPECT_TRUE(client.read(*lease, mine));
  lease->end();
  EXPECT_EQ(client.counters()->leases, 0);
  EXPECT_EQ(*other.put("", tokens(32, 300), mine), 8);
}

TEST_P(KvServer, ALeaseEndsAtItsDeadlineAndItsReaderIsRefused) {
  Client client = connect(50ms), other = connect();
  fill(8, 1);
  ASSERT_EQ(*client.put("", tokens(16), mine), 4);
  auto lease = client.match("", tokens(16));
  auto writing = client.begin("", tokens(4, 500));
  ASSERT_TRUE(writing);
  EXPECT_TRUE(soon([&] { return store->counters().expired == 2; }));
  EXPECT_EQ(store->counters().leases, 0);
  EXPECT_EQ(store->counters().writings, 0);
  ASSERT_EQ(*other.put("", tokens(32, 300), mine), 8);
  const Status late = client.read(*lease, mine);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kMismatch);
  EXPECT_NE(late.error().message.find("has been released, or given to another owner"), std::string::npos)
      << late.error().message;
  EXPECT_EQ(client.extend(*lease).error().code, Code::kNotFound);
  EXPECT_FALSE(client.write(*writing, mine));
  const auto committed = writing->commit();
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code, Code::kNotFound);
  EXPECT_EQ(committed.error().message,
            "store 'store' at " + server->address() + ": it has ended, or its deadline has passed");
}

TEST_P(KvServer, ALeaseThatIsExtendedStaysAndTheServersLimitHolds) {
  Client client = connect(300ms);
  fill(4, 1);
  ASSERT_EQ(*client.put("", tokens(16), mine), 4);
  auto lease = client.match("", tokens(16));
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(client.extend(*lease));
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(store->counters().leases, 1);
  serve(20ms);
  Client patient = connect(10s);
  auto cut = patient.match("", tokens(16));
  EXPECT_TRUE(soon([&] { return store->counters().expired == 1; }));
}

TEST_P(KvServer, WhatAClientHoldsEndsWithItsConnection) {
  Client client = connect();
  fill(4, 1);
  ASSERT_EQ(*client.put("", tokens(16), mine), 4);
  const auto keys = [](const UniqueFd& fd, std::vector<link::Digest> list) {
    ASSERT_EQ(send(fd.get(), list.data(), list.size() * 32, 0), static_cast<ssize_t>(list.size() * 32));
  };
  {
    const auto fd = greeted();
    ask(fd, {.ask = Ask::kHello, .milliseconds = kStoreVersion});
    ask(fd, {.ask = Ask::kBegin, .count = 3, .milliseconds = 60'000});
    keys(fd, std::vector<link::Digest>(3, link::sha256("a block")));
    ask(fd, {.ask = Ask::kMatch, .count = 4, .milliseconds = 60'000});
    keys(fd, block_keys("", tokens(16), 4));
    EXPECT_TRUE(soon([&] { return store->counters().leases == 1 && store->counters().writings == 1; }));
    EXPECT_EQ(server->clients(), 2);
  }
  EXPECT_TRUE(soon([&] { return store->counters().leases == 0 && store->counters().writings == 0; }));
  EXPECT_TRUE(soon([&] { return server->clients() == 1; }));
  EXPECT_EQ(*client.put("", tokens(32, 500), mine), 8);
}

TEST_P(KvServer, WhatAClientHoldsEndsWithItsObjects) {
  Client client = connect();
  {
    const auto writing = client.begin("", tokens(16, 100));
    ASSERT_TRUE(writing);
    EXPECT_EQ(client.counters()->writings, 1);
  }
  EXPECT_EQ(client.counters()->writings, 0);
}

TEST_P(KvServer, WhatHasEndedIsNeitherReadNorWrittenThrough) {
  Client client = connect();
  fill(2, 7);
  auto writing = client.begin("", tokens(8));
  ASSERT_TRUE(writing) << writing.error().message;
  writing->abandon();
  const Status written = client.write(*writing, mine);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "this writing has ended");
  ASSERT_EQ(*client.put("", tokens(8), mine), 2);
  auto lease = client.match("", tokens(8));
  ASSERT_TRUE(lease) << lease.error().message;
  lease->end();
  const Status read = client.read(*lease, mine);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "this lease has ended");
}

// Sets a variable for as long as this object lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST_P(KvServer, WhatIsToBeProtectedIsNotSentInTheClear) {
  const Environment secure("WEFT_SECURE", "mac");
  const auto served = Server::open(*store, {.key = kKey});
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(served.error().message.starts_with("WEFT_SECURE=mac")) << served.error().message;
  const auto client = Client::connect(*engine, {.address = server->address(), .key = kKey});
  ASSERT_FALSE(client);
  EXPECT_TRUE(client.error().message.starts_with("WEFT_SECURE=mac")) << client.error().message;
  const auto listens = transfer::Agent::open({.name = "more", .key = kKey, .listen = "127.0.0.1:0"});
  ASSERT_FALSE(listens);
  EXPECT_TRUE(listens.error().message.starts_with("WEFT_SECURE=mac")) << listens.error().message;
  auto far = transfer::Agent::open({.name = "far", .key = kKey, .only_network = true});
  ASSERT_TRUE(far) << far.error().message;
  const auto loaded = far->load(*agent->metadata());
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message.find("agents send in the clear"), std::string::npos) << loaded.error().message;
}

// A server at its limit of strangers closes connections before it greets them.
TEST_P(KvServer, AConnectionThatHadToMakePlaceIsMadeAgain) {
  const auto busy = link::listen_on(link::loopback()).value();
  const auto at = link::local_address(busy.get());
  std::thread acceptor([&] {
    for (int i = 0; i < 3;) {
      auto fd = link::accept_from(busy.get());
      if (fd && fd->open())
        ++i;  // and closes it
      else
        std::this_thread::sleep_for(5ms);
    }
    link::Handshake handshake(link::Handshake::Role::kAcceptor, connection_key(kKey));
    UniqueFd last;
    for (; !last.open(); std::this_thread::sleep_for(5ms))
      if (auto fd = link::accept_from(busy.get())) last = std::move(*fd);
    (void)soon([&] {
      const auto state = handshake.advance(last.get());
      if (handshake.proved() && state == link::Handshake::State::kRunning) handshake.accept();
      return state != link::Handshake::State::kRunning;
    });
  });
  const auto line = Line::open(at, connection_key(kKey), 5s, {});
  EXPECT_TRUE(line) << line.error().message;
  acceptor.join();
}

TEST_P(KvServer, AStoreThatEndsIsAnErrorWithItsName) {
  Client client = connect();
  const std::string name = "store 'store' at " + server->address();
  store.reset();
  EXPECT_EQ(client.begin("", tokens(8)).error().message, name + ": the store has been closed");
  EXPECT_EQ(*client.get("", tokens(8), mine), 0);
  server.reset();
  const auto gone = client.match("", tokens(8));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::kPeerDied);
  EXPECT_EQ(gone.error().message.find(name + ": it has ended"), 0U) << gone.error().message;
  EXPECT_EQ(client.match("", tokens(8)).error().message, gone.error().message) << "the error stays";
}

TEST_P(KvServer, AnotherKeyAndAnotherLayoutAreRefused) {
  const auto key = Client::connect(*engine, {.address = server->address(), .key = "another key 1234", .timeout = 2s});
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, Code::kInvalidArgument);
  EXPECT_EQ(key.error().message, "store at " + server->address() + ": it has another key");
  auto stranger = transfer::Agent::open({.name = "stranger", .key = kKey, .layout = "fp8"});
  const auto layout = Client::connect(*stranger, {.address = server->address(), .key = kKey});
  ASSERT_FALSE(layout);
  EXPECT_NE(layout.error().message.find("pages of another layout"), std::string::npos) << layout.error().message;
  EXPECT_EQ(Server::open(*store, {.listen = "0.0.0.0:0"}).error().message,
            "listen 0.0.0.0:0: a store without a key serves the loopback only");
}

TEST_P(KvServer, ACallIsInterruptedAndAStoreThatDoesNotAnswerTimesOut) {
  // A listener that nobody serves: the kernel connects, and no greeting comes.
  auto silent = link::listen_on(*link::resolve("x", "127.0.0.1", 0));
  const std::string address = link::local_address(silent->get()).text();
  const auto late = Client::connect(*engine, {.address = address, .timeout = 50ms});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kTimeout);
  EXPECT_EQ(late.error().message, "store at " + address + ": no answer for 50 ms");
  const auto stopped =
      Client::connect(*engine, {.address = address, .timeout = 60s, .interrupted = [] { return true; }});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kAborted);
}

// A client that knows the key and sends what makes no sense loses its connection; what others hold stays.
TEST_P(KvServer, AQuestionThatMakesNoSenseHarmsNobody) {
  Client client = connect();
  fill(2, 1);
  ASSERT_EQ(*client.put("", tokens(8), mine), 2);
  const auto lease = client.match("", tokens(8));
  const std::vector<Question> bad = {
      {.ask = static_cast<Ask>(99)},
      {.ask = Ask::kMatch, .count = 1, .milliseconds = 5},  // before hello
      {.ask = Ask::kHello, .count = 4, .milliseconds = 1},
      {.ask = Ask::kHello, .milliseconds = kStoreVersion, .reserved = 7},
  };
  for (const Question& question : bad) {
    const auto fd = greeted();
    ask(fd, question);
    char byte = 0;
    EXPECT_TRUE(soon([&] { return recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0; })) << "it is closed without an answer";
  }
  EXPECT_EQ(store->counters().leases, 1);
  EXPECT_TRUE(client.read(*lease, mine));
  EXPECT_EQ(server->clients(), 1);
}

// The server keeps at most 1 MiB of answers for a client, and reads no further question meanwhile.
TEST_P(KvServer, AClientThatReadsNoAnswersKeepsNobodyWaiting) {
  Client client = connect();
  const auto fd = greeted();
  ask(fd, {.ask = Ask::kHello, .milliseconds = kStoreVersion});
  std::atomic<bool> ends = false;
  std::thread flood([&] {
    const std::vector<Question> many(1000, {.ask = Ask::kCounters});
    while (!ends.load())
      if (send(fd.get(), many.data(), many.size() * sizeof(Question), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) usleep(100);
  });
  fill(2, 1);
  for (int i = 0; i < 20; ++i) {
    const auto put = client.put("", tokens(8, 100 * i), mine);
    EXPECT_TRUE(put) << put.error().message;
  }
  ends.store(true);
  flood.join();
}

INSTANTIATE_TEST_SUITE_P(Paths, KvServer, testing::Values(false, true),
                         [](const auto& info) { return std::string(info.param ? "tcp" : "direct"); });

}  // namespace
}  // namespace weft::kv
