// What a communicator answers to calls that cannot be served.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <thread>

#include "tests/communicators.h"

namespace weft {
namespace {

using tests::on_threads;
using tests::thread_communicators;

void expect_refused(const Status& s, std::initializer_list<const char*> words) {
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, Code::kInvalidArgument);
  EXPECT_EQ(s.error().blame, Blame::kInput);
  for (const char* word : words) EXPECT_NE(s.error().message.find(word), std::string::npos) << s.error().message;
}

TEST(SessionErrors, ANullBufferIsRefusedAndNamesTheOperation) {
  auto c = std::move(thread_communicators(1)[0]);
  float x[3] = {1, 2, 3};
  expect_refused(c.run({.in = nullptr, .out = x, .count = 3}), {"all_reduce", "null"});
  expect_refused(c.run({.collective = Collective::kBroadcast, .in = x, .out = nullptr, .count = 3}),
                 {"broadcast", "null"});
  EXPECT_TRUE(c.run({.in = nullptr, .out = nullptr, .count = 0}));
}

TEST(SessionErrors, ANullBufferIsAlsoRefusedWhenTheShapeIsKnown) {
  auto c = std::move(thread_communicators(1)[0]);
  float x[3] = {1, 2, 3};
  ASSERT_TRUE(c.run({.in = x, .out = x, .count = 3}));
  expect_refused(c.run({.in = x, .out = nullptr, .count = 3}), {"all_reduce", "null"});  // the last call's plan
  ASSERT_TRUE(c.run({.in = x, .out = x, .count = 2}));
  expect_refused(c.run({.in = nullptr, .out = x, .count = 3}), {"all_reduce", "null"});  // an older one's
  const auto work = c.start({.in = nullptr, .out = x, .count = 3});
  ASSERT_FALSE(work);
  EXPECT_EQ(work.error().blame, Blame::kInput);
}

TEST(SessionErrors, ARootThatDoesNotExistIsRefused) {
  auto c = std::move(thread_communicators(1)[0]);
  float x = 1;
  for (const Rank root : {-1, 1, 100})
    expect_refused(c.run({.collective = Collective::kBroadcast, .in = &x, .out = &x, .count = 1, .root = root}),
                   {"broadcast", "root", std::to_string(root).c_str()});
}

TEST(SessionErrors, ACountThatOverflowsIsRefused) {
  auto all = thread_communicators(2);  // nothing is sent, so one rank may ask alone
  float x = 1;
  for (const Collective c :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter, Collective::kBroadcast})
    for (const std::size_t count :
         {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() / 2,
          std::numeric_limits<std::size_t>::max() / 4, std::size_t{1} << 61})
      for (const DataType type : {DataType::kFloat32, DataType::kInt64})
        expect_refused(all[0].run({.collective = c, .in = &x, .out = &x, .count = count, .type = type}),
                       {schedule::name(c).data(), std::to_string(count).c_str()});
}

TEST(SessionErrors, AnUnknownAlgorithmOrProtocolIsRefusedAndTheNextCallServed) {
  auto c = std::move(thread_communicators(1)[0]);
  float x = 1;
  expect_refused(c.run({.in = &x, .out = &x, .count = 1, .algorithm = "rnig"}), {"rnig", "all_reduce", "ring"});
  expect_refused(c.run({.in = &x, .out = &x, .count = 1, .protocol = "LL65"}), {"LL65", "LL64"});
  expect_refused(c.run({.in = &x, .out = &x, .count = 1, .channels = -1}), {"all_reduce", "-1"});
  EXPECT_TRUE(c.run({.in = &x, .out = &x, .count = 1}));
}

TEST(SessionErrors, AnAllToAllVWhoseOwnCountsDifferIsRefusedAndWritesNothing) {
  on_threads(thread_communicators(2), [](Communicator& c) {
    const auto self = static_cast<std::size_t>(c.rank());
    const std::vector<std::int32_t> in(500, 7);
    std::vector<std::int32_t> out(500, -1);
    std::vector<std::size_t> counts(2, 100), receive_counts(2, 100);
    counts[self] = 150;
    expect_refused(c.run({.collective = Collective::kAllToAllV,
                          .in = in.data(),
                          .out = out.data(),
                          .counts = counts,
                          .receive_counts = receive_counts,
                          .type = DataType::kInt32}),
                   {"all_to_all_v", "150", "100"});
    EXPECT_EQ(out, std::vector<std::int32_t>(500, -1));
    EXPECT_TRUE(c.barrier());
  });
}

