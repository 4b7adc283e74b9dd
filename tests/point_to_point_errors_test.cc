#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/result.h"
#include "exec/recorder/record_pool.h"
#include "exec/recorder/snapshot.h"
#include "tests/tagged.h"

// What sends and receives with tags say when their partners do not come, end or disagree.
namespace weft {
namespace {

using namespace std::chrono_literals;

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
