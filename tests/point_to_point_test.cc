// Sends and receives with tags over each transport: ranks as processes, and as threads. A body returns what went wrong.

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "base/result.h"
#include "exec/recorder/record_pool.h"
#include "exec/recorder/snapshot.h"
#include "net/ucx/ucx.h"
#include "tests/connected_job.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using tests::ConnectedJob;
using tests::NoticeBoard;
using tests::reduce_and_check;
using tests::Report;
using Numbers = std::vector<std::int32_t>;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string text_of(const Error& e) {
  return fmt::format("code {} blame {} ranks {}: {}", static_cast<int>(e.code), static_cast<int>(e.blame),
                     fmt::join(e.ranks, ","), e.message);
}

Numbers numbers(std::size_t count, std::int32_t first) {
  Numbers all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Empty, or what is wrong with what a receive of `expected` from `source` brought.
std::string check(const Result<Received>& got, const Numbers& buffer, const Numbers& expected, Rank source, int tag) {
  if (!got) return text_of(got.error());
  if (got->count != expected.size() || got->source != source || got->tag != tag)
    return fmt::format("{} elements from {} with tag {} instead of {} from {} with {}", got->count, got->source,
                       got->tag, expected.size(), source, tag);
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (buffer[i] != expected[i])
      return fmt::format("tag {}: element {} of {} is {} instead of {}", tag, i, expected.size(), buffer[i],
                         expected[i]);
  return "";
}

#define SAY(expression)                                                       \
  do {                                                                        \
    if (const std::string wrong = (expression); !wrong.empty()) return wrong; \
  } while (false)

std::string said(const Status& s) { return s ? "" : text_of(s.error()); }

Status send(Communicator& c, const Numbers& data, Rank peer, int tag) {
  return c.send(std::span<const std::int32_t>(data), peer, tag);
}

class Tagged : public testing::TestWithParam<const char*> {
 protected:
  using Body = std::function<std::string(Communicator&)>;

  void SetUp() override {
    if (over() != "ucx") return;
    if (const Status s = net::ucx::available(); !s) GTEST_SKIP() << s.error().message;
  }
  std::string over() const { return GetParam(); }
  ConnectOptions options(std::chrono::milliseconds timeout) const {
    if (over() == "mixed") return {.node = "machine", .timeout = timeout};
    return {.transport = over(), .timeout = timeout};
  }
  std::vector<std::string> run(Rank ranks, const Body& body, std::chrono::milliseconds timeout = 60s) {
    if (over() != "threads")
      return ConnectedJob(ranks, options(timeout), [&](Communicator& c, Report&, NoticeBoard&) { return body(c); })
          .join();
    auto all = Communicator::threads(ranks).value();
    std::vector<std::string> reports(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (auto& one : all)
      threads.emplace_back([&reports, &body, timeout, c = std::move(one)]() mutable {
        c.set_timeout(timeout);
        reports[static_cast<std::size_t>(c.rank())] = body(c);
      });
    for (auto& thread : threads) thread.join();
    return reports;
  }
  void all_well(Rank ranks, const Body& body, std::chrono::milliseconds timeout = 60s) {
    const auto reports = run(ranks, body, timeout);
    for (std::size_t r = 0; r < reports.size(); ++r) EXPECT_EQ(reports[r], "") << "rank " << r;
  }
};

INSTANTIATE_TEST_SUITE_P(Over, Tagged, testing::Values("threads", "shm", "tcp", "ucx", "mixed"),
                         [](const auto& info) { return std::string(info.param); });

// Sizes: none, inside the envelope, eager, and by rendezvous.
TEST_P(Tagged, MessagesAreTakenByTheirTagsWhateverTheOrder) {
  all_well(2, [](Communicator& c) -> std::string {
    const std::size_t sizes[] = {0, 1, 6, 7, 1000, 4096, 4097, 300000};
    const int tags = static_cast<int>(std::size(sizes));
    for (int turn = 0; turn < 3; ++turn) {
      if (c.rank() == 0) {
        std::vector<Numbers> data;
        std::vector<Message> messages;
        for (int tag = 0; tag < tags; ++tag) {
          data.push_back(numbers(sizes[tag], tag + turn));
          auto m = c.start_send(data.back().data(), data.back().size(), DataType::kInt32, 1, tag);
          if (!m) return text_of(m.error());
          messages.push_back(std::move(*m));
        }
        for (Message& m : messages)
          if (const auto sent = m.wait(); !sent) return text_of(sent.error());
      } else {
        for (int tag = tags - 1; tag >= 0; --tag) {
          Numbers buffer(400000, -1);  // larger than any
          const auto got = c.receive(std::span(buffer), turn == 1 ? kAnySource : 0, tag);
          SAY(check(got, buffer, numbers(sizes[tag], tag + turn), 0, tag));
          if (buffer[sizes[tag]] != -1) return "wrote behind the message";
        }
      }
    }
    return said(c.finalize());
  });
}

// A message to another machine is staged in its sender's scratch. The place once lay behind it, in the scratch of
// another rank, whose sums were then wrong.
TEST_P(Tagged, MessagesLeaveTheSumsOfOtherRanksAlone) {
  all_well(4, [](Communicator& c) -> std::string {
    constexpr std::size_t kPart = 60;
    const Rank to = (c.rank() + 2) % 4;
    for (int round = 0; round < 60; ++round) {
      std::vector<Numbers> data(20, numbers(900, c.rank())), got(20, Numbers(900));
      std::vector<Message> messages;
      for (std::size_t i = 0; i < data.size(); ++i) {
        auto message = c.start_send(data[i].data(), 900, DataType::kInt32, to, static_cast<int>(i));
        if (!message) return text_of(message.error());
        messages.push_back(std::move(*message));
        message = c.start_receive(got[i].data(), 900, DataType::kInt32, to, static_cast<int>(i));
        if (!message) return text_of(message.error());
        messages.push_back(std::move(*message));
      }
      const std::vector<std::int64_t> in(4 * kPart, c.rank() + 1);
      std::vector<std::int64_t> out(kPart);
      SAY(said(c.run({.collective = Collective::kReduceScatter,
                      .in = in.data(),
                      .out = out.data(),
                      .count = kPart,
                      .type = DataType::kInt64,
                      .algorithm = "bruck",
                      .protocol = "Simple",
                      .channels = 1})));
      for (std::size_t i = 0; i < kPart; ++i)
        if (out[i] != 10) return fmt::format("round {}: element {} is {} instead of 10", round, i, out[i]);
      for (Message& message : messages)
        if (const auto ended = message.wait(); !ended) return text_of(ended.error());
      for (const Numbers& one : got)
        if (one != numbers(900, to)) return fmt::format("round {}: a message is wrong", round);
    }
    return said(c.finalize());
  });
}

TEST_P(Tagged, MessagesOfOneTagKeepTheirOrder) {
  all_well(2, [](Communicator& c) -> std::string {
    for (int i = 0; i < 3000; ++i) {
      const std::size_t size = i % 7 == 0 ? 5000 : i % 5 == 0 ? 300 : 2;
      if (c.rank() == 0) {
        if (const Status s = send(c, numbers(size, i), 1, 9); !s) return text_of(s.error());
      } else {
        Numbers buffer(5000);
        SAY(check(c.receive(std::span(buffer), 0, i % 2 == 0 ? 9 : kAnyTag), buffer, numbers(size, i), 0, 9));
      }
    }
    return said(c.finalize());
  });
}

// All messages have come before the first is asked for: the last ones, which are taken by name, say so.
TEST_P(Tagged, AReceiveFromAnybodyServesTheSendersInTurn) {
  all_well(4, [](Communicator& c) -> std::string {
    constexpr int kEach = 200;
    if (c.rank() != 0) {
      for (int i = 0; i < kEach; ++i)
        if (const Status s = send(c, numbers(100, c.rank() * 1000 + i), 0, i); !s) return text_of(s.error());
      if (const Status s = send(c, {}, 0, kEach); !s) return text_of(s.error());
      if (const Status s = c.barrier(); !s) return text_of(s.error());
      return said(c.finalize());
    }
    std::vector<int> served(4);
    Numbers buffer(100);
    for (Rank r = 1; r < 4; ++r) SAY(check(c.receive(std::span(buffer), r, kEach), buffer, {}, r, kEach));
    for (int i = 0; i < 3 * kEach; ++i) {
      const auto got = c.receive(std::span(buffer), kAnySource, kAnyTag);
      if (!got) return text_of(got.error());
      int& next = served[static_cast<std::size_t>(got->source)];
      SAY(check(got, buffer, numbers(100, got->source * 1000 + next), got->source, next));
      ++next;
      const auto [least, most] = std::minmax_element(served.begin() + 1, served.end());
      if (*most - *least > 1)
        return fmt::format("after {} messages the senders were served {} times", i, fmt::join(served, ", "));
    }
    if (const Status s = c.barrier(); !s) return text_of(s.error());
    return said(c.finalize());
  });
}

// What is started before a collective moves on inside it, and short messages do not wait for their receiver.
TEST_P(Tagged, CollectivesMayComeInAnotherOrderOnBothSides) {
  all_well(3, [](Communicator& c) -> std::string {
    const Rank next = (c.rank() + 1) % 3, before = (c.rank() + 2) % 3;
    for (int turn = 0; turn < 20; ++turn) {
      for (const std::size_t size : {std::size_t{10}, std::size_t{200000}}) {
        const Numbers data = numbers(size, c.rank() + turn);
        Numbers buffer(size);
        auto sent = c.start_send(data.data(), size, DataType::kInt32, next, 5);
        if (!sent) return text_of(sent.error());
        const bool early = (c.rank() + turn) % 2 == 0;
        Result<Message> got = Message();
        if (early) got = c.start_receive(buffer.data(), size, DataType::kInt32, before, 5);
        SAY(reduce_and_check(c));
        if (!early) got = c.start_receive(buffer.data(), size, DataType::kInt32, before, 5);
        if (!got) return text_of(got.error());
        SAY(check(got->wait(), buffer, numbers(size, before + turn), before, 5));
        if (const auto s = sent->wait(); !s) return text_of(s.error());
        // Untagged ones never meet those with tags.
        const std::int32_t mine = c.rank();
        std::int32_t theirs = -1;
        const Transfer both[] = {
            {Transfer::Direction::kSend, next, const_cast<std::int32_t*>(&mine), 1, DataType::kInt32},
            {Transfer::Direction::kReceive, before, &theirs, 1, DataType::kInt32}};
        SAY(said(c.exchange(both)));
        if (theirs != before) return "the wrong message without a tag";
      }
    }
    return said(c.finalize());
  });
}

// A long send is only done when its receive is there; the receiver is inside a collective when it begins.
TEST_P(Tagged, AStartedReceiveIsServedWhileItsRankIsInACollective) {
  all_well(2, [](Communicator& c) -> std::string {
    const Numbers data = numbers(500000, 3);
    if (c.rank() == 0) {
      std::this_thread::sleep_for(50ms);
      SAY(said(send(c, data, 1, 1)));
      return said(c.barrier());
    }
    Numbers buffer(data.size());
    auto got = c.start_receive(buffer.data(), buffer.size(), DataType::kInt32, 0, 1);
    if (!got) return text_of(got.error());
    SAY(said(c.barrier()));
    return check(got->wait(), buffer, data, 0, 1);
  });
}

// The pair learns it on both sides where the sender still waits; collectives, other pairs and the same pair go on.
TEST_P(Tagged, ATooSmallBufferOrAnotherTypeIsAnErrorOfThatPairOnly) {
  all_well(3, [](Communicator& c) -> std::string {
    for (const std::size_t size : {std::size_t{3}, std::size_t{2000}, std::size_t{100000}}) {
      const Numbers data = numbers(size, 1);
      const bool waits = size * 4 > 16384;
      if (c.rank() == 0) {
        const Status s = send(c, data, 1, 4), t = send(c, data, 1, 5);
        if (waits && (s || s.error().code != Code::kMismatch || s.error().ranks != std::vector<Rank>{1, 0} ||
                      s.error().field != "count" || t || t.error().field != "type"))
          return "the sender of a long message was not reported: " + said(s) + said(t);
        if (!waits && (!s || !t)) return said(s) + said(t);
        SAY(said(send(c, data, 1, 6)));
        SAY(said(send(c, data, 2, 4)));
      } else if (c.rank() == 1) {
        Numbers buffer(size - 1, -1);
        const auto got = c.receive(std::span(buffer), 0, 4);
        if (got || got.error().code != Code::kMismatch || got.error().blame != Blame::kOperation ||
            got.error().ranks != std::vector<Rank>{0, 1} || got.error().calls.size() != 2)
          return "not reported: " + (got ? "ok" : text_of(got.error()));
        if (!contains(got.error().message, fmt::format("rank 0 called send of {} int32 to rank 1 with tag 4", size)) ||
            !contains(got.error().message, fmt::format("rank 1 called receive of up to {} int32", size - 1)))
          return got.error().message;
        if (buffer != Numbers(size - 1, -1)) return "the buffer was written";
        std::vector<float> other(size);
        const auto typed = c.receive(std::span(other), kAnySource, 5);
        if (typed || typed.error().field != "type") return "another type is not reported";
        Numbers whole(size);
        SAY(check(c.receive(std::span(whole), 0, 6), whole, data, 0, 6));
      } else {
        Numbers whole(size);
        SAY(check(c.receive(std::span(whole), 0, 4), whole, data, 0, 4));
      }
      SAY(reduce_and_check(c));
    }
    return said(c.finalize());
  });
}

TEST_P(Tagged, WithoutAPartnerAWaitEndsWithItsPeerAndTagAndTheCommunicatorWorksOn) {
  all_well(2, [](Communicator& c) -> std::string {
    const Rank other = 1 - c.rank();
    Numbers data = numbers(100000, 0);
    if (c.rank() == 0) {
      const Status s = c.send(data.data(), data.size(), DataType::kInt32, other, 77, 100ms);
      if (s || s.error().code != Code::kTimeout || s.error().blame != Blame::kOperation ||
          s.error().ranks != std::vector<Rank>{1} || !contains(s.error().message, "to rank 1 with tag 77"))
        return "send: " + said(s);
    } else {
      const auto got = c.receive(data.data(), 5, DataType::kInt32, other, 78, 100ms);
      if (got || got.error().code != Code::kTimeout || got.error().blame != Blame::kOperation ||
          !contains(got.error().message, "from rank 0 with tag 78"))
        return "receive: " + (got ? "ok" : text_of(got.error()));
      const auto any = c.receive(data.data(), 5, DataType::kInt32, kAnySource, 79, 50ms);
      if (any || !contains(any.error().message, "from any rank with tag 79")) return "receive from any";
    }
    SAY(reduce_and_check(c));
    // What was given up never comes: the tag is free for another.
    if (c.rank() == 0) {
      SAY(said(send(c, numbers(50000, 8), 1, 77)));
    } else {
      SAY(check(c.receive(std::span(data), 0, 77), data, numbers(50000, 8), 0, 77));
    }
    return said(c.finalize());
  });
}

// Both gave up the same message at about the same time, or only one of them did.
TEST_P(Tagged, GivingUpReachesAReceiveThatComesLater) {
  all_well(2, [](Communicator& c) -> std::string {
    Numbers data = numbers(100000, 0);
    for (int turn = 0; turn < 20; ++turn) {
      if (c.rank() == 0) {
        const Status s = c.send(data.data(), data.size(), DataType::kInt32, 1, turn, 10ms);
        if (!s && s.error().blame != Blame::kOperation) return said(s);
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(9000 + turn * 100));
        const auto got = c.receive(data.data(), data.size(), DataType::kInt32, 0, turn, 30ms);
        if (!got && (got.error().code != Code::kTimeout || got.error().blame != Blame::kOperation))
          return text_of(got.error());
      }
      SAY(reduce_and_check(c));
    }
    return "";
  });
}

TEST_P(Tagged, ASenderThatDiesWhileAnybodyIsWaitedForIsNamed) {
  if (over() == "threads") GTEST_SKIP() << "threads do not die alone";
  ConnectedJob job(3, options(20s), [](Communicator& c, Report& report, NoticeBoard&) -> std::string {
    if (!c.barrier()) return "no barrier";
    report.say("running ");
    if (c.rank() == 2) pause();
    Numbers buffer(10);
    const auto got = c.receive(std::span(buffer), kAnySource, 1);
    return got ? "ok" : text_of(got.error());
  });
  job.await_running();
  job[2].send(SIGKILL);
  const auto reports = job.join({2});
  for (const Rank r : {0, 1}) {
    EXPECT_TRUE(contains(reports[static_cast<std::size_t>(r)],
                         fmt::format("code {} blame {} ranks 2:", static_cast<int>(Code::kPeerDied),
                                     static_cast<int>(Blame::kCommunicator))))
        << reports[static_cast<std::size_t>(r)];
  }
}

// The receiver looks at nothing while the sender starts much more than may be kept: the rest stays with the sender.
TEST_P(Tagged, MoreThanAReceiverKeepsWaitsAtTheSender) {
  all_well(2, [](Communicator& c) -> std::string {
    constexpr int kMessages = 3000;
    if (c.rank() == 0) {
      std::vector<Numbers> data;
      std::vector<Message> messages;
      for (int i = 0; i < kMessages; ++i) {
        data.push_back(numbers(1000, i));
        auto m = c.start_send(data.back().data(), 1000, DataType::kInt32, 1, i);
        if (!m) return text_of(m.error());
        messages.push_back(std::move(*m));
      }
      int done = 0;
      for (Message& m : messages) done += m.test().value_or(false) ? 1 : 0;
      if (done > 1000) return fmt::format("{} messages of 4000 bytes were taken without a receive", done);
      for (Message& m : messages)
        if (const auto sent = m.wait(); !sent) return text_of(sent.error());
    } else {
      std::this_thread::sleep_for(100ms);
      for (int i = kMessages - 1; i >= 0; --i) {
        // In pairs of two the other way round, too: what was sent last is wanted first.
        Numbers buffer(1000);
        const int tag = i < kMessages - 1000 ? kMessages - 1001 - i : kMessages - 1 - (kMessages - 1 - i);
        if (i >= kMessages - 1000) continue;
        SAY(check(c.receive(std::span(buffer), 0, tag), buffer, numbers(1000, tag), 0, tag));
      }
      for (int tag = kMessages - 1; tag >= kMessages - 1000; --tag) {
        Numbers buffer(1000);
        SAY(check(c.receive(std::span(buffer), 0, tag), buffer, numbers(1000, tag), 0, tag));
      }
    }
    return said(c.finalize());
  });
}

TEST_P(Tagged, ARankSendsItself) {
  all_well(2, [](Communicator& c) -> std::string {
    for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{100000}}) {
      const Numbers data = numbers(size, 2);
      Numbers buffer(size + 1);
      auto sent = c.start_send(data.data(), size, DataType::kInt32, c.rank(), 3);
      if (!sent) return text_of(sent.error());
      SAY(check(c.receive(std::span(buffer), kAnySource, kAnyTag), buffer, data, c.rank(), 3));
      auto got = c.start_receive(buffer.data(), buffer.size(), DataType::kInt32, c.rank(), 4);
      if (!got) return text_of(got.error());
      SAY(said(send(c, data, c.rank(), 4)));
      SAY(check(got->wait(), buffer, data, c.rank(), 4));
    }
    return said(c.finalize());
  });
}

