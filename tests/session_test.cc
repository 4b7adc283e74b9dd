// Communicators of threads: every collective with every algorithm and protocol gives the exact result.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "plan/collectives/registry.h"
#include "tests/communicators.h"

namespace weft {
namespace {

using tests::on_threads;
using tests::thread_communicators;

// Small whole numbers: their sums are exact in every type. Differs between ranks, blocks and neighbouring places.
template <class T>
T value(Rank rank, int block, std::size_t at) {
  return static_cast<T>((rank + 1) * static_cast<int>((at + static_cast<std::size_t>(block) * 5) % 13 + 1));
}
template <class T>
T sum(Rank ranks, int block, std::size_t at) {
  return static_cast<T>(ranks * (ranks + 1) / 2 * value<T>(0, block, at));  // 1 + 2 + … + n
}

// One rank's buffers for one call, and what must be in them afterwards.
template <class T>
class Buffers {
 public:
  Buffers(const Request& r, Rank rank, Rank ranks, bool in_place) : in_place_(in_place) {
    using namespace schedule;
    const Shape shape{r.collective, ranks, r.root, blocks(r.collective, ranks)};
    const bool parts = shape.chunks > 1 && r.collective != Collective::kSendReceive;
    const Layout layout(shape, static_cast<Bytes>(r.count) * (parts ? ranks : 1), sizeof(T));
    const auto elements = [](Bytes bytes) { return static_cast<std::size_t>(bytes) / sizeof(T); };
    in_.resize(elements(layout.buffer_bytes(Buffer::kIn, rank)));
    expected_.resize(elements(layout.buffer_bytes(Buffer::kOut, rank)));
    for (int b = 0; b < shape.chunks; ++b) {
      const std::size_t count = elements(layout.block_bytes(b));
      if (holds(shape, Buffer::kIn, b, rank))
        for (std::size_t i = 0; i < count; ++i) in_[elements(layout.offset(Buffer::kIn, b)) + i] = value<T>(rank, b, i);
      if (holds(shape, Buffer::kOut, b, rank))
        for (std::size_t i = 0; i < count; ++i)
          expected_[elements(layout.offset(Buffer::kOut, b)) + i] =
              reduces(r.collective) ? sum<T>(ranks, b, i) : value<T>(contributors(shape, b).first, b, i);
    }
    out_.assign(std::max(in_.size(), expected_.size()) + kGuard, T(-7));
    if (in_place) {
      if (in_.size() < expected_.size() && !in_.empty()) in_offset_ = elements(layout.offset(Buffer::kOut, rank));
      if (expected_.size() < in_.size() && !expected_.empty()) out_offset_ = elements(layout.offset(Buffer::kIn, rank));
      std::copy(in_.begin(), in_.end(), out_.begin() + static_cast<std::ptrdiff_t>(in_offset_));
    }
  }

  // Valid for as long as these buffers.
  Request point(Request r) {
    r.in = in_place_ ? out_.data() + in_offset_ : in_.data();
    r.out = out_.data() + out_offset_;
    return r;
  }

  // "" or what is wrong.
  std::string verdict() const {
    for (std::size_t i = 0; i < expected_.size(); ++i)
      if (const T got = out_[out_offset_ + i]; got != expected_[i])
        return fmt::format("element {} is {} instead of {}", i, got, expected_[i]);
    for (std::size_t i = 0; i < kGuard; ++i)
      if (out_[out_.size() - kGuard + i] != T(-7)) return "the memory behind the output was written";
    return "";
  }