TEST(SessionErrors, BuffersThatOverlapOtherwiseThanInPlaceAreRefused) {
  on_threads(thread_communicators(2), [](Communicator& c) {
    std::vector<float> a(1000, 1);
    const auto reduce = [&](std::size_t from, std::size_t to) {
      return c.run({.in = a.data() + from, .out = a.data() + to, .count = 400});
    };
    expect_refused(reduce(0, 4), {"all_reduce", "overlap"});
    ASSERT_TRUE(reduce(0, 400));
    expect_refused(reduce(4, 0), {"all_reduce", "overlap"});  // of a shape that is known
    ASSERT_TRUE(reduce(0, 0));
    const auto gather = [&](std::size_t part) {
      return c.run({.collective = Collective::kAllGather, .in = a.data() + 100 * part, .out = a.data(), .count = 100});
    };
    expect_refused(gather(static_cast<std::size_t>(1 - c.rank())), {"all_gather", "overlap"});
    ASSERT_TRUE(gather(static_cast<std::size_t>(c.rank())));
    ASSERT_TRUE(c.run({.collective = Collective::kAllToAll, .in = a.data(), .out = a.data(), .count = 10}));
    expect_refused(c.run({.collective = Collective::kAllToAll, .in = a.data(), .out = a.data() + 5, .count = 10}),
                   {"overlap"});
    EXPECT_TRUE(c.barrier());
  });
}

TEST(SessionErrors, AnEmptyCommunicatorAndAnEmptyWorkRefuseEveryCall) {
  Communicator full = std::move(thread_communicators(1)[0]);
  const Communicator moved = std::move(full);
  float x = 1;
  const Transfer transfer{Transfer::Direction::kSend, 0, &x, 1};
  Communicator from_split(nullptr);
  for (Communicator* empty : {&full, &from_split}) {
    EXPECT_FALSE(*empty);
    EXPECT_EQ(empty->rank(), -1);
    EXPECT_EQ(empty->ranks(), 0);
    expect_refused(empty->run({.in = &x, .out = &x, .count = 1}), {"empty"});
    expect_refused(empty->barrier(), {"empty"});
    expect_refused(empty->exchange({&transfer, 1}), {"empty"});
    expect_refused(empty->status(), {"empty"});
    expect_refused(empty->monitored_barrier(std::chrono::milliseconds(1)), {"empty"});
    expect_refused(empty->finalize(), {"empty"});
    EXPECT_EQ(empty->start({.in = &x, .out = &x, .count = 1}).error().code, Code::kInvalidArgument);
    EXPECT_EQ(empty->start({&transfer, 1}).error().code, Code::kInvalidArgument);
    EXPECT_EQ(empty->allocate(64).error().code, Code::kInvalidArgument);
    EXPECT_EQ(empty->split(0).error().code, Code::kInvalidArgument);
    EXPECT_EQ(empty->shrink().error().code, Code::kInvalidArgument);
    EXPECT_EQ(empty->grow({}, 2).error().code, Code::kInvalidArgument);
    EXPECT_EQ(empty->last_choice().algorithm, "");
    empty->abort();
  }
  Work work;
  EXPECT_EQ(work.test().error().code, Code::kInvalidArgument);
  expect_refused(work.wait(), {"empty"});
}

TEST(SessionErrors, FieldsThatACollectiveDoesNotUseMayDiffer) {
  on_threads(thread_communicators(2), [](Communicator& c) {
    std::vector<std::int32_t> x(200, 1);
    const std::vector<std::size_t> counts(2, 100);
    const bool first = c.rank() == 0;
    const Status broadcast = c.run({.collective = Collective::kBroadcast,
                                    .in = x.data(),
                                    .out = x.data(),
                                    .count = 100,
                                    .type = DataType::kInt32,
                                    .op = first ? ReduceOp::kSum : ReduceOp::kMax});
    ASSERT_TRUE(broadcast) << broadcast.error().message;
    const Status reduce =
        c.run({.in = x.data(), .out = x.data(), .count = 100, .type = DataType::kInt32, .root = c.rank() * 7});
    ASSERT_TRUE(reduce) << reduce.error().message;
    EXPECT_EQ(x[99], 2);
    const Status gather = c.run({.collective = Collective::kAllGatherV,
                                 .in = x.data() + 100 * c.rank(),
                                 .out = x.data(),
                                 .count = first ? 3u : 5u,
                                 .counts = counts,
                                 .type = DataType::kInt32});
    ASSERT_TRUE(gather) << gather.error().message;
    EXPECT_TRUE(c.run({.collective = Collective::kBarrier, .count = first ? 1u : 2u}));
  });
}

