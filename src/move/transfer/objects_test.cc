#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "net/object/test_server.h"
#include "weft/transfer.h"

namespace weft::transfer {
namespace {

using net::object::TestServer;
using Fault = TestServer::Fault;

// An agent with 24 MiB of memory and one object of a server of this process.
struct Bench {
  TestServer server;
  Agent agent = Agent::open({.name = "a"}).value();
  Registration memory = agent.allocate(24 << 20).value();

  bool built() {
    const auto tried = add("probe", 1);
    return tried || tried.error().code != Code::kUnsupported;
  }
  Result<Registration> add(const std::string& key, std::int64_t bytes = 0) {
    return agent.add_object("s3://bucket/" + key, bytes,
                            {.endpoint = server.endpoint(), .region = "r", .key_id = "id", .secret = "secret"});
  }
  Result<Request> make(Op op, const Registration& object, std::int64_t offset, std::int64_t bytes,
                       const RequestOptions& options = {}) {
    WEFT_TRY(const auto local, agent.prepare("", std::vector<Rows>{{memory.region, 0, bytes}}));
    WEFT_TRY(const auto remote, agent.prepare("", std::vector<Rows>{{object.region, offset, bytes}}));
    return agent.make(op, local, remote, options);
  }
  State run(Request& request) {
    EXPECT_TRUE(agent.post(request));
    return agent.wait(request);
  }
  std::string text(std::size_t bytes) const { return {reinterpret_cast<const char*>(memory.data), bytes}; }
};
#define SKIP_WITHOUT_CURL(bench) \
  if (!(bench).built()) GTEST_SKIP() << "weft was built without libcurl"

TEST(AgentsObjects, AreWrittenWholeAndReadInParts) {
  Bench b;
  SKIP_WITHOUT_CURL(b);
  std::memcpy(b.memory.data, "0123456789", 10);
  const auto object = b.add("k", 10).value();
  auto write = b.make(Op::kWrite, object, 0, 10).value();
  ASSERT_EQ(b.run(write), State::kDone) << write.error().message;
  EXPECT_EQ(b.server.object("k"), "0123456789");
  auto read = b.make(Op::kRead, object, 4, 3).value();
  ASSERT_EQ(b.run(read), State::kDone) << read.error().message;
  EXPECT_EQ(b.text(3), "456");
  EXPECT_EQ(b.add("k")->bytes, 10) << "as the server says";
}

// 20 MiB: pieces of 8, 8 and 4 MiB at the same time.
TEST(AgentsObjects, ALargeReadIsInPieces) {
  Bench b;
  SKIP_WITHOUT_CURL(b);
  std::string text(20 << 20, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 + (i >> 16));
  b.server.set("k", text);
  const auto object = b.add("k").value();
  auto read = b.make(Op::kRead, object, 0, 20 << 20).value();
  ASSERT_EQ(b.run(read), State::kDone) << read.error().message;
  EXPECT_EQ(read.moved_bytes(), 20 << 20);
  EXPECT_EQ(b.text(text.size()), text);
}

TEST(AgentsObjects, SayWhatIsMissing) {
  Bench b;
  SKIP_WITHOUT_CURL(b);
  EXPECT_EQ(b.add("none").error().message.substr(0, 35), "s3://bucket/none GET: 404 NoSuchKey");
  const auto object = b.add("none", 10).value();
  auto read = b.make(Op::kRead, object, 0, 10).value();
  ASSERT_EQ(b.run(read), State::kFailed);
  EXPECT_NE(read.error().message.find("s3://bucket/none GET: 404 NoSuchKey"), std::string::npos)
      << read.error().message;
  EXPECT_NE(b.make(Op::kWrite, object, 2, 4).error().message.find("written whole"), std::string::npos);
}

TEST(AgentsObjects, ADeadlineEndsAServerThatDoesNotAnswer) {
  Bench b;
  SKIP_WITHOUT_CURL(b);
  b.server.set("k", "0123456789");
  const auto object = b.add("k").value();
  b.server.fail(Fault::kHangs);
  auto read = b.make(Op::kRead, object, 0, 10, {.deadline = std::chrono::milliseconds(50)}).value();
  EXPECT_EQ(b.run(read), State::kExpired);
}

TEST(AgentsObjects, NoByteArrivesAfterAReadWasCancelled) {
  Bench b;
  SKIP_WITHOUT_CURL(b);
  const std::string text(8 << 20, 'x');
  b.server.set("k", text);
  const auto object = b.add("k").value();
  for (int i = 0; i < 20; ++i) {
    std::memset(b.memory.data, 0, text.size());
    auto read = b.make(Op::kRead, object, 0, 8 << 20).value();
    ASSERT_TRUE(b.agent.post(read));
    std::this_thread::sleep_for(std::chrono::microseconds(200 * i));
    if (b.agent.poll(read) == State::kRunning) {
      ASSERT_TRUE(b.agent.cancel(read));
    }
    std::string then = b.text(text.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    EXPECT_EQ(b.text(text.size()), then);
  }
}

TEST(AgentsObjects, MemoryThatIsRegisteredNoMoreIsNotWrittenTo) {
  Bench b;
  SKIP_WITHOUT_CURL(b);
  b.server.set("k", std::string(1 << 20, 'x'));
  const auto object = b.add("k").value();
  std::vector<char> own(1 << 20, 0);
  const auto mine = b.agent.add_memory(own.data(), 1 << 20).value();
  b.server.fail(Fault::kHangs);
  const auto local = b.agent.prepare("", std::vector<Rows>{{mine.region, 0, 1 << 20}}).value();
  const auto remote = b.agent.prepare("", std::vector<Rows>{{object.region, 0, 1 << 20}}).value();
  auto read = b.agent.make(Op::kRead, local, remote).value();
  ASSERT_TRUE(b.agent.post(read));
  ASSERT_TRUE(b.agent.deregister(mine));
  EXPECT_EQ(b.agent.poll(read), State::kFailed);
  EXPECT_NE(read.error().message.find("registered no more"), std::string::npos);
  EXPECT_EQ(own, std::vector<char>(1 << 20, 0));
}

// An object that changes between two reads: the first that finds out fails, the next sees the new one.
TEST(AgentsObjects, AnObjectThatWasReplacedIsAnErrorOnceAndThenTheNewOne) {
  Bench b;
  SKIP_WITHOUT_CURL(b);
  b.server.set("k", "0123456789");
  const auto object = b.add("k").value();
  b.server.set("k", "9876543210");
  auto read = b.make(Op::kRead, object, 0, 10).value();
  EXPECT_EQ(b.run(read), State::kFailed);
  EXPECT_EQ(b.run(read), State::kDone);
  EXPECT_EQ(b.text(10), "9876543210");
}

TEST(AgentsObjects, AreCarriedOutAfterEachOfTheServersFailures) {
  for (const Fault fault : {Fault::kBusy, Fault::kCut, Fault::kCutAfterwards, Fault::kShort}) {
    Bench b;
    SKIP_WITHOUT_CURL(b);
    std::memcpy(b.memory.data, "0123456789", 10);
    const auto object = b.add("k", 10).value();
    b.server.fail(fault);
    auto write = b.make(Op::kWrite, object, 0, 10).value();
    ASSERT_EQ(b.run(write), State::kDone) << write.error().message;
    std::memset(b.memory.data, 0, 10);
    b.server.fail(fault);
    auto read = b.make(Op::kRead, object, 0, 10).value();
    ASSERT_EQ(b.run(read), State::kDone) << read.error().message;
    EXPECT_EQ(b.text(10), "0123456789");
  }
}

}  // namespace
}  // namespace weft::transfer
