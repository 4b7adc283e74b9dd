#include <gtest/gtest.h>

#include "apps/rehearsal/kinds.h"
#include "apps/rehearsal/run.h"

namespace weft::rehearsal {
namespace {

// Recordings are written by hand; every rank has the groups 1 (all ranks) and, if asked, more.
struct Script {
  Rank world = 2;
  std::vector<std::string> groups = {};  // members, "0,1"
  std::map<Rank, std::vector<std::string>> events = {};
  bool ends = true;

  Job job() const {
    Job job;
    for (const auto& [rank, lines] : events) {
      std::string text =
          fmt::format(R"({{"schema":"weft.rehearsal/1","rank":{},"world":{},"script":"train.py"}})", rank, world);
      std::string all;
      for (Rank r = 0; r < world; ++r) all += fmt::format("{}{}", r > 0 ? "," : "", r);
      int number = 0;
      text +=
          fmt::format("\n{{\"kind\":\"group\",\"group\":{},\"ranks\":[{}],\"line\":\"train.py:1\"}}", ++number, all);
      for (const std::string& members : groups)
        text += fmt::format("\n{{\"kind\":\"group\",\"group\":{},\"ranks\":[{}],\"line\":\"train.py:2\"}}", ++number,
                            members);
      for (const std::string& line : lines) text += "\n" + line;
      if (ends && text.find("\"end\"") == std::string::npos) text += "\n{\"kind\":\"end\"}";
      const Status added = add_recording(job, fmt::format("rank-{}.jsonl", rank), text);
      EXPECT_TRUE(added) << added.error().message;
    }
    return job;
  }
};

// A call that the compute stream waits for at once, as torch.distributed's without async_op.
void call(std::vector<std::string>& events, const std::string& op, int group, int count, int line,
          const std::string& more = "") {
  const auto id = events.size() + 1;
  events.push_back(fmt::format(
      R"({{"kind":"call","id":{},"op":"{}","group":{},"count":{},"type":"float","bytes":{},"line":"train.py:{}"{}}})",
      id, op, group, count, 4 * count, line, more));
  events.push_back(fmt::format(R"({{"kind":"wait","id":{},"line":"train.py:{}"}})", id, line));
}

std::string kernel(int bytes, int stream = 0) {
  return fmt::format(R"({{"kind":"kernel","op":"mm","class":"memory","bytes":{},"stream":{},"line":"train.py:9"}})",
                     bytes, stream);
}

// A call takes a second, a kernel a second per byte.
Outcome run_of(const Script& script) {
  const Job job = script.job();
  auto outcome = run(job, {[](const Call&, const std::vector<Rank>&, Rank) { return Result<double>(1.0); },
                           [](const Kernel& k, Rank) { return k.bytes; }});
  EXPECT_TRUE(outcome) << outcome.error().message;
  return *outcome;
}

std::string only_finding(const Outcome& outcome, const std::string& rule) {
  EXPECT_EQ(outcome.findings.size(), 1u);
  if (outcome.findings.empty()) return "";
  EXPECT_EQ(outcome.findings[0].rule, rule);
  return outcome.findings[0].text;
}

TEST(Rehearsal, RanksThatMakeTheSameCallsHaveNoFindingAndWaitForTheLastOne) {
  Script script;
  script.events[0].push_back(kernel(2));
  script.events[1].push_back(kernel(5));
  for (Rank r : {0, 1}) call(script.events[r], "all_reduce", 1, 4, 7);
  const Outcome outcome = run_of(script);
  EXPECT_TRUE(outcome.findings.empty());
  EXPECT_DOUBLE_EQ(outcome.ranks[0].total, 6);    // 5 s until rank 1 comes, 1 s for the call
  EXPECT_DOUBLE_EQ(outcome.ranks[0].exposed, 4);  // from 2 s to 6 s
  EXPECT_DOUBLE_EQ(outcome.ranks[1].exposed, 1);
}

TEST(Rehearsal, ACallWhoseWaitComesLaterIsHiddenBehindKernels) {
  Script script;
  for (Rank r : {0, 1})
    script.events[r] = {
        R"({"kind":"call","id":1,"op":"all_reduce","group":1,"count":4,"type":"float","bytes":16,"line":"train.py:5"})",
        kernel(3), R"({"kind":"wait","id":1,"line":"train.py:6"})"};
  const Outcome outcome = run_of(script);
  EXPECT_DOUBLE_EQ(outcome.ranks[0].total, 3);
  EXPECT_DOUBLE_EQ(outcome.ranks[0].exposed, 0);
}

TEST(Rehearsal, AnotherStreamsCallIsExposedOnlyThroughTheEventThatTheComputeStreamWaitsFor) {
  Script script;
  for (Rank r : {0, 1})
    script.events[r] = {
        R"({"kind":"call","id":1,"op":"all_gather","group":1,"count":4,"type":"float","bytes":32,"stream":2,"line":"train.py:5"})",
        R"({"kind":"wait","id":1,"stream":2,"line":"train.py:5"})",
        kernel(2, 2),
        R"({"kind":"record","event":8,"stream":2})",
        kernel(1),
        R"({"kind":"wait_event","event":8,"stream":0})",
        kernel(1)};
  const Outcome outcome = run_of(script);
  EXPECT_DOUBLE_EQ(outcome.ranks[0].total, 4);    // 1 s call, 2 s kernel on stream 2, 1 s kernel
  EXPECT_DOUBLE_EQ(outcome.ranks[0].exposed, 2);  // from 1 s to 3 s
  const auto& site = outcome.ranks[0].sites.at({"train.py:5", "all_gather"});
  EXPECT_DOUBLE_EQ(site.exposed, 2);
}

TEST(Rehearsal, AnotherShapeOnOneRankIsAMismatchWithBothLines) {
  Script script;
  call(script.events[0], "all_reduce", 1, 4, 7);
  call(script.events[1], "all_reduce", 1, 5, 8);
  EXPECT_EQ(only_finding(run_of(script), "mismatch"),
            "ranks disagree: rank 0 at train.py:7 calls all_reduce of 4 float, rank 1 at train.py:8 calls all_reduce "
            "of 5 float");
}

TEST(Rehearsal, ASkippedCallIsTheFirstDifferenceAndWhatFollowsFromItIsNotReported) {
  Script script;
  call(script.events[0], "all_reduce", 1, 4, 7);
  for (Rank r : {0, 1}) call(script.events[r], "broadcast", 1, 4, 9, R"(,"root":0)");
  EXPECT_EQ(only_finding(run_of(script), "mismatch"),
            "ranks disagree: rank 0 at train.py:7 calls all_reduce of 4 float, rank 1 at train.py:9 calls broadcast of "
            "4 float (root 0)");
}

TEST(Rehearsal, OfAnInnocentMemberNothingIsSaidAfterTheFirstDifference) {
  Script script{.world = 4};
  call(script.events[0], "broadcast", 1, 4, 6, R"(,"root":0)");
  for (Rank r : {0, 1, 2, 3}) call(script.events[r], "all_reduce", 1, 4, 7);
  only_finding(run_of(script), "mismatch");
}

TEST(Rehearsal, ALastCallThatAMemberNeverMakesIsNamedWithThatMembersLastCall) {
  Script script;
  for (Rank r : {0, 1}) call(script.events[r], "all_reduce", 1, 4, 7);
  call(script.events[0], "all_reduce", 1, 4, 9);
  EXPECT_EQ(only_finding(run_of(script), "missing_call"),
            "rank 0 at train.py:9 calls all_reduce of 4 float, rank 1 never makes this call: its last is all_reduce of "
            "4 float at train.py:7");
}

TEST(Rehearsal, TwoGroupsInDifferentOrderAreACircleOfWaits) {
  Script script{.groups = {"0,1"}};
  call(script.events[0], "all_reduce", 1, 4, 5);
  call(script.events[0], "all_reduce", 2, 4, 6);
  call(script.events[1], "all_reduce", 2, 4, 8);
  call(script.events[1], "all_reduce", 1, 4, 9);
  EXPECT_EQ(only_finding(run_of(script), "deadlock"),
            "ranks wait for each other in a circle: rank 0 at train.py:5 waits in all_reduce of 4 float for rank 1; "
            "rank 1 at train.py:8 waits in all_reduce of 4 float for rank 0");
}

TEST(Rehearsal, ACircleIsReportedWhereItBeganNotWhereTheHostWaitsLater) {
  Script script{.groups = {"0,1"}};
  for (Rank r : {0, 1}) {
    call(script.events[r], "all_reduce", r == 0 ? 1 : 2, 4, 5);
    call(script.events[r], "all_reduce", r == 0 ? 2 : 1, 4, 6);
    script.events[r].push_back(R"({"kind":"call","id":90,"op":"barrier","group":1,"host":true,"line":"train.py:7"})");
    script.events[r].push_back(R"({"kind":"wait","id":90,"host":true,"line":"train.py:7"})");
  }
  const Outcome outcome = run_of(script);
  only_finding(outcome, "deadlock");
  EXPECT_EQ(outcome.findings.at(0).places.at(0).line, "train.py:5");
}

TEST(Rehearsal, ASendWithoutAReceiveIsFound) {
  Script script;
  call(script.events[0], "send", 1, 4, 5, R"(,"peer":1)");
  script.events[1].push_back(kernel(1));
  EXPECT_EQ(
      only_finding(run_of(script), "unmatched_message"),
      "rank 0 at train.py:5 calls send of 4 float to rank 1, rank 1 never receives it: it makes no call of this group");
}

TEST(Rehearsal, TwoRanksThatBothSendFirstWaitForEachOtherButNotInOneBatchAndNotOnTheHost) {
  for (const std::string batch : {"", R"(,"batch":3)", R"(,"host":true)"}) {
    Script script;
    for (Rank r : {0, 1})
      for (const char* op : {"send", "recv"})
        script.events[r].push_back(fmt::format(
            R"({{"kind":"call","id":{},"op":"{}","group":1,"count":4,"type":"float","bytes":16,"peer":{},"line":"train.py:{}"{}}})",
            op[0] == 's' ? 1 : 2, op, 1 - r, op[0] == 's' ? 5 : 6, batch));
    for (Rank r : {0, 1})
      for (int id : {1, 2})
        script.events[r].push_back(fmt::format(R"({{"kind":"wait","id":{},"line":"train.py:7"}})", id));
    const Outcome outcome = run_of(script);
    if (batch.empty())
      EXPECT_EQ(only_finding(outcome, "deadlock").substr(0, 40), "ranks wait for each other in a circle: r");
    else
      EXPECT_TRUE(outcome.findings.empty());
  }
}

TEST(Rehearsal, AnErrorOfTheScriptIsAFindingAndHidesTheWaitsThatFollowFromIt) {
  Script script;
  for (Rank r : {0, 1}) script.events[r].push_back(kernel(1));
  call(script.events[0], "all_reduce", 1, 4, 7);
  script.events[1].push_back(R"({"kind":"end","error":"ValueError: no","line":"train.py:6"})");
  EXPECT_EQ(only_finding(run_of(script), "error"), "rank 1 at train.py:6: ValueError: no");
}

TEST(Rehearsal, UnevenExchangesAgreeIfWhatIsSentIsWhatIsExpected) {
  for (const int expected : {3, 2}) {
    Script script;
    call(script.events[0], "all_to_all", 1, 4, 5, R"(,"sends":[1,3],"receives":[1,2])");
    call(script.events[1], "all_to_all", 1, 4, 5, fmt::format(R"(,"sends":[2,2],"receives":[{},2])", expected));
    const Outcome outcome = run_of(script);
    EXPECT_EQ(outcome.findings.size(), expected == 3 ? 0u : 1u);
  }
}

TEST(Rehearsal, TheLastStepIsBetweenTwoStepsOfOneOptimizer) {
  Script script;
  for (const int bytes : {7, 3, 2}) {
    script.events[0].push_back(kernel(bytes));
    script.events[0].push_back(R"({"kind":"step","line":"train.py:20"})");
  }
  EXPECT_DOUBLE_EQ(run_of(script).ranks[0].step, 2);
}

// 2 stages x 4 replicas: messages along {0,4}, …; all-reduces along {0,1,2,3} and {4,5,6,7}.
TEST(Kinds, RanksAtOneStageOfAPipelineAreOfOneKind) {
  Script script{.world = 8, .groups = {"0,4", "1,5", "2,6", "3,7", "0,1,2,3", "4,5,6,7"}};
  call(script.events[0], "send", 2, 4, 5, R"(,"peer":4)");
  call(script.events[0], "all_reduce", 6, 4, 6);
  const Job job = script.job();
  const std::vector<RankKind> kinds = kinds_of(job);
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0].ranks, (std::vector<Rank>{0, 1, 2, 3}));
  EXPECT_EQ(missing(job), std::vector<Rank>{4});
}