 private:
  static constexpr std::size_t kGuard = 16;
  bool in_place_;
  std::size_t in_offset_ = 0, out_offset_ = 0;
  std::vector<T> in_, out_, expected_;
};

template <class T>
std::string run_and_check(Communicator& c, const Request& request, bool in_place) {
  Buffers<T> buffers(request, c.rank(), c.ranks(), in_place);
  if (const Status s = c.run(buffers.point(request)); !s) return s.error().message;
  return buffers.verdict();
}

std::string run_and_check(Communicator& c, const Request& r, bool in_place) {
  switch (r.type) {
    case DataType::kInt32:
      return run_and_check<std::int32_t>(c, r, in_place);
    case DataType::kInt64:
      return run_and_check<std::int64_t>(c, r, in_place);
    case DataType::kFloat32:
      return run_and_check<float>(c, r, in_place);
    case DataType::kFloat64:
      return run_and_check<double>(c, r, in_place);
    default:  // tests/arithmetic_test.cc has the other types
      return "?";
  }
}

constexpr DataType kTypes[] = {DataType::kInt32, DataType::kInt64, DataType::kFloat32, DataType::kFloat64};

class EveryCall : public testing::TestWithParam<Rank> {
 protected:
  void run_all(bool staged) {
    on_threads(thread_communicators(GetParam(), tests::patient(GetParam()), tests::forcing_chooser(staged)),
               [staged](Communicator& c) {
                 int call = 0;
                 for (const schedule::Algorithm& a : collectives::algorithms()) {
                   if (staged && !a.needs.memory()) continue;
                   if (schedule::routed(a.collective)) continue;  // with tables: experts_test
                   for (const char* protocol : {"Simple", "LL64", "LL", "LL128"}) {
                     if (!a.needs.messages && protocol != std::string("Simple")) continue;
                     for (const std::size_t count : {0, 1, 3, 17, 1000, 65537, 300007}) {
                       if (count > 100000 && !a.needs.memory())
                         continue;  // several rounds through scratch; messages have them before
                       for (const bool in_place : {false, true}) {
                         ++call;  // types, roots and channels take turns; the same on every rank
                         const Request r{.collective = a.collective,
                                         .count = count,
                                         .type = kTypes[call / 2 % 4],
                                         .root = schedule::rooted(a.collective) ? call % c.ranks() : 0,
                                         .algorithm = std::string(a.name),
                                         .protocol = a.needs.messages ? protocol : "Direct",
                                         .channels = 1 + call / 3 % 2};
                         ASSERT_EQ(run_and_check(c, r, in_place), "")
                             << "rank " << c.rank() << " of " << c.ranks() << ": " << a.name << " "
                             << schedule::name(a.collective) << " " << protocol << ", " << count << " elements of type "
                             << static_cast<int>(r.type) << (in_place ? ", in place" : "");
                       }
                     }
                   }
                 }
               });
  }
};

TEST_P(EveryCall, GivesTheExactResult) { run_all(false); }
TEST_P(EveryCall, GivesTheExactResultThroughScratch) { run_all(true); }

INSTANTIATE_TEST_SUITE_P(Ranks, EveryCall, testing::Range(1, 9),
                         [](const auto& info) { return "On" + std::to_string(info.param); });

TEST(Session, AllTypesOfOneShapeDoNotShareAPlan) {
  on_threads(thread_communicators(2), [](Communicator& c) {
    for (const DataType type :
         {DataType::kInt32, DataType::kFloat32, DataType::kInt64, DataType::kFloat64, DataType::kInt32})
      ASSERT_EQ(run_and_check(c, {.count = 100, .type = type}, false), "");
  });
}

TEST(Session, AnswersWhatItChose) {
  on_threads(thread_communicators(2), [](Communicator& c) {
    float x[4] = {1, 2, 3, 4};
    ASSERT_TRUE(c.run({.in = x, .out = x, .count = 4, .algorithm = "tree", .protocol = "LL64", .channels = 2}));
    EXPECT_EQ(c.last_choice().algorithm, "tree");
    EXPECT_EQ(c.last_choice().protocol, "LL64");
    EXPECT_EQ(c.last_choice().channels, 2);
  });
}

// More than a session keeps at hand.
TEST(Session, ManyShapesComeBackInTurn) {
  on_threads(thread_communicators(2), [](Communicator& c) {
    for (int round = 0; round < 3; ++round) {
      for (std::size_t count = 1; count <= 40; ++count) {
        const std::string algorithm = count % 2 == 0 ? "tree" : "ring";
        ASSERT_EQ(run_and_check(c, {.count = count, .type = DataType::kInt32, .algorithm = algorithm}, false), "");
        ASSERT_EQ(c.last_choice().algorithm, algorithm) << count;
      }
    }
  });
}

// Copies that change nothing are left out in place; the same call with other buffers must not profit from that.
TEST(Session, PlacesOfBuffersAlternate) {
  constexpr std::size_t kCount = 3;
  on_threads(thread_communicators(3), [](Communicator& c) {
    const auto rank = static_cast<std::size_t>(c.rank()), ranks = static_cast<std::size_t>(c.ranks());
    for (int round = 0; round < 12; ++round) {
      const auto mine = static_cast<float>(10 * round + c.rank());
      // all_gather: from this rank's part of the output, or apart
      std::vector<float> in(kCount, mine), out(kCount * ranks, -1);
      const bool part = round % 2 == 0;
      if (part) std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(kCount * rank), kCount, mine);
      const float* const from = part ? out.data() + kCount * rank : in.data();
      ASSERT_TRUE(c.run(
          {.collective = Collective::kAllGather, .in = from, .out = out.data(), .count = kCount, .algorithm = "pat"}));
      for (std::size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(out[i], static_cast<float>(10 * round + static_cast<int>(i / kCount))) << round;
      // broadcast: in place, or apart
      std::vector<float> copy(kCount, -1);
      float* const to = round % 3 == 0 ? in.data() : copy.data();
      ASSERT_TRUE(c.run(
          {.collective = Collective::kBroadcast, .in = in.data(), .out = to, .count = kCount, .algorithm = "spread"}));
      for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(to[i], static_cast<float>(10 * round)) << round;
    }
  });
}

TEST(Session, ABarrierHoldsEarlyRanksBack) {
  std::atomic<int> arrived{0};
  on_threads(thread_communicators(4), [&](Communicator& c) {
    for (int round = 1; round <= 20; ++round) {
      if (c.rank() == round % 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++arrived;
      ASSERT_TRUE(c.barrier());
      EXPECT_GE(arrived.load(), 4 * round);
      ASSERT_TRUE(c.barrier());
    }
  });
}

TEST(Session, SpansAreCheckedAgainstEachOther) {
  auto one = thread_communicators(1);
  const std::vector<float> in(3);
  std::vector<float> out(4);
  const Status s = one[0].all_reduce<float>(in, out);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().blame, Blame::kInput);
}

TEST(Session, AllocatedMemoryIsUsedLikeAnyOther) {
  on_threads(thread_communicators(3), [](Communicator& c) {
    auto memory = c.allocate(5000 * sizeof(std::int64_t));
    ASSERT_TRUE(memory);
    auto data = memory->as<std::int64_t>();
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = value<std::int64_t>(c.rank(), 0, i);
    ASSERT_TRUE(c.all_reduce<std::int64_t>(data, data));
    for (std::size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], sum<std::int64_t>(3, 0, i));
  });
}

// Five different operations, all started before any has finished.
class Nonblocking : public testing::Test {
 protected:
  using Finish = std::function<Status(Communicator&, std::vector<Work>&)>;
  void run(Rank ranks, const Finish& finish) {
    on_threads(thread_communicators(ranks), [&](Communicator& c) {
      const Request requests[] = {
          {.collective = Collective::kAllReduce, .count = 100000, .type = DataType::kInt32},
          {.collective = Collective::kBroadcast, .count = 7, .type = DataType::kInt32, .root = ranks - 1},
          {.collective = Collective::kAllGather, .count = 3000, .type = DataType::kInt32},
          {.collective = Collective::kAllReduce, .count = 5, .type = DataType::kInt32, .algorithm = "two_shot"},
          {.collective = Collective::kReduceScatter, .count = 999, .type = DataType::kInt32}};
      for (int repeat = 0; repeat < 5; ++repeat) {
        std::vector<Buffers<std::int32_t>> buffers;
        for (const Request& r : requests) buffers.emplace_back(r, c.rank(), ranks, false);
        std::vector<Work> works;
        for (std::size_t i = 0; i < std::size(requests); ++i) {
          auto work = c.start(buffers[i].point(requests[i]));
          ASSERT_TRUE(work) << work.error().message;
          works.push_back(std::move(*work));
        }
        const Status s = finish(c, works);
        ASSERT_TRUE(s) << s.error().message;
        for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_EQ(buffers[i].verdict(), "") << "operation " << i;
      }
    });
  }
};

TEST_F(Nonblocking, WorksAreWaitedForInOrder) {
  run(3, [](Communicator&, std::vector<Work>& works) -> Status {
    for (Work& w : works)
      if (Status s = w.wait(); !s) return s;
    return {};
  });
}

TEST_F(Nonblocking, WorksAreWaitedForInReverse) {
  run(3, [](Communicator&, std::vector<Work>& works) -> Status {
    for (auto w = works.rbegin(); w != works.rend(); ++w)
      if (Status s = w->wait(); !s) return s;
    return {};
  });
}

TEST_F(Nonblocking, WorksAreTestedUntilAllAreDone) {
  run(2, [](Communicator& c, std::vector<Work>& works) -> Status {
    for (std::size_t done = 0; done < works.size();) {
      done = 0;
      for (std::size_t i = 0; i < works.size(); ++i) {  // ranks look at them in different orders
        auto finished = works[c.rank() == 0 ? i : works.size() - 1 - i].test();
        if (!finished) return tl::make_unexpected(finished.error());
        done += *finished;
      }
      std::this_thread::yield();
    }
    return {};
  });
}

TEST_F(Nonblocking, WorksAreWaitedForAWhileAtATime) {
  run(3, [](Communicator&, std::vector<Work>& works) -> Status {
    for (auto w = works.rbegin(); w != works.rend(); ++w)
      for (bool done = false; !done;) {
        auto finished = w->wait_for(std::chrono::microseconds(50));
        if (!finished) return tl::make_unexpected(finished.error());
        done = *finished;
      }
    return {};
  });
}

// A wait that gives up returns about when it said, and leaves the operation as it is.
TEST(WaitFor, ReturnsWhileAPeerIsLateAndLaterWithTheResult) {
  auto comms = thread_communicators(2);
  std::atomic<bool> may_call{false};
  on_threads(comms, [&](Communicator& c) {
    std::vector<int> sum(1000, c.rank() + 1);
    const Request r{.collective = Collective::kAllReduce,
                    .in = sum.data(),
                    .out = sum.data(),
                    .count = sum.size(),
                    .type = DataType::kInt32};
    if (c.rank() == 1) {
      while (!may_call) std::this_thread::yield();
      EXPECT_TRUE(c.run(r));
    } else {
      auto work = c.start(r);
      ASSERT_TRUE(work);
      const auto began = std::chrono::steady_clock::now();
      const auto early = work->wait_for(std::chrono::milliseconds(30));
      ASSERT_TRUE(early) << early.error().message;
      EXPECT_FALSE(*early);
      EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(30));
      may_call = true;
      const auto late = work->wait_for(std::chrono::seconds(60));
      ASSERT_TRUE(late) << late.error().message;
      EXPECT_TRUE(*late);
    }
    EXPECT_EQ(sum[999], 3);
  });
}

