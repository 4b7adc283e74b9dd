#include <gtest/gtest.h>

#include "machine/machine.h"
#include "model/replay/link.h"
#include "model/replay/run.h"
#include "plan/cost/shipped.h"

namespace weft::replay {
namespace {

using pgas::Compare;
using pgas::Event;
using pgas::Program;
using Kind = Event::Kind;

constexpr Bytes kMiB = Bytes{1} << 20;
constexpr pgas::Place kFlag{0, 64}, kData{0, 4096};

cost::MachineView view_of(const char* machine) {
  return std::move(*cost::shipped_view(topology::load_machine(machine).value()));
}

Event at(double us, Event event) {
  event.begin = event.end = Duration::microseconds(us);
  return event;
}
Event put(Rank peer, Bytes bytes) { return {.kind = Kind::kPut, .peer = peer, .place = kData, .bytes = bytes}; }
Event get(Rank peer, Bytes bytes) { return {.kind = Kind::kGet, .peer = peer, .place = kData, .bytes = bytes}; }
Event flag(Rank peer, std::uint64_t value, Kind kind = Kind::kAtomic, Bytes bytes = 8) {
  return {.kind = kind, .peer = peer, .place = kFlag, .bytes = bytes, .valued = true, .value = value};
}
Event wait(std::uint64_t value, Compare compare = Compare::kGreaterEqual) {
  return {.kind = Kind::kWait, .place = kFlag, .bytes = 8, .valued = true, .value = value, .compare = compare};
}
Event quiet() { return {.kind = Kind::kQuiet}; }

Outcome outcome(const char* machine, const Program& program, double compute = 0) {
  const cost::MachineView view = view_of(machine);
  auto result = run_on(view, program, compute);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : Outcome{};
}

TEST(Link, AWaitNeedsTheWritesUpToTheFirstThatItAccepts) {
  // Rank 2 waits until three have been added; what is added afterwards is for the next wait.
  const Program program = {
      {at(1, flag(2, 1)), at(3, flag(2, 3)), at(4, flag(2, 4))}, {at(2, flag(2, 2))}, {at(5, wait(3)), at(6, wait(4))}};
  const LinkedProgram linked = link(program);
  EXPECT_EQ(linked.unexplained, 0);
  std::map<Rank, std::int64_t> needs;
  for (const auto& need : linked.ranks[2][0].needs) needs[need.writer] = std::max(needs[need.writer], need.count);
  EXPECT_EQ(needs, (std::map<Rank, std::int64_t>{{0, 2}, {1, 1}}));
  ASSERT_EQ(linked.ranks[2][1].needs.size(), 1u);
  EXPECT_EQ(linked.ranks[2][1].needs[0].count, 3);
}

TEST(Link, AFlagThatWasResetByAPlainStoreIsNotTakenForTheOldOne) {
  const Program program = {{at(1, flag(1, 1)), at(10, flag(1, 1))},
                           {at(2, wait(1, Compare::kEqual)), at(11, wait(1, Compare::kEqual))}};
  const LinkedProgram linked = link(program);
  ASSERT_EQ(linked.ranks[1][1].needs.size(), 1u);
  EXPECT_EQ(linked.ranks[1][1].needs[0].count, 2);
}

TEST(Link, WaitsThatNoWriteEndedAreCounted) { EXPECT_EQ(link({{at(1, wait(1))}}).unexplained, 1); }

// 64 MiB over 450 GB/s of which 79 % are payload: 189 us; the call and the way back of quiet are 2 us at most.
TEST(Replay, APutTakesWhatTheLinkAllows) {
  const Outcome o = outcome("dgx-h100", {{put(1, 64 * kMiB), quiet()}, {}});
  EXPECT_NEAR(o.total.us(), 189, 3);
  EXPECT_EQ(o.ranks[1].total().us(), 0);
  EXPECT_GT(o.busiest_share, 0.9);
}

TEST(Replay, PutsOfTwoRanksToOneShareItsLink) {
  const Outcome o = outcome("dgx-h100", {{put(2, 64 * kMiB)}, {put(2, 64 * kMiB)}, {}});
  EXPECT_NEAR(o.total.us(), 2 * 189, 5);
}

// A call of 0.75 us, the question there and the answer back 0.23 us.
TEST(Replay, APutToOneselfReadsAndWritesTheMemoryOfThisGpu) {
  // 0.75 of 3350 GB/s on an H100 and of 1555 on an A100 of 40 GB, half of it reads.
  const Bytes bytes = 256 * kMiB;
  const auto rate = [&](const char* machine) {
    return static_cast<double>(bytes) / outcome(machine, {{put(0, bytes), quiet()}}).total.s() * 1e-9;
  };
  EXPECT_NEAR(rate("dgx-h100"), 0.75 * 3350 / 2, 10);
  EXPECT_NEAR(rate("dgx-a100"), 0.75 * 1555 / 2, 5);
}

TEST(Replay, AGetWaitsForItsAnswerAndAPutDoesNot) {
  EXPECT_NEAR(outcome("dgx-h100", {{get(1, 8)}, {}}).total.us(), 0.98, 0.01);
  EXPECT_NEAR(outcome("dgx-h100", {{put(1, 8)}, {}}).total.us(), 0.75, 0.01);
}

TEST(Replay, PutSignalSavesTheRoundTripOfQuiet) {  // SCOPE.md, P3
  const auto receiver = std::vector{at(9, wait(1))};
  const Program fused = {{at(1, flag(1, 1, Kind::kPutSignal, 4096))}, receiver};
  const Program apart = {{at(1, put(1, 4096)), at(2, quiet()), at(3, flag(1, 1, Kind::kPut))}, receiver};
  for (const char* machine : {"dgx-h100", "pcie-4x4090-p2p"}) {
    const double one = outcome(machine, fused).total.us(), other = outcome(machine, apart).total.us();
    EXPECT_GT(other, one + 1.4) << machine;  // there and back, and one more call
  }
}

TEST(Replay, AWaitEndsWhenTheWriteCanBeSeen) {
  // Rank 0 computes for 100 us and then writes.
  const Program program = {{at(0, {.kind = Kind::kFence}), at(100, flag(1, 1))}, {at(101, wait(1))}};
  const Outcome real = outcome("dgx-h100", program, 1);
  EXPECT_NEAR(real.ends[1][0].us(), 100 + 0.75 + 0.7, 0.05);  // call, and the latency of Direct over NVLink
  EXPECT_NEAR(real.ranks[0].computing.us(), 100, 0.01);
  EXPECT_NEAR(outcome("dgx-h100", program, 0.5).ends[1][0].us(), 50 + 1.45, 0.05);
}

TEST(Replay, AcrossNodesTheNetworkIsInTheWay) {
  const Program near = {{get(1, kMiB)}, {}};
  Program far(9);
  far[0] = {get(8, kMiB)};
  const double inside = outcome("dgx-h100:nodes=2,net=ib-ndr", near).total.us();
  const double across = outcome("dgx-h100:nodes=2,net=ib-ndr", far).total.us();
  EXPECT_GT(across, 5 * inside);  // 50 GB/s of one NIC against 371
}

TEST(Replay, MembersOfACollectiveGoOnTogether) {
  const Event meet{.kind = Kind::kMeet, .bytes = kMiB, .group = {0, 1, 2}, .collective = "all_reduce"};
  const Outcome o = outcome("dgx-h100", {{at(0, {.kind = Kind::kFence}), at(500, meet)}, {at(0, meet)}}, 1);
  EXPECT_EQ(o.ends[0][1], o.ends[1][0]);
  EXPECT_GT(o.ends[0][1].us(), 500 + 1);
  EXPECT_GT(o.ranks[1].meeting.us(), 500);
}

TEST(Replay, AProgramThatWaitsInACircleIsRefused) {
  const Program circle = {{at(2, wait(1)), at(1, flag(1, 1))}, {at(2, wait(1)), at(1, flag(0, 1))}};
  const cost::MachineView view = view_of("dgx-h100");
  const auto result = run_on(view, circle, 0);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("rank 0 waits for ever at its operation 1"), std::string::npos)
      << result.error().message;
}

TEST(Replay, IsTheSameEveryTime) {
  Program all(8);
  for (Rank r = 0; r < 8; ++r)
    for (Rank p = 0; p < 8; ++p)
      if (p != r) all[static_cast<std::size_t>(r)].push_back(put(p, kMiB));
  EXPECT_EQ(outcome("dgx-h100", all).ends, outcome("dgx-h100", all).ends);
}

Event load(Rank peer, Bytes bytes) { return {.kind = Kind::kLoad, .peer = peer, .place = kData, .bytes = bytes}; }
Event store(Rank peer, Bytes bytes) { return {.kind = Kind::kStore, .peer = peer, .place = kData, .bytes = bytes}; }

TEST(Replay, ALoadByPointerIsAGetWithoutItsCallAndAStoreAPutWithoutIts) {
  const double call = cost::call_time(true).us();
  const auto us = [](const Event& event) { return outcome("dgx-h100", {{event}, {}}).total.us(); };
  EXPECT_NEAR(us(store(1, kMiB)), us(put(1, kMiB)) - call, 1e-3);
  EXPECT_LE(us(load(1, kMiB)), us(get(1, kMiB)) - call);
  EXPECT_GT(us(load(1, kMiB)), us(get(0, kMiB)) - call);  // the link is slower than one's own memory
}

// The NVSHMEM case study of SCOPE.md N5: 9.5 TB/s by pointer, 7.5 by gets and transposes of what they fetched.
TEST(Replay, ATransposeByPointerIsAsMuchFasterThanOneByGetsAsThatOfTheStudy) {
  constexpr Rank kRanks = 8;
  Program by_gets(kRanks), by_pointer(kRanks);
  for (Rank r = 0; r < kRanks; ++r)
    for (Rank i = 0; i < kRanks; ++i) {
      const Rank from = (r + i) % kRanks;
      by_gets[static_cast<std::size_t>(r)].push_back(get(from, 2 * kMiB));
      by_gets[static_cast<std::size_t>(r)].push_back(load(r, 2 * kMiB));
      by_pointer[static_cast<std::size_t>(r)].push_back(load(from, 2 * kMiB));
    }
  EXPECT_NEAR(outcome("dgx-h100", by_gets).total / outcome("dgx-h100", by_pointer).total, 9.5 / 7.5, 0.05);
}

TEST(Replay, AWordThatWasStoredThroughAPointerIsNotExplained) {
  const Program program = {{at(1, store(1, 8))}, {at(2, wait(1))}};
  EXPECT_EQ(link(program).unexplained, 1);
}

TEST(Replay, APointerAcrossANetworkIsRefusedByRankAndReason) {
  const cost::MachineView view = view_of("dgx-h100:nodes=2,net=ib-ndr");
  Program program(9);
  program[8] = {load(0, kMiB)};
  const auto result = run_on(view, program, 0);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("rank 8 loads 1048576 bytes of rank 0 by a pointer"), std::string::npos)
      << result.error().message;
  EXPECT_NE(result.error().message.find("no loads across a network"), std::string::npos) << result.error().message;
}

}  // namespace
}  // namespace weft::replay