TEST(Recording, BadFilesAreNamedWithLineAndValue) {
  const std::string head = R"({"schema":"weft.rehearsal/1","rank":0,"world":2,"script":"train.py"})";
  const auto said = [](const std::string& text) {
    Job job;
    const Status added = add_recording(job, "r.jsonl", text);
    return added ? "" : added.error().message;
  };
  EXPECT_EQ(said("{}"), "r.jsonl:1: no weft.rehearsal/1");
  EXPECT_EQ(said(""), "r.jsonl: no weft.rehearsal/1");
  EXPECT_EQ(said(head + "\nnonsense"), "r.jsonl:2: no JSON object");
  EXPECT_EQ(said(head + "\n{\"kind\":\"dance\"}"), "r.jsonl:2: no event of weft.rehearsal/1 is called 'dance'");
  EXPECT_EQ(said(head + "\n{\"kind\":\"call\",\"op\":\"all_reduce\",\"group\":3}"),
            "r.jsonl:2: 'group' is 3: no group of this file has that number");
  EXPECT_EQ(said(head + "\n{\"kind\":\"group\",\"group\":1,\"ranks\":[0,2]}"),
            "r.jsonl:2: 'ranks' is [0,2]: there are ranks 0 to 1");
  EXPECT_EQ(said(head + "\n{\"kind\":\"kernel\",\"bytes\":\"many\"}"),
            "r.jsonl:2: 'bytes' is \"many\": it is a number");
}

