#include "net/object/client.h"

#include <gtest/gtest.h>

#include "net/object/test_server.h"

namespace weft::net::object {
namespace {

using Fault = TestServer::Fault;
using std::chrono::milliseconds;

struct Bench {
  TestServer server;
  Client client = Client::open(server.place(), {.part = 1 << 20, .at_once = 2, .first_pause = milliseconds(1)}).value();
  Name name{"bucket", "a/key with blanks"};
  Leave leave{Clock::now() + std::chrono::seconds(20)};

  std::string key() const { return "a/key%20with%20blanks"; }
  Result<Known> write(const std::string& text) {
    return client.write(name, std::as_bytes(std::span(text.data(), text.size())), leave);
  }
  Result<std::string> read(Bytes offset, std::size_t bytes, const Known* known = nullptr) {
    std::string text(bytes, '?');
    WEFT_TRY(last,
             client.read(name, offset, std::as_writable_bytes(std::span(text.data(), text.size())), known, leave));
    return text;
  }
  Known last;
};

TEST(ObjectClient, WritesAnObjectAndReadsItsRanges) {
  Bench b;
  ASSERT_TRUE(b.write("0123456789"));
  EXPECT_EQ(b.server.object(b.key()), "0123456789");
  EXPECT_EQ(b.read(0, 10).value(), "0123456789");
  EXPECT_EQ(b.read(3, 4).value(), "3456");
  EXPECT_EQ(b.last.bytes, 10);
  EXPECT_EQ(b.client.look(b.name, b.leave)->bytes, 10);
}

TEST(ObjectClient, ABusyOrBrokenServerIsAskedAgain) {
  for (const Fault fault : {Fault::kBusy, Fault::kCut, Fault::kShort}) {
    Bench b;
    ASSERT_TRUE(b.write("0123456789"));
    b.server.fail(fault, 3);
    EXPECT_EQ(b.read(2, 5).value(), "23456") << static_cast<int>(fault);
    b.server.fail(fault, 3);
    ASSERT_TRUE(b.write("abc"));
    EXPECT_EQ(b.server.object(b.key()), "abc");
  }
}

TEST(ObjectClient, AfterAllAttemptsTheErrorNamesTheObjectTheStatusAndWhatTheServerSaid) {
  Bench b;
  b.server.fail(Fault::kBusy, 5);
  EXPECT_EQ(b.write("abc").error().message,
            "s3://bucket/a/key with blanks PUT: 503 SlowDown: Please reduce your request rate. (5 attempts)");
  EXPECT_FALSE(b.server.has(b.key()));
}

TEST(ObjectClient, AWrongByteIsNeverGivenOutAsRight) {
  Bench b;
  ASSERT_TRUE(b.write("0123456789"));
  b.server.fail(Fault::kWrongByte);
  const auto read = b.read(0, 10);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kMismatch);
}

TEST(ObjectClient, AnObjectThatWasReplacedIsNotReadAsTheOneThatWasLookedAt) {
  Bench b;
  const Known old = b.write("0123456789").value();
  ASSERT_TRUE(b.write("9876543210"));
  const auto read = b.read(2, 4, &old);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kMismatch);
  EXPECT_NE(read.error().message.find("another one"), std::string::npos);
}

TEST(ObjectClient, AServerThatIgnoresRangesIsAnErrorNotOtherBytes) {
  Bench b;
  ASSERT_TRUE(b.write("0123456789"));
  b.server.fail(Fault::kWholeObject);
  EXPECT_FALSE(b.read(5, 3));
  EXPECT_EQ(b.read(5, 3).value(), "567");
}

TEST(ObjectClient, WhatIsNotThereOrNotAllowedOrTooShortIsNotAskedTwice) {
  Bench b;
  EXPECT_EQ(b.read(0, 3).error().code, Code::kNotFound);
  EXPECT_EQ(b.client.look(b.name, b.leave).error().code, Code::kNotFound);
  EXPECT_EQ(b.server.requests().size(), 3u);  // HEAD and what its answer lacks
  b.server.fail(Fault::kRefused);
  EXPECT_EQ(b.write("abc").error().message, "s3://bucket/a/key with blanks PUT: 403 AccessDenied: Access Denied");
  ASSERT_TRUE(b.write("abc"));
  EXPECT_NE(b.read(1, 5).error().message.find("it ends there: 2 of 5 bytes came"), std::string::npos);
  EXPECT_NE(b.read(7, 5).error().message.find("416 InvalidRange"), std::string::npos);
}