// The record of rank 0, which `weft ps` reads, names the message that it waits for; the message is sent when rank 1 has
// seen that.
TEST_P(Tagged, AWaitIsSeenFromOutsideTheProcess) {
  const int tag = 1'000'000 + getpid();  // of this test alone
  all_well(2, [tag](Communicator& c) -> std::string {
    Numbers buffer(3);
    if (c.rank() == 0) {
      SAY(check(c.receive(std::span(buffer), 1, tag), buffer, numbers(3, 5), 1, tag));
      return said(c.finalize());
    }
    const std::string folder = recorder::own_folder().value();
    bool seen = false;
    for (const auto begin = std::chrono::steady_clock::now(); !seen && std::chrono::steady_clock::now() - begin < 30s;)
      for (const recorder::Snapshot& s : recorder::read_folder(folder, 1))
        seen |= s.rank == 0 && s.tagged && s.tagged->peer == 1 && s.tagged->tag == tag && s.tagged->bytes == 12;
    SAY(said(send(c, numbers(3, 5), 0, tag)));
    if (!seen) return "rank 0's wait is in no record";
    return said(c.finalize());
  });
}

TEST_P(Tagged, FinalizeSaysWhatNobodyHasReceived) {
  const auto reports = run(2, [](Communicator& c) -> std::string {
    if (c.rank() == 0) SAY(said(send(c, numbers(3, 0), 1, 42)));
    SAY(said(c.barrier()));
    return said(c.finalize());
  });
  EXPECT_TRUE(contains(reports[1], "rank 0, tag 42")) << reports[1];
}