// One rank sees it first and says so; the other sees it too, or that the communicator is broken.
void expect_mismatch(const Request& first, const Request& second) {
  std::vector<Status> said(2);
  on_threads(thread_communicators(2), [&](Communicator& c) {
    std::vector<float> x(5000, 1);
    ASSERT_TRUE(c.run({.in = x.data(), .out = x.data(), .count = 500, .algorithm = "ring"}));
    Request mine = c.rank() == 0 ? first : second;
    mine.in = mine.out = x.data();
    if (mine.collective == Collective::kAllGather) mine.in = x.data() + mine.count * static_cast<std::size_t>(c.rank());
    said[static_cast<std::size_t>(c.rank())] = c.run(mine);
  });
  bool named = false;
  for (const Status& s : said) {
    if (s) continue;  // a rank that only sends may be done before
    EXPECT_TRUE(s.error().code == Code::kMismatch || s.error().code == Code::kAborted) << s.error().message;
    named |= s.error().code == Code::kMismatch;
  }
  EXPECT_TRUE(named);
}

TEST(SessionErrors, DifferentCallsByMessagesAreAMismatchOfWhateverKind) {
  for (const char* protocol : {"Simple", "LL64"}) {
    const Request small{.count = 8, .algorithm = "ring", .protocol = protocol};
    Request larger = small, other = small, integer = small;
    larger.count = 16;
    other.algorithm = "tree";
    integer.type = DataType::kInt32;
    expect_mismatch(small, larger);
    expect_mismatch(larger, small);
    expect_mismatch(small, other);
    expect_mismatch(small, integer);
    expect_mismatch(small,
                    {.collective = Collective::kAllGather, .count = 8, .algorithm = "ring", .protocol = protocol});
    expect_mismatch(small, {.count = 4000, .algorithm = "two_shot"});
  }
}

TEST(SessionErrors, DifferentCountsOnPeersMemoryAreAMismatchThatNamesTheRank) {
  on_threads(thread_communicators(2), [](Communicator& c) {
    std::vector<float> x(1000, 1);
    ASSERT_TRUE(c.run({.in = x.data(), .out = x.data(), .count = 500, .algorithm = "two_shot"}));
    const std::size_t count = c.rank() == 0 ? 1000 : 900;
    const Status s = c.run({.in = x.data(), .out = x.data(), .count = count, .algorithm = "two_shot"});
    ASSERT_FALSE(s);
    EXPECT_EQ(s.error().code, Code::kMismatch) << s.error().message;
    EXPECT_EQ(s.error().blame, Blame::kCommunicator);
    const std::size_t theirs = 1900 - count;
    for (const std::string& word :
         {fmt::format("rank {} called all_reduce of {} float ", 1 - c.rank(), theirs),
          fmt::format("rank {} called all_reduce of {} float ", c.rank(), count),
          fmt::format("rank {}: all_reduce #2", c.rank()), std::string("count differs"), std::string("two_shot")})
      EXPECT_NE(s.error().message.find(word), std::string::npos) << s.error().message;
    EXPECT_EQ(s.error().ranks, (std::vector<Rank>{1 - c.rank(), c.rank()}));
    EXPECT_EQ(s.error().field, "count");
    ASSERT_EQ(s.error().calls.size(), 2u);
    EXPECT_NE(s.error().calls[0].find(std::to_string(theirs)), std::string::npos) << s.error().calls[0];
    // The communicator returns this error only, from then on.
    EXPECT_EQ(c.barrier().error(), s.error());
    EXPECT_EQ(c.start({.in = x.data(), .out = x.data(), .count = 1}).error(), s.error());
  });
}

using Calls = std::function<Status(Communicator&)>;

std::int32_t step(Communicator& c, int call) { return (c.rank() + 1) * (call + 3); }

// A sum that both ranks call alike. Errors: a wrong result is kInternal.
Status sum_and_check(Communicator& c, int call, const char* protocol) {
  std::vector<std::int32_t> x(700, step(c, call));
  const Status s = c.run({.in = x.data(),
                          .out = x.data(),
                          .count = x.size(),
                          .type = DataType::kInt32,
                          .algorithm = "ring",
                          .protocol = protocol});
  if (s && x != std::vector<std::int32_t>(700, 3 * (call + 3)))
    return failure(Code::kInternal, Blame::kOperation, "call {} gave {}", call, x[0]);
  return s;
}

