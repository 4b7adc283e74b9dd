// Sends and receives between single ranks, over each transport. Ranks run their bodies as threads or processes; a
// body returns what went wrong, or nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/communicators.h"
#include "tests/processes.h"
#include "tests/tcp_job.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using RankContext = std::function<std::string(Communicator&)>;
using Direction = Transfer::Direction;

std::vector<std::string> over_threads(Rank ranks, std::chrono::milliseconds timeout, const RankContext& context) {
  auto limits = tests::patient(ranks);
  limits.timeout = timeout;
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  tests::on_threads(tests::thread_communicators(ranks, limits),
                    [&](Communicator& c) { said[static_cast<std::size_t>(c.rank())] = context(c); });
  return said;
}

std::vector<std::string> over_shm(Rank ranks, std::chrono::milliseconds timeout, const RankContext& context) {
  const std::string id = tests::fresh_id("transfer");
  std::vector<tests::Process> processes;
  for (Rank r = 0; r < ranks; ++r)
    processes.emplace_back([&, r](tests::Report& report) {
      auto c = tests::shm_communicator(id, r, ranks, timeout);
      report.say(c ? context(*c) : tests::text_of(c.error()));
    });
  std::vector<std::string> said;
  for (tests::Process& p : processes) said.push_back(p.join().said);
  return said;
}

std::vector<std::string> over_tcp(Rank ranks, std::chrono::milliseconds timeout, const RankContext& context) {
  return tests::TcpJob(ranks, timeout, [&](Communicator& c, tests::Report&) { return context(c); }).join();
}

struct Transport {
  const char* name;
  std::vector<std::string> (*run)(Rank, std::chrono::milliseconds, const RankContext&);
};

void PrintTo(const Transport& t, std::ostream* out) { *out << t.name; }

class Transfers : public testing::TestWithParam<Transport> {
 protected:
  std::vector<std::string> run(Rank ranks, const RankContext& context, std::chrono::milliseconds timeout = 60s) {
    return GetParam().run(ranks, timeout, context);
  }
  void all_well(Rank ranks, const RankContext& context, std::chrono::milliseconds timeout = 60s) {
    for (const std::string& said : run(ranks, context, timeout)) EXPECT_EQ(said, "");
  }
};

std::vector<std::int32_t> numbers(std::size_t count, std::int32_t first) {
  std::vector<std::int32_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = first + static_cast<std::int32_t>(i);
  return all;
}

std::string said(const Status& s) { return s ? "" : tests::text_of(s.error()); }

// The receiver aborts in the middle of a message; its memory is its own again, whatever is still on its way. start()
// may bring all of it if the sender never lets it wait; so that the abort meets an operation of the sender's all the
// same, that one also waits for an answer which never comes.
TEST_P(Transfers, WhatComesAfterAnAbortDoesNotGoIntoTheReceiversMemory) {
  const auto outcomes = run(2, [](Communicator& c) -> std::string {
    constexpr std::size_t kBytes = std::size_t{64} << 20;
    std::vector<std::uint8_t> data(kBytes, c.rank() == 0 ? 0 : 255);
    if (c.rank() == 1) {
      std::uint8_t answer = 0;
      const Transfer both[] = {{Direction::kSend, 0, data.data(), kBytes, DataType::kUint8},
                               {Direction::kReceive, 0, &answer, 1, DataType::kUint8}};
      return said(c.exchange(both));
    }
    const Transfer transfer{Direction::kReceive, 1, data.data(), kBytes, DataType::kUint8};
    auto work = c.start({&transfer, 1});
    if (!work) return said(tl::make_unexpected(work.error()));
    while (data[0] == 0) {
      const auto done = work->test();
      if (!done) return said(tl::make_unexpected(done.error()));
      if (*done && data[0] == 0) return "ended without its data";
    }
    c.abort();
    std::fill(data.begin(), data.end(), std::uint8_t{7});
    for (int look = 0; look < 100; ++look, std::this_thread::sleep_for(1ms)) (void)c.status();
    const auto changed = data.end() - std::find_if(data.begin(), data.end(), [](std::uint8_t x) { return x != 7; });
    return changed == 0 ? "" : std::to_string(changed) + " bytes from the end it is another";
  });
  EXPECT_EQ(outcomes[0], "");
  EXPECT_NE(outcomes[1].find("rank 0 aborted"), std::string::npos) << outcomes[1];
}

