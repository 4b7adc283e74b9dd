// A rank whose memory ends in the middle of any call gets an error, and the others learn of it: nobody ends by
// std::terminate, nobody waits out a timeout.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "net/ucx/ucx.h"
#include "tests/connected_job.h"
#include "tests/scarce_memory.h"

namespace weft::tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr Rank kRanks = 3, kPoor = 1;

// A Program is the list of calls that each rank makes; its first error ends it.
class Program {
 public:
  explicit Program(Communicator& job) : job_(&job) {}
  static constexpr int kCalls = 8;

  Status call(int number) {
    Communicator& c = *job_;
    const Rank next = (c.rank() + 1) % c.ranks(), before = (c.rank() + c.ranks() - 1) % c.ranks();
    switch (number) {
      case 0:
        return sum(c);
      case 1: {
        using enum Transfer::Direction;
        const Transfer both[] = {{kSend, next, in_.data(), 100, DataType::kInt32},
                                 {kReceive, before, out_.data(), 100, DataType::kInt32}};
        return c.exchange(both);
      }
      case 2: {
        auto received = c.start_receive(out_.data(), 1000, DataType::kInt32, before, 7);
        if (!received) return tl::make_unexpected(received.error());
        Status sent = c.send(in_.data(), 1000, DataType::kInt32, next, 7);
        return sent ? without_value(received->wait()) : sent;
      }
      case 3: {
        auto child = c.split(0, c.rank());
        if (child) child_.emplace(std::move(*child));
        return without_value(child);
      }
      case 4:
        return sum(*child_);
      case 5:
        return without_value(c.agree(1));
      case 6:
        return c.barrier();
      default:
        return c.finalize();
    }
  }

 private:
  template <class T>
  static Status without_value(const Result<T>& result) {
    return result ? Status{} : tl::make_unexpected(result.error());
  }
  Status sum(Communicator& c) {
    Status done = c.all_reduce<std::int32_t>(in_, out_);
    if (done && std::ranges::any_of(out_, [&](std::int32_t x) { return x != c.ranks(); }))
      return tl::make_unexpected(Error{.message = "a wrong sum"});
    return done;
  }

  Communicator* job_;
  std::optional<Communicator> child_;
  std::vector<std::int32_t> in_ = std::vector<std::int32_t>(5000, 1), out_ = std::vector<std::int32_t>(5000);
};

// What a rank has lived through: empty, or what is wrong with it.
std::string live(Communicator& job, int poor_from, std::size_t bytes) {
  const bool poor = job.rank() == kPoor;
  Program program(job);
  // All have connected then; the poor one may be ahead.
  if (const Status met = job.barrier(); !met) return met.error().ranks == std::vector{kPoor} ? "" : met.error().message;
  const auto begin = Clock::now();
  Status last;
  int number = 0;
  for (; number < Program::kCalls && last; ++number) {
    if (poor && number == poor_from) leave_memory(bytes);
    last = program.call(number);
  }
  give_memory_back();
  const auto took = Clock::now() - begin;
  if (took > 15s) return fmt::format("call {} took {} s", number - 1, took / 1s);
  if (last) return "";
  const Error& e = last.error();
  if (poor && number <= poor_from) return fmt::format("call {} failed before: {}", number - 1, e.message);
  // Another rank may have read of it in the inner group, and have ended.
  const bool other = e.message.find("has left") != e.message.npos || e.message.find("has ended") != e.message.npos ||
                     e.code == Code::kNoQuorum;
  if (poor ? e.code != Code::kNoResources : e.ranks != std::vector{kPoor} && !(other && number > 4))
    return fmt::format("call {}: names {}: {}", number - 1, e.ranks, e.message);
  return "";
}

class MemoryEnds : public testing::TestWithParam<const char*> {};

TEST_P(MemoryEnds, InAnyCallIsAnErrorThatEverybodyReads) {
  const std::string over = GetParam();
  if (over == "ucx" && !net::ucx::available()) GTEST_SKIP() << "no UCX here";
  ConnectOptions options{.timeout = 30s};
  if (over == "mixed")
    options.node = "machine";
  else
    options.transport = over;
  for (int from = 0; from < Program::kCalls; ++from)
    for (std::size_t bytes = 0; bytes < 40000; bytes = bytes * 2 + 50) {
      ConnectedJob job(kRanks, options, [&](Communicator& c, Report&, NoticeBoard&) { return live(c, from, bytes); });
      for (const std::string& said : job.join())
        EXPECT_EQ(said, "") << "from call " << from << " on " << bytes << " bytes were left";
    }
}

INSTANTIATE_TEST_SUITE_P(Over, MemoryEnds, testing::Values("shm", "tcp", "mixed", "ucx"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft::tests