TEST(WaitFor, AWorkWithoutAnOperationIsBadInput) {
  Work none;
  const auto done = none.wait_for(std::chrono::milliseconds(1));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kInvalidArgument);
}

TEST_F(Nonblocking, ABlockingCallFinishesWhatWasStartedBefore) {
  run(3, [](Communicator& c, std::vector<Work>& works) -> Status {
    if (Status s = c.barrier(); !s) return s;
    for (Work& w : works) {
      auto done = w.test();
      if (!done) return tl::make_unexpected(done.error());
      EXPECT_TRUE(*done);
    }
    return {};
  });
}

TEST_F(Nonblocking, DroppedWorksStillComplete) {
  run(2, [](Communicator& c, std::vector<Work>& works) -> Status {
    works.clear();
    return c.barrier();
  });
}

// The time a caller spends between two operations is not time spent waiting.
TEST(Session, TimeBetweenOperationsDoesNotCountAsWaiting) {
  using namespace std::chrono_literals;
  const auto start = std::chrono::steady_clock::now();  // of both ranks: who waits for whom depends on the algorithm
  on_threads(thread_communicators(2, {.spins = 20, .timeout = 2000ms}), [start](Communicator& c) {
    std::int32_t x = 1, y = 1;
    if (c.rank() == 1) std::this_thread::sleep_until(start + 100ms);
    auto first = c.start({.in = &x, .out = &x, .count = 1, .type = DataType::kInt32});
    ASSERT_TRUE(first);
    if (c.rank() == 0) {
      std::this_thread::sleep_until(start + 1000ms);  // rank 1 has long sent; rank 0 computes
      ASSERT_TRUE(first->wait());
      std::this_thread::sleep_until(start + 2000ms);
    } else {
      ASSERT_TRUE(first->wait());
      std::this_thread::sleep_until(start + 2800ms);  // later than rank 0, which must now wait, from zero on
    }
    const Status second = c.run({.in = &y, .out = &y, .count = 1, .type = DataType::kInt32});
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(y, 2);
  });
}

// A rank that has done its part may go; the others need not have finished.
TEST(Session, ARankThatIsDoneMayLeaveWhileOthersAreLate) {
  on_threads(thread_communicators(3), [](Communicator& c) {
    std::int32_t x = c.rank() == 0 ? 42 : 0;
    if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));  // rank 0 sends to 1, 1 to 2
    const Status s =
        c.run({.collective = Collective::kBroadcast, .in = &x, .out = &x, .count = 1, .type = DataType::kInt32});
    ASSERT_TRUE(s) << s.error().message;
    EXPECT_EQ(x, 42);
  });
}

}  // namespace
}  // namespace weft