TEST_P(Transfers, APingPongOfManySizesBringsWhatWasSent) {
  all_well(2, [](Communicator& c) -> std::string {
    for (const std::size_t count : {1u, 7u, 1000u, 16384u, 1000003u})
      for (std::int32_t turn = 0; turn < 5; ++turn) {
        std::vector<std::int32_t> data = numbers(count, turn);
        std::vector<std::int32_t> got(count, -1);
        const bool first = c.rank() == 0;
        if (first)
          if (Status s = c.send(std::span<const std::int32_t>(data), 1); !s) return said(s);
        if (Status s = c.receive(std::span(got), 1 - c.rank()); !s) return said(s);
        if (!first)
          if (Status s = c.send(std::span<const std::int32_t>(got), 0); !s) return said(s);
        if (got != data) return fmt::format("{} elements, turn {}: wrong data", count, turn);
      }
    return "";
  });
}

TEST_P(Transfers, TransfersOfOneExchangeDoNotBlockEachOther) {
  constexpr Rank kRanks = 3;
  all_well(kRanks, [](Communicator& c) -> std::string {
    constexpr std::size_t kCount = 700001;  // more than slots hold; also to itself
    std::vector<std::vector<std::int32_t>> out, in;
    std::vector<Transfer> all;
    for (Rank r = 0; r < kRanks; ++r) {
      out.push_back(numbers(kCount, 10 * c.rank() + r));
      in.emplace_back(kCount, -1);
    }
    for (Rank r = 0; r < kRanks; ++r) {
      const auto i = static_cast<std::size_t>(r);
      all.push_back({Direction::kSend, r, out[i].data(), kCount, DataType::kInt32});
      all.push_back({Direction::kReceive, r, in[i].data(), kCount, DataType::kInt32});
    }
    if (Status s = c.exchange(all); !s) return said(s);
    for (Rank r = 0; r < kRanks; ++r)
      if (in[static_cast<std::size_t>(r)] != numbers(kCount, 10 * r + c.rank()))
        return fmt::format("wrong data from rank {}", r);
    return "";
  });
}

// More kinds of exchanges than a session remembers, again and again; buffers move and what is known is checked anew.
TEST_P(Transfers, ManyExchangesTakeTurns) {
  constexpr int kKinds = 11;
  all_well(2, [](Communicator& c) -> std::string {
    for (int turn = 0; turn < 3 * kKinds; ++turn) {
      const auto count = static_cast<std::size_t>(1 + 97 * (turn % kKinds));
      const std::vector<std::int32_t> out = numbers(count, turn + c.rank());
      std::vector<std::int32_t> in(count);
      const Status first = c.rank() == 0 ? c.send(std::span(out), 1) : c.receive(std::span(in), 0);
      if (!first) return said(first);
      const Status second = c.rank() == 0 ? c.receive(std::span(in), 1) : c.send(std::span(out), 0);
      if (!second) return said(second);
      if (in != numbers(count, turn + 1 - c.rank())) return fmt::format("wrong data in turn {}", turn);
      const Transfer null{Direction::kReceive, 1 - c.rank(), nullptr, count, DataType::kInt32};
      if (c.exchange({&null, 1})) return "a null buffer was taken";
    }
    return "";
  });
}

TEST_P(Transfers, CollectivesBetweenTransfersOfSomeRanksAreNoMismatch) {
  all_well(3, [](Communicator& c) -> std::string {
    std::vector<std::int32_t> sum(100);
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<std::int32_t> one(100, 1), note = numbers(50, turn), got(50);
      if (c.rank() == 0 && turn % 3 == 0)
        if (Status s = c.send(std::span<const std::int32_t>(note), 1); !s) return said(s);
      if (c.rank() == 1 && turn % 3 == 0) {
        if (Status s = c.receive(std::span(got), 0); !s) return said(s);
        if (got != note) return "wrong data";
      }
      if (Status s = c.all_reduce(std::span<const std::int32_t>(one), std::span(sum)); !s) return said(s);
      if (sum != std::vector<std::int32_t>(100, 3)) return "wrong sum";
    }
    return "";
  });
}