// Equal calls, one that differs, equal calls again: no result may be wrong, and a rank must notice, soon.
void expect_noticed(const char* protocol, const Calls& differing) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Status> said(2);
  on_threads(thread_communicators(2), [&](Communicator& c) {
    Status& s = said[static_cast<std::size_t>(c.rank())];
    for (int call = 0; call < 100; ++call) {
      s = sum_and_check(c, call, protocol);
      ASSERT_TRUE(s) << s.error().message;
    }
    s = differing(c);
    for (int call = 100; s && call < 200; ++call) s = sum_and_check(c, call, protocol);
    if (s) s = c.finalize();
  });
  int mismatches = 0;
  for (const Status& s : said) {
    if (s) continue;
    EXPECT_NE(s.error().code, Code::kInternal) << s.error().message;
    EXPECT_NE(s.error().code, Code::kTimeout) << s.error().message;
    mismatches += s.error().code == Code::kMismatch ? 1 : 0;
  }
  EXPECT_GE(mismatches, 1) << (said[0] ? "ok" : said[0].error().message) << "; "
                           << (said[1] ? "ok" : said[1].error().message);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

class Disagreements : public testing::TestWithParam<const char*> {};

TEST_P(Disagreements, OfRootsAreNoticedAlthoughRootsReceiveNothing) {
  for (const char* small : {"LL64", "Simple"})
    expect_noticed(GetParam(), [&](Communicator& c) {
      float x = 1;
      return c.run(
          {.collective = Collective::kBroadcast, .in = &x, .out = &x, .count = 1, .root = c.rank(), .protocol = small});
    });
}

TEST_P(Disagreements, OfChosenChannelsAndProtocolsAreNoticed) {
  std::vector<float> x(5000, 1), y(5000, 1);
  for (const char* algorithm : {"two_shot", "ring"})
    expect_noticed(GetParam(), [&](Communicator& c) {
      auto& data = c.rank() == 0 ? x : y;
      return c.run({.in = data.data(),
                    .out = data.data(),
                    .count = data.size(),
                    .algorithm = algorithm,
                    .channels = c.rank() + 1});
    });
  expect_noticed(GetParam(), [&](Communicator& c) {
    auto& data = c.rank() == 0 ? x : y;
    return c.run({.in = data.data(),
                  .out = data.data(),
                  .count = 100,
                  .algorithm = "ring",
                  .protocol = c.rank() == 0 ? "LL64" : "Simple"});
  });
}

TEST_P(Disagreements, OfOperationsAreNoticedAlsoWhereShortTagsAreEqual) {
  for (std::size_t count = 228; count < 300; ++count) {
    if (count > 240 && count % 20 != 0) continue;
    expect_noticed(GetParam(), [&](Communicator& c) {
      std::vector<std::int32_t> x(count, 1);
      return c.run({.in = x.data(),
                    .out = x.data(),
                    .count = count,
                    .type = DataType::kInt32,
                    .op = c.rank() == 0 ? ReduceOp::kMax : ReduceOp::kAvg,
                    .algorithm = "ring",
                    .protocol = GetParam()});
    });
  }
}

TEST_P(Disagreements, OfZeroElementsAndOneAreNoticed) {
  for (const Rank empty : {0, 1})
    expect_noticed(GetParam(), [&](Communicator& c) {
      std::int32_t x = 1;
      return c.run({.in = &x, .out = &x, .count = c.rank() == empty ? 0u : 1u, .type = DataType::kInt32});
    });
}

TEST_P(Disagreements, OfTheOrderOfTwoCallsAreNoticed) {
  for (const Rank root : {0, 1})
    expect_noticed(GetParam(), [&](Communicator& c) -> Status {
      float x = 1;
      const auto broadcast = [&] {
        return c.run({.collective = Collective::kBroadcast, .in = &x, .out = &x, .count = 1, .root = root});
      };
      if (c.rank() == 0) WEFT_CHECK(c.barrier());
      WEFT_CHECK(broadcast());
      return c.rank() == 0 ? Status{} : c.barrier();
    });
}

TEST_P(Disagreements, OfACallThatOneRankLeavesOutAreNoticed) {
  for (const Rank root : {0, 1})
    expect_noticed(GetParam(), [&](Communicator& c) -> Status {
      float x = 1;
      if (c.rank() == 0) return {};
      return c.run({.collective = Collective::kBroadcast, .in = &x, .out = &x, .count = 1, .root = root});
    });
}

