#include "exec/recorder/recorder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "exec/recorder/json.h"
#include "exec/recorder/metrics.h"

namespace weft::recorder {
namespace {

std::unique_ptr<Recorder> recorder_of(const std::string& job, Rank rank = 0, Rank ranks = 1) {
  RecordPool alone(64);
  return Recorder::open({.job = job, .group = "world", .transport = "test", .rank = rank, .ranks = ranks}, alone);
}

std::vector<Snapshot> of_job(const std::string& job) {
  auto all = read_folder(own_folder().value(), 1000);
  std::erase_if(all, [&](const Snapshot& s) { return s.job != job; });
  return all;
}

std::string fresh_job() {
  static int number = 0;
  return "recorder-test-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

TEST(Recorder, OthersReadWhatARankHasDoneAndDoes) {
  const std::string job = fresh_job();
  const auto recorder = recorder_of(job, 1, 3);
  const auto sum = recorder->label({"all_reduce", "float", "ring", "Simple", 2, -1});
  const auto cast = recorder->label({"broadcast", "int32", "tree", "LL64", 1, 2});
  recorder->begin(1, 1000, sum);
  recorder->end(true);
  recorder->begin(2, 7, cast);
  const auto seen = of_job(job);
  ASSERT_EQ(seen.size(), 1u);
  const Snapshot& s = seen[0];
  EXPECT_EQ(s.rank, 1);
  EXPECT_EQ(s.ranks, 3);
  EXPECT_EQ(s.pid, getpid());
  EXPECT_EQ(s.process, Process::kRunning);
  ASSERT_EQ(s.operations.size(), 2u);
  EXPECT_EQ(s.operations[0].collective, "all_reduce");
  EXPECT_EQ(s.operations[0].count, 1000u);
  EXPECT_EQ(s.operations[0].state, State::kDone);
  EXPECT_GE(s.operations[0].finished, s.operations[0].started);
  EXPECT_EQ(s.operations[1].algorithm, "tree");
  EXPECT_EQ(s.operations[1].root, 2);
  EXPECT_EQ(s.operations[1].state, State::kRunning);
  EXPECT_TRUE(s.busy());
}

TEST(Recorder, ABriefOperationStartsWhenItWaitsOrAsItEnds) {
  const std::string job = fresh_job();
  const auto recorder = recorder_of(job);
  const auto label = recorder->label({"broadcast", "int32", "tree", "LL64", 1, 0});
  recorder->begin(1, 1, label, true);
  recorder->end(true);
  recorder->begin(2, 1, label, true);
  recorder->waits();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  recorder->waits();  // changes nothing
  recorder->end(true);
  recorder->begin(3, 1, label, true);
  const auto before = recorder->snapshot().taken;
  const auto operations = recorder->snapshot().operations;
  ASSERT_EQ(operations.size(), 3u);
  EXPECT_EQ(operations[0].started, operations[0].finished);
  EXPECT_GE(operations[1].finished - operations[1].started, 2'000'000);
  EXPECT_GE(operations[2].started, before - 1'000'000'000);  // now
  EXPECT_EQ(operations[2].finished, 0);
}

TEST(Recorder, AWaitForAMessageWithATagIsSeenUntilItEnds) {
  const std::string job = fresh_job();
  const auto recorder = recorder_of(job, 0, 4);
  recorder->begin_tagged(true);
  recorder->begin_tagged(false);
  recorder->begin_tagged(false);
  recorder->waits_for_tagged(false, 3, 7, 4096);
  const Snapshot waiting = recorder->snapshot();
  EXPECT_EQ(waiting.sends, 1u);
  EXPECT_EQ(waiting.receives, 2u);
  ASSERT_TRUE(waiting.tagged);
  EXPECT_EQ(waiting.tagged->text(), "a receive of 4096 B from rank 3 with tag 7");
  EXPECT_EQ(waiting.awaited(), 3);
  EXPECT_LE(waiting.tagged->since, waiting.taken);
  const auto json = to_json(waiting, "");
  EXPECT_EQ(json["tagged"]["receives"], 2);
  EXPECT_EQ(json["tagged"]["waits"]["peer"], 3);
  recorder->waits_no_more();
  EXPECT_FALSE(recorder->snapshot().tagged);
  recorder->waits_for_tagged(true, -1, -1, 0);
  EXPECT_EQ(recorder->snapshot().doing(), "a send of 0 B to any rank with any tag");
}

TEST(Recorder, TheRingKeepsTheLastOperations) {
  const std::string job = fresh_job();
  const auto recorder = recorder_of(job);
  const auto label = recorder->label({"barrier", "int8", "dissemination", "LL64", 1, -1});
  for (std::uint64_t n = 1; n <= 1000; ++n) {
    recorder->begin(n, n, label);
    recorder->end(true);
  }
  const Snapshot s = of_job(job).at(0);
  ASSERT_EQ(s.operations.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(s.operations[i].number, 1000 - 63 + i);
}

TEST(Recorder, TheRingGrowsBeforeItForgets) {
  const std::string job = fresh_job();
  RecordPool pool(512);
  const auto recorder = Recorder::open({.job = job, .group = "world", .transport = "test"}, pool);
  const auto label = recorder->label({"barrier", "int8", "dissemination", "LL64", 1, -1});
  for (std::uint64_t n = 1; n <= 1000; ++n) {
    recorder->begin(n, n, label);
    recorder->end(true);
    if (n != 31 && n != 32 && n != 63 && n != 64 && n != 200 && n != 511 && n != 512 && n != 1000) continue;
    const auto operations = of_job(job).at(0).operations;
    ASSERT_EQ(operations.size(), std::min<std::uint64_t>(n, 512)) << n;
    EXPECT_EQ(operations.front().number, n - operations.size() + 1);
    EXPECT_EQ(operations.back().number, n);
  }
}

TEST(Recorder, LabelsAreFoundAgainAndRunOutWithoutHarm) {
  const auto recorder = recorder_of(fresh_job());
  const auto label = [&](int channels) { return recorder->label({"all_reduce", "", "", "", channels, -1}); };
  const auto first = label(1);
  EXPECT_EQ(label(1), first);
  EXPECT_NE(label(2), first);
  for (int channels = 3; channels < 500; ++channels) EXPECT_LE(label(channels), static_cast<std::uint32_t>(kLabels));
  recorder->begin(1, 1, label(499));
  EXPECT_EQ(recorder->snapshot().operations.at(0).collective, "(other)");
  EXPECT_EQ(label(1), first);
}

// The files of this process: others keep records in the same folder at the same time.
std::vector<std::string> own_files() {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(own_folder().value()))
    if (file.path().filename().string().starts_with(std::to_string(getpid()) + "-")) files.push_back(file.path());
  return files;
}

TEST(Recorder, ARecordThatIsGivenUpLeavesNoFile) {
  const std::string job = fresh_job();
  {
    const auto recorder = recorder_of(job);
    EXPECT_EQ(own_files().size(), 1u);
  }
  EXPECT_TRUE(own_files().empty());
  EXPECT_TRUE(of_job(job).empty());
}

TEST(Recorder, ManyShareFewFilesAndPlacesAreUsedAgain) {
  const std::string job = fresh_job();
  RecordPool pool(64);
  const auto open = [&](int number) {
    auto recorder = Recorder::open({.job = job, .group = std::to_string(number), .transport = "test"}, pool);
    recorder->begin(1, 1, recorder->label({"barrier", "", "", "", number, -1}));
    return recorder;
  };
  std::vector<std::unique_ptr<Recorder>> all;
  for (int i = 0; i < 100; ++i) all.push_back(open(i));
  EXPECT_EQ(own_files().size(), 2u);  // of 64 places
  EXPECT_EQ(of_job(job).size(), 100u);
  for (int i = 0; i < 100; i += 2) all[static_cast<std::size_t>(i)].reset();
  EXPECT_EQ(of_job(job).size(), 50u);
  for (int i = 0; i < 100; i += 2) all[static_cast<std::size_t>(i)] = open(1000 + i);
  EXPECT_EQ(own_files().size(), 2u);
  for (const Snapshot& s : of_job(job)) {  // nothing is left of who was there before
    ASSERT_EQ(s.operations.size(), 1u);
    EXPECT_EQ(std::to_string(s.operations[0].channels), s.group);
  }
  all.clear();
  EXPECT_TRUE(own_files().empty());
}

TEST(Recorder, ThreadsShareAShelf) {
  const std::string job = fresh_job();
  RecordPool pool(64);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const auto one = Recorder::open({.job = job, .group = "a", .transport = "test", .rank = t}, pool);
        const auto other = Recorder::open({.job = job, .group = "b", .transport = "test", .rank = t}, pool);
        other->begin(1, 1, other->label({"barrier", "", "", "", t, -1}));
        EXPECT_EQ(other->snapshot().rank, t);
        EXPECT_EQ(one->snapshot().operations.size(), 0u);
      }
    });
  for (int i = 0; i < 50; ++i) EXPECT_LE(of_job(job).size(), 8u);
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(own_files().empty());
}

TEST(Recorder, ItsFolderAndFilesAreOfThisUserAlone) {
  const auto recorder = recorder_of(fresh_job());
  struct stat info {};
  ASSERT_EQ(stat(own_folder().value().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  const auto files = own_files();
  ASSERT_EQ(files.size(), 1u);
  ASSERT_EQ(stat(files[0].c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(Recorder, WhatIsNoRecordIsLeftAlone) {
  const std::string stray = own_folder().value() + "/stray-" + std::to_string(getpid());
  std::ofstream(stray) << "no record";
  EXPECT_TRUE(of_job("stray").empty());
  EXPECT_TRUE(std::filesystem::exists(stray));
  std::filesystem::remove(stray);
}

TEST(Recorder, AFileThatAKilledProcessHadNotFinishedIsSwept) {
  const std::string folder = own_folder().value();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const std::string dead = fmt::format("{}/{}-0123456789abcdef", folder, child);
  const std::string own = fmt::format("{}/{}-0123456789abcdef", folder, getpid());
  for (const std::string& path : {dead, own}) std::ofstream(path) << "";
  sweep(folder);
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(own));  // this process may be about to finish it
  unlink(own.c_str());
}

TEST(Recorder, SumsWhatOperationsOfOneKindCameTo) {
  const std::string job = fresh_job();
  const auto recorder = recorder_of(job);
  Label gathers{"all_gather", "float", "ring", "Simple", 2, -1, 4 * 8};  // 8 ranks give 4 bytes per element each
  const auto gather = recorder->label(gathers), barrier = recorder->label({"barrier", "", "", "", 1, -1});
  for (const auto& [number, label, well] : {std::tuple{1, gather, true}, {2, barrier, true}, {3, gather, false}}) {
    recorder->begin(static_cast<std::uint64_t>(number), 100, label);
    recorder->end(well);
  }
  recorder->begin(4, 100, gather);  // runs: not counted yet
  const auto sums = of_job(job).at(0).sums;
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].collective, "all_gather");
  EXPECT_EQ(sums[0].calls, 2u);
  EXPECT_EQ(sums[0].failed, 1u);
  EXPECT_EQ(sums[0].bytes, 2 * 100 * 32);
  EXPECT_GT(sums[0].seconds, 0);
  EXPECT_EQ(sums[1].bytes, 0);
}

TEST(Metrics, PrometheusTextHasOneSeriesPerRankAndKind) {
  const Snapshot s{.job = "a\"b",
                   .group = "world",
                   .transport = "shm",
                   .rank = 1,
                   .ranks = 2,
                   .pid = 7,
                   .sums = {{"all_reduce", "float", "ring", "Simple", 2, 3, 1, 4096, 0.5}},
                   .sends = 5};
  const std::string text = to_prometheus({s});
  const std::string who = R"(job="a\"b",communicator="world",transport="shm",rank="1",pid="7")";
  const std::string what = R"(,collective="all_reduce",type="float",algorithm="ring",protocol="Simple",channels="2")";
  EXPECT_NE(text.find("# TYPE weft_calls_total counter\nweft_calls_total{" + who + what + "} 3\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("weft_message_bytes_total{" + who + what + "} 4096\n"), std::string::npos);
  EXPECT_NE(text.find("weft_call_seconds_total{" + who + what + "} 0.5\n"), std::string::npos);
  EXPECT_NE(text.find("weft_tagged_messages_total{" + who + ",direction=\"send\"} 5\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE weft_rank_up gauge\n"), std::string::npos);
}

TEST(Metrics, OtlpHasCumulativeSumsWithTheirStart) {
  const Snapshot s{.job = "j",
                   .group = "world",
                   .transport = "shm",
                   .opened = 5,
                   .taken = 9,
                   .sums = {{"all_reduce", "float", "ring", "Simple", 2, 3, 0, 4096, 0.5}}};
  const auto metrics = to_otlp({s})["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
  EXPECT_EQ(metrics[0]["name"], "weft.calls");
  EXPECT_EQ(metrics[0]["sum"]["aggregationTemporality"], 2);
  EXPECT_EQ(metrics[0]["sum"]["isMonotonic"], true);
  const auto point = metrics[0]["sum"]["dataPoints"][0];
  EXPECT_EQ(point["asDouble"], 3.0);
  EXPECT_EQ(point["startTimeUnixNano"], "5");
  EXPECT_EQ(point["timeUnixNano"], "9");
  EXPECT_EQ(metrics[8]["gauge"]["dataPoints"][0]["asDouble"], 1.0);
}

TEST(Recorder, AWaitThatWasSaidLongAgoIsOver) {
  const std::string job = fresh_job();
  const auto recorder = recorder_of(job);
  recorder->begin(1, 1, recorder->label({"barrier", "", "", "", 1, -1}));
  recorder->waiting().peer = 1 + 5;
  recorder->waiting().said = ticks();
  EXPECT_EQ(of_job(job).at(0).wait->peer, 5);
  recorder->waiting().said = 1;  // since the machine was started
  EXPECT_FALSE(of_job(job).at(0).wait);
}

TEST(Recorder, LeavesARecordAsJson) {
  const auto recorder = recorder_of(fresh_job());
  recorder->begin(1, 3, recorder->label({"all_reduce", "float", "ring", "Simple", 1, -1}));
  recorder->end(false);
  const std::string path = leave_record(testing::TempDir(), recorder->snapshot(), "rank 1 has ended").value();
  std::ifstream in(path);
  const auto j = nlohmann::json::parse(in);
  std::filesystem::remove(path);
  EXPECT_EQ(j["schema"], "weft.record/1");
  EXPECT_EQ(j["error"], "rank 1 has ended");
  EXPECT_EQ(j["operations"][0]["state"], "failed");
  EXPECT_EQ(leave_record("/no/such/folder", recorder->snapshot(), "").error().code, Code::kSystem);
}

}  // namespace
}  // namespace weft::recorder
