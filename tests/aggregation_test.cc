// Collectives for networks whose switches sum, with a node in software in place of the switch: right results, the same
// bits as without it, and failures that are named although ranks know each other only through the node.

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <signal.h>

#include <cstring>
#include <thread>

#include "tests/connected_job.h"
#include "weft/low_precision.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using tests::ConnectedJob;
using tests::NoticeBoard;
using tests::Report;

constexpr Rank kRanks = 6;  // two on each of three machines

class Aggregation : public testing::TestWithParam<std::string> {
 protected:
  ConnectOptions options(bool aggregation, std::chrono::milliseconds timeout = 60s) const {
    return {.transport = GetParam() == "tcp" ? "tcp" : "",
            .node = "machine",
            .aggregation = aggregation,
            .timeout = timeout};
  }
};

INSTANTIATE_TEST_SUITE_P(Over, Aggregation, testing::Values("tcp", "mixed"),
                         [](const auto& info) { return info.param; });

// The bits of all results, as one number; or what went wrong.
std::string digest_of_sums(Communicator& comm, Report&, NoticeBoard&) {
  std::size_t digest = 0;
  for (const char* algorithm : {"collnet_chain", "collnet_direct"})
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kInt32})
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kPremulSum})
        for (const std::size_t count : {0, 1, 1001, 300001}) {
          std::vector<std::byte> in(count * static_cast<std::size_t>(size_of(type))), out(in.size());
          for (std::size_t i = 0; i < count; ++i) {
            const auto value =
                static_cast<float>(static_cast<int>(i * 37 % 1001) - 500) / 7 * static_cast<float>(comm.rank() + 1);
            if (type == DataType::kFloat32) std::memcpy(&in[4 * i], &value, 4);
            if (type == DataType::kInt32)
              reinterpret_cast<std::int32_t*>(in.data())[i] = static_cast<std::int32_t>(value);
            if (type == DataType::kFloat16) reinterpret_cast<Float16*>(in.data())[i] = Float16(value);
          }
          const Status s = comm.run(
              {.in = in.data(),
               .out = out.data(),
               .count = count,
               .type = type,
               .op = op,
               .scalar = op == ReduceOp::kPremulSum ? std::optional(Scalar::of(comm.rank() + 2)) : std::nullopt,
               .algorithm = algorithm});
          if (!s) return s.error().message;
          const std::string_view bits(reinterpret_cast<const char*>(out.data()), out.size());
          digest = digest * 31 + std::hash<std::string_view>{}(bits);
        }
  return std::to_string(digest);
}

TEST_P(Aggregation, GivesTheBitsThatMessagesGive) {
  const std::vector<std::string> summed = ConnectedJob(kRanks, options(true), digest_of_sums).join();
  const std::vector<std::string> sent = ConnectedJob(kRanks, options(false), digest_of_sums).join();
  EXPECT_EQ(summed, sent);
  for (const std::string& said : summed) EXPECT_EQ(said, summed[0]);
  EXPECT_EQ(summed[0].find_first_not_of("0123456789"), std::string::npos) << summed[0];
}

// A call by the node; empty, or why it failed.
std::string sum(Communicator& comm, std::size_t count) {
  std::vector<float> in(count, 1), out(count);
  const Status s = comm.run({.in = in.data(), .out = out.data(), .count = count, .algorithm = "collnet_chain"});
  if (!s) return s.error().message;
  return out == std::vector<float>(count, kRanks) ? "" : "wrong sum";
}

TEST_P(Aggregation, ADeadRankIsNamedThroughTheNode) {
  for (const Rank victim : {0, 4}) {
    ConnectedJob job(kRanks, options(true), [](Communicator& c, Report& report, NoticeBoard&) {
      for (int i = 0;; ++i) {
        if (std::string wrong = sum(c, 50000); !wrong.empty()) return wrong;
        if (i == 3) report.say("running ");
      }
    });
    job.await_running();
    job[victim].send(SIGKILL);
    const auto said = job.join({victim});
    for (Rank r = 0; r < kRanks; ++r)
      if (r != victim) {
        EXPECT_NE(said[static_cast<std::size_t>(r)].find(fmt::format("rank {} ", victim)), std::string::npos)
            << "rank " << r << ": " << said[static_cast<std::size_t>(r)];
      }
  }
}

// (Where machines share memory, a rank that waits for its neighbour there blames that one.)
TEST_P(Aggregation, ARankThatDoesNotComeIsNamed) {
  if (GetParam() != "tcp") GTEST_SKIP() << "blame stays on the side where the wait began";
  constexpr Rank kLate = 2;  // the head of its machine
  ConnectedJob job(kRanks, options(true, 2s), [](Communicator& c, Report&, NoticeBoard&) {
    if (std::string wrong = sum(c, 10); !wrong.empty()) return wrong;
    if (c.rank() == kLate) std::this_thread::sleep_for(4s);
    return sum(c, 10);
  });
  const auto said = job.join();
  EXPECT_NE(said[4].find("rank 2 "), std::string::npos) << said[4];
  EXPECT_NE(said[5].find("rank 2 "), std::string::npos) << said[5];
}

TEST_P(Aggregation, DifferentCallsAreAMismatch) {
  ConnectedJob job(kRanks, options(true, 20s), [](Communicator& c, Report&, NoticeBoard&) {
    const std::string before = sum(c, 10);  // otherwise some would be gone before others have connected
    return before.empty() ? sum(c, c.rank() / 2 == 1 ? 1000 : 2000) : before;  // a whole machine
  });
  for (const std::string& said : job.join()) EXPECT_NE(said.find(" called "), std::string::npos) << said;
}

TEST_P(Aggregation, GroupsOfTheJobGoOnWithoutTheNode) {
  ConnectedJob job(kRanks, options(true), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    auto half = c.split(c.rank() % 2, c.rank());
    if (!half) return half.error().message;
    const std::string wrong = tests::reduce_and_check(*half);
    return wrong.empty() ? sum(c, 100) : wrong;
  });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace weft