TEST_P(Tagged, BadArgumentsAreRefusedAndNothingIsDone) {
  all_well(2, [](Communicator& c) -> std::string {
    Numbers data(4);
    for (const Status& s :
         {c.send(data.data(), 4, DataType::kInt32, 2, 0), c.send(data.data(), 4, DataType::kInt32, kAnySource, 0),
          c.send(data.data(), 4, DataType::kInt32, 0, kAnyTag), c.send(nullptr, 4, DataType::kInt32, 0, 1)})
      if (s || s.error().code != Code::kInvalidArgument) return "send is not refused: " + said(s);
    for (const auto& got :
         {c.receive(data.data(), 4, DataType::kInt32, 2, 0), c.receive(data.data(), 4, DataType::kInt32, 0, -2),
          c.receive(nullptr, 4, DataType::kInt32, 0, 1)})
      if (got || got.error().code != Code::kInvalidArgument) return "receive is not refused";
    Message none;
    if (none.test() || none.wait()) return "an empty message works";
    return said(c.finalize());
  });
}

// Of transfers without tags: nothing against something differs, too, and is reported at once.
TEST_P(Tagged, NoElementsAgainstSomeAreAMismatchOfTransfers) {
  const auto reports = run(
      2,
      [](Communicator& c) -> std::string {
        Numbers data(3);
        if (c.rank() == 0) {
          SAY(said(c.send(std::span<const std::int32_t>(), 1)));
          return said(c.barrier());
        }
        return said(c.receive(std::span(data), 0));
      },
      20s);
  EXPECT_TRUE(contains(reports[1], fmt::format("code {} ", static_cast<int>(Code::kMismatch)))) << reports[1];
}

TEST_P(Tagged, ACallKeepsItsOwnTimeout) {
  all_well(
      2,
      [](Communicator& c) -> std::string {
        std::int32_t one = 1;
        const Request sum{.in = &one, .out = &one, .count = 1, .type = DataType::kInt32, .timeout = 0ms};
        if (c.rank() == 1) std::this_thread::sleep_for(1500ms);  // longer than the communicator's
        SAY(said(c.run(sum)));
        if (c.rank() == 1) {
          std::this_thread::sleep_for(200ms);
          return "";
        }
        Request brief = sum;
        brief.timeout = 50ms;
        const Status s = c.run(brief);
        return !s && s.error().code == Code::kTimeout && s.error().ranks == std::vector<Rank>{1}
                   ? ""
                   : "no timeout: " + said(s);
      },
      700ms);
}

}  // namespace
}  // namespace weft
