// The text of the GPU's kernels on the host's threads: every algorithm, by every protocol that kernels know.

#include <gtest/gtest.h>

#include <algorithm>

#include "exec/device/flatten.h"
#include "exec/kernels/fold.h"
#include "plan/collectives/registry.h"
#include "plan/schedule/element.h"
#include "tests/device/job.h"

namespace weft {
namespace {

using protocol::Protocol;
using tests::DeviceJob;

constexpr int kThreads = 2;      // of a block; …
constexpr int kLineThreads = 8;  // … of LL128, a warp

exec::device::Geometry small(Rank ranks) {
  return {.ranks = ranks, .strands = 8, .slot_bytes = 1024, .line_slot_bytes = 512, .scratch_bytes = 64 << 10};
}

int threads_for(Protocol protocol) { return protocol == Protocol::kLL128 ? kLineThreads : kThreads; }

class Device : public testing::TestWithParam<Rank> {};

// Sizes that need less than a pack, and several rounds of every slot, with a rest.
TEST_P(Device, EveryAlgorithmByEveryProtocol) {
  const Rank n = GetParam();
  int ran = 0;
  for (const schedule::Algorithm& algorithm : collectives::algorithms()) {
    for (const Protocol protocol : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128, Protocol::kDirect}) {
      if (!schedule::fits(algorithm, protocol)) continue;
      DeviceJob job(small(n));
      for (const Bytes each : {1, 1181}) {
        const Collective collective = algorithm.collective;
        const schedule::Task task{
            .collective = collective,
            .ranks = n,
            .root = n - 1,
            .ranks_per_node = n,
            .elements = collective == Collective::kBarrier ? 0 : each * schedule::message_parts(collective, n),
            .element_bytes = 4};
        const auto plan =
            schedule::make_plan(task, algorithm, protocol, 1, exec::device::capabilities(small(n)), each > 1);
        if (const auto cut = schedule::cut_of(task, plan); cut.piece > 0 && cut.round == 0) continue;
        Status done = job.prepare(task, plan, {});
        if (done) done = job.run(threads_for(protocol));
        const auto what = fmt::format("{} by {} {} on {}: ", schedule::name(collective), algorithm.name,
                                      protocol::traits(protocol).name, n);
        if (!done && done.error().code == Code::kUnsupported) {
          EXPECT_TRUE(algorithm.parts != nullptr || algorithm.lanes > 8) << what << done.error().message;
          continue;
        }
        ASSERT_TRUE(done) << what << done.error().message;
        ASSERT_EQ(job.compare(), "") << what;
        ++ran;
      }
    }
  }
  RecordProperty("ran", ran);
  EXPECT_GT(ran, 200);
}

// An all-reduce of two ranks, one way or another.
struct Pair {
  Pair(const char* algorithm, Protocol protocol, Bytes elements, DeviceJob::Arithmetic arithmetic = {}, Rank ranks = 2)
      : job(small(ranks)), protocol_(protocol) {
    const schedule::Task task{.ranks = ranks, .elements = elements, .element_bytes = size_of(arithmetic.type)};
    const schedule::Plan plan =
        schedule::make_plan(task, *collectives::find_algorithm(Collective::kAllReduce, algorithm).value(), protocol, 1,
                            exec::device::capabilities(small(ranks)), true);
    EXPECT_TRUE(job.prepare(task, plan, arithmetic));
  }
  Status run() { return job.run(threads_for(protocol_)); }
  DeviceJob job;
  Protocol protocol_;
};

// Ordinary values, whatever the type: few bits of mantissa, so that sums of some are exact in all but the smallest.
std::byte ordinary(DataType type, std::size_t at, std::size_t byte) {
  const auto bits = static_cast<std::uint8_t>(at * 37 + byte * 11);
  const bool top = byte + 1 == static_cast<std::size_t>(size_of(type));
  if (!is_float(type) || !top) return std::byte{bits};
  return std::byte((bits & 0x83) | 0x38);  // exponents in the middle of their range
}

TEST(DeviceArithmetic, EveryTypeAndOperationGivesTheBitsOfTheHostsKernels) {
  constexpr Rank kRanks = 3;
  constexpr std::size_t kElements = 77;
  for (int t = 0; t < kDataTypes; ++t)
    for (int o = 0; o < kReduceOps; ++o) {
      const auto type = static_cast<DataType>(t);
      const auto op = static_cast<ReduceOp>(o);
      if (!applies(type, op)) continue;
      std::vector<Scalar> scales;
      for (Rank r = 0; op == ReduceOp::kPremulSum && r < kRanks; ++r) scales.push_back({0.75 - 0.5 * r, 3 - r});
      Pair pair("two_shot", Protocol::kDirect, kElements, {type, op, scales}, kRanks);
      const auto bytes = kElements * static_cast<std::size_t>(size_of(type));
      std::vector<const std::byte*> sources;
      for (std::size_t r = 0; r < kRanks; ++r) {
        for (std::size_t i = 0; i < bytes; ++i)
          pair.job.inputs()[r][i] = ordinary(type, i / static_cast<std::size_t>(size_of(type)) + r * 5,
                                             i % static_cast<std::size_t>(size_of(type)));
        sources.push_back(pair.job.inputs()[r].data());
      }
      const Status done = pair.run();
      ASSERT_TRUE(done) << done.error().message;
      std::vector<std::byte> expected(bytes);
      std::byte* const out = expected.data();
      exec::fold_for(type, op)(&out, 1, sources.data(), kRanks, static_cast<Bytes>(bytes),
                               scales.empty() ? nullptr : scales.data());
      for (Rank r = 0; r < kRanks; ++r)
        ASSERT_EQ(pair.job.outputs()[static_cast<std::size_t>(r)], expected)
            << schedule::name(type) << " " << schedule::name(op) << " rank " << r;
    }
}

// As a graph does: nothing is prepared again, numbers of calls and messages go on from what the regions hold.
TEST(DeviceCalls, TheSameFramesRunAgainAndAgain) {
  for (const auto& [algorithm, protocol] : {std::pair{"ring", Protocol::kSimple},
                                            {"ring", Protocol::kLL},
                                            {"ring", Protocol::kLL128},
                                            {"two_shot", Protocol::kDirect}}) {
    Pair pair(algorithm, protocol, 1000);
    for (int call = 0; call < 20; ++call) {
      for (auto& out : pair.job.outputs()) std::fill(out.begin(), out.end(), std::byte{0x55});
      ASSERT_TRUE(pair.run()) << algorithm;
      ASSERT_EQ(pair.job.compare(), "") << algorithm << " call " << call;
    }
  }
}

// LL's flags repeat after 2^31 messages; what may be left from then is cleared 2^30 before.
TEST(DeviceCalls, NumbersGoOnWhereShortFlagsRepeat) {
  for (const std::uint64_t before : {(std::uint64_t{1} << 30) - 5, (std::uint64_t{1} << 31) - 5}) {
    Pair pair("ring", Protocol::kLL, 1000);
    for (const Rank r : {0, 1}) {
      auto& link = pair.job.link(r, 1 - r, 0);
      link.head = link.sent = link.taken_by_peer = link.received = before;
    }
    for (int call = 0; call < 3; ++call) ASSERT_TRUE(pair.run());
    EXPECT_EQ(pair.job.compare(), "");
  }
}

TEST(DeviceCalls, BuffersMayLieAtAnyElement) {
  for (const auto& [algorithm, protocol] : {std::pair{"ring", Protocol::kSimple},
                                            {"ring", Protocol::kLL},
                                            {"ring", Protocol::kLL128},
                                            {"two_shot", Protocol::kDirect}}) {
    constexpr std::size_t kCount = 500;
    Pair pair(algorithm, protocol, kCount, {.type = DataType::kUint8});
    std::vector<std::byte> in[2], out[2];
    for (const std::size_t r : {0u, 1u}) {
      in[r].resize(kCount + 3), out[r].resize(kCount + 5);
      for (std::size_t i = 0; i < kCount; ++i) in[r][r + 1 + i] = static_cast<std::byte>(i * 7 + r);
      pair.job.frames()[r].in = in[r].data() + r + 1;
      pair.job.frames()[r].out = out[r].data() + 3 - r;
    }
    ASSERT_TRUE(pair.run());
    for (const std::size_t r : {0u, 1u})
      for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(out[r][3 - r + i], static_cast<std::byte>(i * 14 + 1)) << algorithm << " " << i;
  }
}

// A peer that never comes: nobody hangs, and the first to know says for whom it waited.
TEST(DeviceTrouble, AnAbsentPeerIsATimeout) {
  for (const auto& [algorithm, protocol] : {std::pair{"ring", Protocol::kSimple},
                                            {"ring", Protocol::kLL},
                                            {"one_shot", Protocol::kLL},
                                            {"ring", Protocol::kLL128},
                                            {"two_shot", Protocol::kDirect}}) {
    Pair pair(algorithm, protocol, 1000);
    pair.job.frames().resize(1);
    pair.job.frames()[0].timeout_ns = 50'000'000;
    ASSERT_FALSE(pair.run()) << algorithm;
    EXPECT_EQ(pair.job.header(0, 0).trouble, exec::device::Trouble::kTimeout) << algorithm;
    EXPECT_EQ(pair.job.header(0, 0).peer, 1) << algorithm;
    EXPECT_NE(pair.job.header(1, 0).stop, 0u) << algorithm << ": the others are stopped";
  }
}

TEST(DeviceTrouble, AnAbortEndsAWait) {
  Pair pair("ring", Protocol::kLL128, 1000);
  pair.job.frames().resize(1);
  pair.job.header(0, 0).stop = 1;
  ASSERT_FALSE(pair.run());
  EXPECT_EQ(pair.job.header(0, 0).trouble, exec::device::Trouble::kAborted);
}

TEST(DeviceTrouble, DifferentCallsAreAMismatch) {
  for (const auto& [algorithm, protocol] : {std::pair{"ring", Protocol::kSimple}, {"two_shot", Protocol::kDirect}}) {
    Pair pair(algorithm, protocol, 1000);
    pair.job.frames()[1].signature ^= 0xff;
    ASSERT_FALSE(pair.run()) << algorithm;
    const auto first = pair.job.header(0, 0).trouble, second = pair.job.header(1, 0).trouble;
    EXPECT_TRUE(first == exec::device::Trouble::kMismatch || second == exec::device::Trouble::kMismatch) << algorithm;
  }
}

TEST(DeviceProgram, WhatKernelsCannotDoIsRefused) {
  protocol::Operation part{
      .bytes = 8,
      .sources = protocol::End{},
      .destinations = protocol::End{.kind = protocol::End::Kind::kMessage, .last = false, .peer = 1}};
  const auto refused = [&](Protocol protocol) {
    const auto image = exec::device::flatten({{part}}, protocol, small(2));
    return image ? std::string() : image.error().message;
  };
  EXPECT_EQ(refused(Protocol::kSimple), "");
  EXPECT_EQ(refused(Protocol::kLL128), "kernels do not run messages in parts by protocols of lines");
  EXPECT_FALSE(exec::device::flatten(schedule::Program(9), Protocol::kSimple, small(2))) << "regions have 8 strands";
  part.destinations[0].kind = protocol::End::Kind::kMulticast;
  EXPECT_EQ(refused(Protocol::kSimple), "kernels do not run operations through switches");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Device, testing::Range(1, 9),
                         [](const auto& info) { return "On" + std::to_string(info.param); });

}  // namespace
}  // namespace weft