TEST_P(Transfers, APeerThatIsLateIsWaitedFor) {
  all_well(3, [](Communicator& c) -> std::string {
    std::vector<std::int32_t> data(100, 7), sum(100);
    if (c.rank() == 0) std::this_thread::sleep_for(1500ms);
    if (c.rank() == 0)
      if (Status s = c.send(std::span<const std::int32_t>(data), 1); !s) return said(s);
    if (c.rank() == 1)
      if (Status s = c.receive(std::span(data), 0); !s) return said(s);
    return said(c.all_reduce(std::span<const std::int32_t>(data), std::span(sum)));  // rank 2 has been here for long
  });
}

// Small messages cross in lines, large ones in slots: 1 and 10 elements are one line, 100 several, 5000 a slot.
TEST_P(Transfers, CountsThatDifferAreAMismatch) {
  constexpr std::pair<std::size_t, std::size_t> kCounts[] = {{1, 10},   {10, 1},    {100, 200},
                                                             {200, 10}, {10, 5000}, {5000, 10}};
  for (const auto& [sent, awaited] : kCounts) {
    const auto all = run(2, [&](Communicator& c) {
      std::vector<std::int32_t> data(5000, 1);
      Status s = c.rank() == 0 ? c.send(std::span<const std::int32_t>(data).first(sent), 1)
                               : c.receive(std::span(data).first(awaited), 0);
      return s ? said(c.barrier()) : said(s);
    });
    EXPECT_TRUE(all[1].starts_with(tests::code_of(Code::kMismatch))) << sent << " for " << awaited << ": " << all[1];
    EXPECT_NE(all[1].find("rank 0"), std::string::npos) << all[1];
    EXPECT_NE(all[1].find("exchange"), std::string::npos) << all[1];
    EXPECT_NE(all[1].find("than the " + std::to_string(awaited)), std::string::npos) << all[1];
    EXPECT_NE(all[0], "");
  }
}

// Sizes on both sides of the limit take turns, more of each than there are slots, and the same exchange is made again.
TEST_P(Transfers, SmallAndLargeMessagesOfOnePairArriveInOrder) {
  all_well(2, [](Communicator& c) -> std::string {
    constexpr std::size_t kCounts[] = {1, 5000, 14, 15, 896, 897, 100000};
    for (int turn = 0; turn < 60; ++turn) {
      const std::vector<std::int32_t> wanted = numbers(kCounts[static_cast<std::size_t>(turn) % 7], turn);
      if (turn / 20 % 2 == c.rank()) {
        if (Status s = c.send(std::span(wanted), 1 - c.rank()); !s) return said(s);
        continue;
      }
      std::vector<std::int32_t> got(wanted.size());
      if (Status s = c.receive(std::span(got), 1 - c.rank()); !s) return said(s);
      if (got != wanted) return fmt::format("wrong data in turn {}", turn);
    }
    return said(c.barrier());
  });
}

TEST_P(Transfers, AnExchangeAgainstACollectiveIsAMismatchOrATimeoutThatNamesTheRank) {
  const auto all = run(
      2,
      [](Communicator& c) {
        std::vector<std::int32_t> data(100, 1);
        return c.rank() == 0 ? said(c.receive(std::span(data), 1))
                             : said(c.run({.in = data.data(), .out = data.data(), .count = 100, .algorithm = "ring"}));
      },
      2s);
  EXPECT_TRUE(all[0].starts_with(tests::code_of(Code::kMismatch))) << all[0];
  EXPECT_NE(all[1], "");
}

TEST_P(Transfers, WhatCannotBeServedIsRefusedAndTheNextServed) {
  all_well(2, [](Communicator& c) -> std::string {
    std::int32_t x = 1;
    for (const Rank peer : {-1, 2, c.rank()}) {
      const Status s = c.send(std::span<const std::int32_t>(&x, 1), peer);
      if (s || s.error().code != Code::kInvalidArgument) return fmt::format("rank {} was taken for a peer", peer);
    }
    const Transfer null{Direction::kReceive, 1 - c.rank(), nullptr, 1, DataType::kInt32};
    if (c.exchange({&null, 1})) return "a null buffer was taken";
    if (Status s = c.exchange({}); !s) return said(s);
    return said(c.barrier());
  });
}

INSTANTIATE_TEST_SUITE_P(All, Transfers,
                         testing::Values(Transport{"threads", over_threads}, Transport{"shm", over_shm},
                                         Transport{"tcp", over_tcp}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace weft