TEST(ObjectClient, TheDeadlineEndsAServerThatDoesNotAnswer) {
  Bench b;
  b.server.fail(Fault::kHangs);
  const Leave soon(Clock::now() + milliseconds(50));
  const auto looked = b.client.look(b.name, soon);
  ASSERT_FALSE(looked);
  EXPECT_EQ(looked.error().code, Code::kTimeout);
  EXPECT_NE(looked.error().message.find("deadline"), std::string::npos);
}

TEST(ObjectClient, MemoryWhoseLeaveWasTakenIsNotTouched) {
  Bench b;
  ASSERT_TRUE(b.write("0123456789"));
  Leave taken;
  taken.take();
  std::string text(10, '?');
  const auto read =
      b.client.read(b.name, 0, std::as_writable_bytes(std::span(text.data(), text.size())), nullptr, taken);
  EXPECT_EQ(read.error().code, Code::kAborted);
  EXPECT_EQ(text, "??????????");
}

// 3.5 parts of 1 MiB; what is expected is the text itself.
TEST(ObjectClient, ALargeObjectIsWrittenInPartsAndAppearsAtOnce) {
  Bench b;
  std::string text(3'670'016, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + (i >> 20));
  ASSERT_TRUE(b.write(text));
  EXPECT_EQ(b.server.object(b.key()), text);
  EXPECT_EQ(b.server.uploads(), 0u);
  EXPECT_EQ(b.read(0, text.size()).value(), text);
}

// Requests of an upload of 4 parts, two at a time: begin, 4 parts, complete. Each of them fails once, in each way.
TEST(ObjectClient, AFailureAtEveryStepOfAnUploadLosesNothing) {
  const std::string text(3'670'016, 'x');
  for (const Fault fault : {Fault::kBusy, Fault::kCut, Fault::kCutAfterwards, Fault::kShort})
    for (int step = 0; step < 6; ++step) {
      Bench b;
      b.server.fail(Fault::kNone, step);
      b.server.fail(fault);
      const auto written = b.write(text);
      ASSERT_TRUE(written) << static_cast<int>(fault) << " at " << step << ": " << written.error().message;
      EXPECT_EQ(b.server.object(b.key()), text);
    }
}

TEST(ObjectClient, AnUploadThatCannotEndLeavesTheOldObjectAndNoParts) {
  const std::string text(3'670'016, 'x');
  for (int step = 0; step < 6; ++step) {
    Bench b;
    ASSERT_TRUE(b.write("old"));
    b.server.fail(Fault::kNone, step);
    b.server.fail(Fault::kRefused);
    EXPECT_FALSE(b.write(text));
    EXPECT_EQ(b.server.object(b.key()), "old") << step;
    EXPECT_EQ(b.server.uploads(), 0u) << step;
  }
}

TEST(ObjectClient, AnErrorThatComesWithStatus200IsAnError) {
  Bench b;
  const std::string text(2'000'000, 'x');
  b.server.fail(Fault::kNone, 3);
  b.server.fail(Fault::kErrorWith200);
  ASSERT_TRUE(b.write(text)) << "the second attempt completes it";
  EXPECT_EQ(b.server.object(b.key()), text);
}

TEST(ObjectClient, AListGoesOnUntilItsEnd) {
  Bench b;
  for (const char* const key : {"p/a", "p/b", "p/c", "p/d", "p/e", "q/a"}) b.server.set(key, "12");
  const auto all = b.client.list({"bucket", "p/"}, b.leave);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 5u);
  EXPECT_EQ(all->back().key, "p/e");
  EXPECT_EQ(all->back().bytes, 2);
}

}  // namespace
}  // namespace weft::net::object