TEST(Rehearsal, ARecordingWithoutItsEndIsAFinding) {
  Script script;
  script.ends = false;
  script.events[0].push_back(kernel(2));
  script.events[1].push_back(kernel(2));
  const Outcome outcome = run_of(script);
  ASSERT_EQ(outcome.findings.size(), 2u);
  EXPECT_EQ(outcome.findings[0].text, "rank 0: its recording has no end: the rank was killed, or the file is cut");
}

TEST(Rehearsal, WhatARecordingCannotHaveIsNamedWithItsLineAndValue) {
  const auto said = [](const std::string& line) {
    Job job;
    const std::string text =
        "{\"schema\":\"weft.rehearsal/1\",\"rank\":0,\"world\":4}\n"
        "{\"kind\":\"group\",\"group\":1,\"ranks\":[0,1,2,3]}\n"
        "{\"kind\":\"call\",\"id\":7,\"op\":\"barrier\",\"group\":1}\n" +
        line + "\n{\"kind\":\"end\"}\n";
    const Status added = add_recording(job, "r.jsonl", text);
    return added ? std::string() : added.error().message;
  };
  const auto call = [&](const std::string& rest) {
    return said("{\"kind\":\"call\",\"id\":8,\"group\":1" + rest + "}");
  };
  EXPECT_EQ(call(R"(,"op":"all_reduce","type":"float","count":10,"bytes":40)"), "");
  EXPECT_EQ(call(R"(,"op":"all_gather","type":"float8_e4m3fnuz","count":10,"bytes":40)"), "");
  EXPECT_EQ(call(R"(,"op":"frobnicate")"),
            "r.jsonl:4: 'op' is \"frobnicate\": no operation of torch.distributed is called so");
  EXPECT_EQ(call(R"(,"op":"all_reduce","type":"foo8","count":10,"bytes":40)"),
            "r.jsonl:4: 'type' is \"foo8\": no type of elements is called so");
  EXPECT_EQ(call(R"(,"op":"all_reduce","type":"float","bytes":40)"),
            "r.jsonl:4: 'count' is missing: the elements of this rank");
  EXPECT_EQ(call(R"(,"op":"all_reduce","type":"float","count":10,"bytes":1099511627776)"),
            "r.jsonl:4: 'bytes' is 1099511627776: 10 float of 4 members have 40 to 160");
  EXPECT_EQ(call(R"(,"op":"barrier","host":0)"), "r.jsonl:4: 'host' is 0: it is true or false");
  EXPECT_EQ(said(R"({"kind":"call","id":7,"op":"barrier","group":1})"),
            "r.jsonl:4: 'id' is 7: another call of this file has that number");
  EXPECT_EQ(said("{\"kind\":\"end\"}"), "r.jsonl:5: a line after the recording's end");
  EXPECT_EQ(said(R"({"kind":"wait","id":9})"), "r.jsonl:4: 'id' is 9: no call before this line has that number");
  EXPECT_EQ(said(R"({"kind":"group","group":2,"ranks":[0,0,1]})"),
            "r.jsonl:4: 'ranks' is [0,0,1]: a rank is a member once");
  EXPECT_EQ(said(R"({"kind":"group","group":2,"ranks":[0,99]})"),
            "r.jsonl:4: 'ranks' is [0,99]: there are ranks 0 to 3");
  EXPECT_EQ(
      said(R"({"kind":"kernel","class":"wizard"})"),
      "r.jsonl:4: 'class' is \"wizard\": one of gemm, attention, attention_backward, flops, memory, fixed and idle");
  EXPECT_EQ(said(R"({"kind":"kernel","class":"gemm","m":8192,"n":8192,"k":8192,"flops":1e9})"),
            "r.jsonl:4: 'flops' is 1000000000.0: m, n, k and groups give 1.09951e+12");
  EXPECT_EQ(said(R"({"kind":"kernel","class":"flops","flops":-1})"), "r.jsonl:4: 'flops' is -1: it is 0 or more");
}

}  // namespace
}  // namespace weft::rehearsal
