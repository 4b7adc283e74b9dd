#include "apps/rehearsal/hints.h"

#include <gtest/gtest.h>

#include "apps/rehearsal/answer.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::rehearsal {
namespace {

cost::MachineView machine() {
  auto view = cost::shipped_view(topology::load_machine("dgx-h100").value());
  EXPECT_TRUE(view) << view.error().message;
  return std::move(*view);
}

// Two ranks that do the same, of a job of two.
Job job_of(const std::vector<std::string>& lines) {
  Job job;
  for (Rank rank : {0, 1}) {
    std::string text = fmt::format(R"({{"schema":"weft.rehearsal/1","rank":{},"world":2,"script":"train.py"}})", rank);
    text += "\n{\"kind\":\"group\",\"group\":1,\"ranks\":[0,1],\"line\":\"train.py:1\"}";
    for (const std::string& line : lines) text += "\n" + line;
    const Status added = add_recording(job, fmt::format("rank-{}.jsonl", rank), text + "\n{\"kind\":\"end\"}");
    EXPECT_TRUE(added) << added.error().message;
  }
  return job;
}

void call(std::vector<std::string>& lines, const std::string& op, std::int64_t count, std::int64_t bytes, int line) {
  const auto id = lines.size() + 1;
  lines.push_back(fmt::format(
      R"({{"kind":"call","id":{},"op":"{}","group":1,"count":{},"type":"float","bytes":{},"line":"train.py:{}"}})", id,
      op, count, bytes, line));
  lines.push_back(fmt::format(R"({{"kind":"wait","id":{},"line":"train.py:{}"}})", id, line));
}

Answer answered(const std::vector<std::string>& lines, const std::vector<std::string>& faults = {}) {
  const cost::MachineView on = machine();
  auto prices = Prices::of(on, faults);
  EXPECT_TRUE(prices) << prices.error().message;
  auto found = answer(job_of(lines), *prices);
  EXPECT_TRUE(found) << found.error().message;
  return *found;
}

std::vector<std::string> rules(const Answer& answer) {
  std::vector<std::string> all;
  for (const Hint& hint : answer.hints) all.push_back(hint.rule + " " + hint.line);
  return all;
}

TEST(Hints, ManySmallCallsOfOneLineCouldBeOneAndAreTooSmall) {
  std::vector<std::string> lines;
  for (int i = 0; i < 20; ++i) call(lines, "all_reduce", 16, 64, 7);
  const Answer found = answered(lines);
  EXPECT_EQ(rules(found), (std::vector<std::string>{"could_be_one train.py:7", "tiny_messages train.py:7"}));
  EXPECT_TRUE(found.outcome.findings.empty());
}

TEST(Hints, CallsWithWorkBetweenThemAreLeftAlone) {
  std::vector<std::string> lines;
  for (int i = 0; i < 20; ++i) {
    call(lines, "all_reduce", 1 << 20, 4 << 20, 7);
    lines.push_back(R"({"kind":"kernel","op":"add","class":"memory","bytes":1e9,"line":"train.py:9"})");
  }
  EXPECT_TRUE(rules(answered(lines)).empty());
}

TEST(Hints, AGroupThatIsMadeAndNeverUsedIsNamedWithItsLine) {
  std::vector<std::string> lines{R"({"kind":"group","group":2,"ranks":[1,0],"line":"train.py:3"})"};
  call(lines, "all_reduce", 1 << 20, 4 << 20, 7);
  EXPECT_EQ(rules(answered(lines)), std::vector<std::string>{"unused_group train.py:3"});
}

TEST(Hints, ShardsThatAreNoMultipleOfSixteenBytesAreNamed) {
  std::vector<std::string> lines;
  call(lines, "all_gather", 100001, 800008, 7);
  EXPECT_EQ(rules(answered(lines)), std::vector<std::string>{"unaligned train.py:7"});
}

TEST(Hints, ASlowRankComputesAsMuchLonger) {
  const std::vector<std::string> lines{
      R"({"kind":"kernel","op":"add","class":"memory","bytes":1e9,"line":"train.py:9"})"};
  const Answer whole = answered(lines), slow = answered(lines, {"rank:1=slow:2x"});
  EXPECT_DOUBLE_EQ(slow.outcome.ranks[0].compute, whole.outcome.ranks[0].compute);
  EXPECT_DOUBLE_EQ(slow.outcome.ranks[1].compute, 2 * whole.outcome.ranks[1].compute);
}

TEST(Hints, WhatMemoryHoldsAtItsPeakIsSummedByCategoryWithItsLargestModule) {
  const Answer found = answered({R"({"kind":"held","category":"activations","module":"blocks.0","bytes":100})",
                                 R"({"kind":"held","category":"activations","module":"blocks.1","bytes":300})",
                                 R"({"kind":"held","category":"parameters","module":"","bytes":200})",
                                 R"({"kind":"memory","allocated":600,"reserved":2097152,"line":"train.py:4"})"});
  ASSERT_EQ(found.held.size(), 2u);
  EXPECT_EQ(found.held[0].category, "activations");
  EXPECT_EQ(found.held[0].bytes, 400);
  EXPECT_EQ(found.held[0].module, "blocks.1");
}

}  // namespace
}  // namespace weft::rehearsal