// finalize() ends with a barrier, which is not the one that rank 1 has left out.
TEST_P(Disagreements, OfABarrierThatOneRankLeavesOutAtTheEndAreNoticed) {
  expect_noticed(GetParam(), [&](Communicator& c) -> Status { return c.rank() == 0 ? c.barrier() : c.finalize(); });
}

TEST_P(Disagreements, OfCountsOfAnAllToAllVAreNoticed) {
  constexpr std::pair<std::size_t, std::size_t> kCounts[] = {{1000, 500}, {500, 1000}, {0, 10}, {10, 0}};
  for (const auto& [sent, awaited] : kCounts)
    expect_noticed(GetParam(), [&](Communicator& c) {
      const std::vector<std::int32_t> in(3000, 1);
      std::vector<std::int32_t> out(3000, -1);
      std::vector<std::size_t> counts(2, 1000), receive_counts(2, 1000);
      if (c.rank() == 0) counts[1] = sent;
      if (c.rank() == 1) receive_counts[0] = awaited;
      return c.run({.collective = Collective::kAllToAllV,
                    .in = in.data(),
                    .out = out.data(),
                    .counts = counts,
                    .receive_counts = receive_counts,
                    .type = DataType::kInt32,
                    .protocol = GetParam()});
    });
}

INSTANTIATE_TEST_SUITE_P(Protocols, Disagreements, testing::Values("Simple", "LL64", "LL128", "LL"),
                         [](const auto& info) { return std::string(info.param); });

TEST(SessionErrors, DifferentTypesOnPeersMemoryAreAMismatch) {
  on_threads(thread_communicators(3), [](Communicator& c) {
    std::vector<double> x(100, 1);
    const DataType type = c.rank() == 2 ? DataType::kInt64 : DataType::kFloat64;
    const Status s = c.run({.in = x.data(), .out = x.data(), .count = 100, .type = type, .algorithm = "two_shot"});
    ASSERT_FALSE(s);
    EXPECT_EQ(s.error().blame, Blame::kCommunicator);
    EXPECT_TRUE(c.rank() == 2 || s.error().message.find("rank 2") != std::string::npos) << s.error().message;
  });
}

TEST(SessionErrors, StartedOperationsBehindAFailureFailWithIt) {
  on_threads(thread_communicators(2), [](Communicator& c) {
    std::vector<float> x(100, 1);
    auto bad = c.start({.in = x.data(), .out = x.data(), .count = c.rank() == 0 ? 100u : 99u, .algorithm = "two_shot"});
    auto behind = c.start({.in = x.data(), .out = x.data(), .count = 10});
    if (bad && behind) {  // or the failure has shown already
      EXPECT_FALSE(behind->wait());
      EXPECT_FALSE(bad->wait());
    }
    EXPECT_FALSE(c.barrier());
  });
}

TEST(SessionErrors, ARankThatNeverCallsIsATimeoutThatNamesIt) {
  using namespace std::chrono_literals;
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<bool> over{false};
  on_threads(thread_communicators(2, {.spins = 20, .timeout = 300ms}), [&](Communicator& c) {
    if (c.rank() == 1) {
      while (!over) std::this_thread::sleep_for(1ms);
      return;
    }
    float x = 1;
    const Status s = c.run({.in = &x, .out = &x, .count = 1});
    over = true;
    ASSERT_FALSE(s);
    EXPECT_EQ(s.error().code, Code::kTimeout);
    EXPECT_EQ(s.error().blame, Blame::kCommunicator);
    for (const char* word : {"rank 0: all_reduce #1", "rank 1", "300 ms"})
      EXPECT_NE(s.error().message.find(word), std::string::npos) << s.error().message;
  });
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 300ms);
}

TEST(SessionErrors, ARankThatLeavesWithoutCallingIsNamedLongBeforeTheTimeout) {
  const auto begin = std::chrono::steady_clock::now();
  on_threads(thread_communicators(3), [](Communicator& c) {
    if (c.rank() == 1) return;
    float x = 1;
    const Status s = c.run({.in = &x, .out = &x, .count = 1});
    ASSERT_FALSE(s);
    EXPECT_EQ(s.error().code, Code::kPeerLeft) << s.error().message;
    EXPECT_NE(s.error().message.find("rank 1"), std::string::npos) << s.error().message;
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace weft
