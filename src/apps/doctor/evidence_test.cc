#include "apps/doctor/evidence.h"

#include <gtest/gtest.h>

#include "apps/doctor/causes.h"
#include "apps/doctor/diagnosis.h"
#include "apps/doctor/line.h"
#include "apps/doctor/tables.h"
#include "apps/doctor/trouble.h"

namespace weft::doctor {
namespace {

report::DoctorReport of(const std::string& text) {
  Evidence evidence(*shipped_rules());
  evidence.add_text("log", text);
  evidence.finish();
  return diagnose(evidence);
}

TEST(Line, TimesOfAllFormatsAreOneMoment) {
  const double iso = moment_of("[2025-01-06 10:00:01.500] n1:1:2 [0] NCCL WARN x")->seconds;
  EXPECT_DOUBLE_EQ(moment_of("2025-01-06T12:00:01.500+02:00 n1")->seconds, iso);
  EXPECT_DOUBLE_EQ(moment_of("[Mon Jan  6 10:00:01 2025] NVRM: Xid")->seconds, iso - 0.5);
  for (const char* without_year : {"Jan  6 10:00:01 n1 kernel: x", "[rank0]:[E106 10:00:01.500200 Process.cpp:1] x"}) {
    const auto m = moment_of(without_year);
    ASSERT_TRUE(m) << without_year;
    EXPECT_FALSE(m->has_year);
    EXPECT_NEAR(with_year(*m, 2025).seconds, iso, 1) << without_year;
  }
  EXPECT_FALSE(moment_of("step 10 of 2025 took 10:00 minutes"));
  EXPECT_FALSE(moment_of("[2025-13-06 10:00:01] no such month"));
}

TEST(Line, LaunchersNameRankAndHost) {
  EXPECT_EQ(strip_launcher("12: n1:1:2 [0] NCCL").rank, 12);
  EXPECT_EQ(strip_launcher("[1,3]<stdout>:text").rank, 3);
  EXPECT_EQ(strip_launcher("[rank7]: Traceback").rank, 7);
  const Line ray = strip_launcher("\x1b[36m(Worker pid=7, ip=10.0.0.1)\x1b[0m [rank2]: KeyError: 'x'");
  EXPECT_EQ(ray.text, "KeyError: 'x'");
  EXPECT_EQ(ray.host, "10.0.0.1");
  EXPECT_EQ(ray.rank, 2);
  EXPECT_EQ(strip_launcher("10:30:00 is a time").rank, -1);
}

// Host b's clock is 100 s ahead: both ends of the start say so. Its error comes second by its own clock, first in
// truth.
TEST(Clocks, ErrorsAreOrderedByTimesThatAllHostsAgreeOn) {
  std::string text;
  for (const char* comm : {"0x1", "0x2"})
    for (const auto& [host, minute] : {std::pair{"a", "00"}, {"b", "01"}, {"c", "00"}})
      text += std::string("[2025-01-06 10:") + minute + (host[0] == 'b' ? ":40] " : ":00] ") + host +
              ":1:2 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 3 cudaDev 0 commId " + comm +
              " - Init COMPLETE\n";
  text += "[2025-01-06 10:10:10] a:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with error 12, x\n";
  text += "[2025-01-06 10:11:40] b:1:2 [0] NCCL WARN Message truncated : received 8 bytes instead of 4\n";
  const auto report = of(text);
  ASSERT_EQ(report.roots.size(), 2u);
  EXPECT_EQ(report.roots[0].id, "F055");  // 10:10:00 by the others' clocks
  ASSERT_FALSE(report.folded.empty());
  EXPECT_EQ(report.folded[0].id, "F090");
  EXPECT_NE(report.folded[0].evidence[0].text.find("clock of b is 100.0 s ahead"), std::string::npos);
}

TEST(Evidence, LogsOfTwoJobsAreSaidInOneSentence) {
  std::string text;
  for (const char* host : {"a", "b"})
    text +=
        std::string(host) + ":1:2 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 8 commId 0x1 - Init COMPLETE\n";
  const auto report = of(text);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("logs of 2 jobs or attempts are mixed"), std::string::npos);
}

TEST(Evidence, ThePeersHostIsKnownFromItsOwnLog) {
  const auto report =
      of("gpu2:1:2 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.2<0>\n"
         "gpu1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<41234> with status=12 opcode=0\n");
  ASSERT_EQ(report.roots.size(), 1u);
  EXPECT_EQ(report.roots[0].peer, "10.0.0.2 (gpu2)");
}

// A progress bar's carriage returns hide no error behind them.
TEST(Evidence, CarriageReturnsEndLines) {
  EXPECT_EQ(of(std::string(10'000, '#') + "\r[rank0]: torch.OutOfMemoryError: CUDA out of memory.\n").roots.size(), 1u);
}

TEST(Tables, RowsOfNcclTestsOldAndNewOfOsuAndOfWeftAreRead) {
  const auto table = read_table(
      "user@n1:~$ mpirun ./all_gather_perf -b 1M -g 2\n# nThread 1 nGpus 2 minBytes 8\n"
      "#  Rank  0 Group  0 Pid 4711 on  node1 device  0 [0x1b] NVIDIA H100 80GB HBM3\n"
      "     1048576        262144     float     sum      -1    61.20   17.13   25.70      0    60.11   17.44   26.17   "
      "   0\n"
      "     2097152        524288   float     sum    99.20   21.13   31.70  0e+00    99.11   21.44   32.17  0e+00\n"
      "      67108864     16777216   float   sum       315.1   213.00   399.38     N/A   ring Simple    1       373.0\n"
      "# Avg bus bandwidth    : 201.4\n");
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_DOUBLE_EQ(table.rows[0].microseconds, 61.20);
  EXPECT_DOUBLE_EQ(table.rows[1].microseconds, 99.20);
  EXPECT_DOUBLE_EQ(table.rows[2].microseconds, 315.1);
  EXPECT_EQ(table.collective, "all_gather");
  EXPECT_EQ(table.gpus_per_thread, 2);
  EXPECT_EQ(table.ranks, 1);
  EXPECT_EQ(table.gpu, "NVIDIA H100 80GB HBM3");
  const auto osu =
      read_table("# OSU MPI-CUDA Allreduce Latency Test v7.3\n# Size       Avg Latency(us)\n1048576   310.25\n");
  ASSERT_EQ(osu.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(osu.rows[0].microseconds, 310.25);
  EXPECT_EQ(osu.collective, "all_reduce");
}

TEST(Tables, LaunchersPrefixesAreTakenOffAndCutRowsCounted) {
  const auto table = read_table(
      "[1,0]<stdout>:#  Rank  0 Group  0 Pid 1 on  a device  0 [0x18] NVIDIA H100 80GB HBM3\n"
      "3: #  Rank  1 Group  0 Pid 1 on  b device  0 [0x18] NVIDIA H100 80GB HBM3\n"
      "[1,0]<stdout>:  1048576  262144  float  sum  -1  61.2  17.13  25.70  0\n"
      "0: 2097152 524288 float sum -1 99.2 21.1 31.7 0\n"
      "[1,0]<stdout>:  4194304  1048576  float\n");
  EXPECT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.ranks, 2);
  EXPECT_EQ(table.hosts.size(), 2u);
  EXPECT_EQ(table.cut, 1u);
}

TEST(Tables, WhatIsMeasuredFollowsFromOperationRootAndTheRatioOfBandwidths) {
  const auto inferred = [](const char* row, std::int64_t ranks) { return infer_collective(read_table(row), ranks); };
  // 7/8 on 8 ranks, no operation.
  EXPECT_EQ(inferred("1048576 32768 float none -1 30.0 34.95 30.58 0\n", 8).collective, "all_gather");
  EXPECT_EQ(inferred("1048576 32768 float sum -1 30.0 34.95 30.58 0\n", 8).collective, "reduce_scatter");
  EXPECT_EQ(inferred("1048576 262144 float sum -1 30.0 34.95 61.16 0\n", 8).collective, "all_reduce");
  EXPECT_EQ(inferred("1048576 262144 float none 0 30.0 34.95 34.95 0\n", 8).collective, "broadcast");
  EXPECT_EQ(inferred("1048576 262144 float sum 0 30.0 34.95 34.95 0\n", 8).collective, "reduce");
  EXPECT_EQ(inferred("1048576 262144 float none -1 30.0 34.95 34.95 0\n", 8).collective, "send_receive");
  // 2 * 15 / 16: sixteen ranks, where the table names none.
  EXPECT_EQ(inferred("1048576 262144 float sum -1 30.0 34.95 65.53 0\n", 0).ranks, 16);
  EXPECT_EQ(inferred("hello\n", 8).collective, "");
}

TEST(Tables, ASizeThatIsFasterThanASmallerOneIsNamed) {
  EXPECT_EQ(non_monotonic(read_table("1024 256 float sum -1 9.0 1 1 0\n2048 512 float sum -1 20.0 1 1 0\n"
                                     "4096 1024 float sum -1 12.0 1 1 0\n8192 2048 float sum -1 21.0 1 1 0\n")),
            std::vector<std::int64_t>{4096});
}

TEST(Tables, RowsOfImbAreReadByTheirMean) {
  const auto table = read_table(
      "# Benchmarking Allgather \n# #processes = 16 \n"
      "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
      "         1024         1000        10.00        12.00        11.00\n");
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(table.rows[0].microseconds, 11);
  EXPECT_EQ(table.collective, "all_gather");
  EXPECT_EQ(table.ranks, 16);
}

TEST(Unknown, TroubleThatNoRuleKnowsIsQuotedTheFirstOfEachRankInTimeOrder) {
  const auto report =
      of("2026-01-06 10:00:02 [rank1]: FATAL shapes of frobnicator do not match\n"
         "2026-01-06 10:00:01 [rank3]: FATAL lever 7 is stuck\n"
         "2026-01-06 10:00:04 [rank3]: FATAL again\n"
         "2026-01-06 10:00:00 [rank0]: step 7 of 9, 0 errors\n");
  EXPECT_TRUE(report.roots.empty());
  ASSERT_EQ(report.unknown.size(), 2u);
  EXPECT_EQ(report.unknown[0].fact.rank, 3);
  EXPECT_EQ(report.unknown[0].severity, "fatal");
  EXPECT_EQ(report.unknown[1].fact.rank, 1);
  EXPECT_EQ(report.unknown_lines, 3u);
  EXPECT_NE(report.verdict.find("lever 7 is stuck"), std::string::npos) << report.verdict;
  EXPECT_FALSE(report.next.empty());
}

TEST(Unknown, NoFaultIsNeverSaidBesideAWarningOfNccl) {
  const auto report = of("n1:1:2 [0] NCCL WARN transport/frob.cc:12 The frobnicator is upside down\n");
  ASSERT_EQ(report.unknown.size(), 1u);
  EXPECT_EQ(report.unknown[0].severity, "warning");
  EXPECT_EQ(report.verdict.find("No fault"), std::string::npos) << report.verdict;
}

TEST(Unknown, EverydayLinesAreNoTrouble) {
  for (const char* line : {"validation finished with 0 errors", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "error rate 0.01",
                           "/x/y.py:3: FutureWarning: this is old", "TERROR of the deep", "loaded SIGGRAPH data set"})
    EXPECT_EQ(trouble_of(line), Trouble::kNone) << line;
  EXPECT_EQ(trouble_of("terminate called after throwing an instance of 'x'"), Trouble::kFatal);
  EXPECT_EQ(trouble_of("[E1126 13:55:49.1 x.cpp:3] bad"), Trouble::kError);
  EXPECT_EQ(trouble_of("foo.bar.BazError: no"), Trouble::kFatal);
  // Advice and counts beside an error do not hide it.
  EXPECT_EQ(trouble_of("DistBackendError: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"),
            Trouble::kFatal);
  EXPECT_EQ(trouble_of("ERROR: stopped after 10 errors"), Trouble::kError);
  EXPECT_EQ(trouble_of("NCCL_DEBUG=WARN"), Trouble::kNone);
}

TEST(Unknown, VictimsAreNamedApartFromTheCulprit) {
  const auto report =
      of("[rank2]: torch.OutOfMemoryError: CUDA out of memory.\n"
         "[rank0]: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\n"
         "[rank1]: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\n");
  EXPECT_EQ(report.culprits, std::vector<int>{2});
  EXPECT_EQ(report.victims, (std::vector<int>{0, 1}));
}

TEST(Causes, TheShippedOnesAreReadAndBrokenOnesAreRefusedWithTheirLine) {
  const auto causes = shipped_causes();
  ASSERT_TRUE(causes) << causes.error().message;
  EXPECT_GE(causes->size(), 10u);
  const std::string titles = "id\tcause\tchange\tspread\talone\tseveral\tverify\n";
  EXPECT_EQ(parse_causes("c.tsv", titles + "a\tb\n").error().message, "c.tsv:2: 2 columns instead of 7");
  EXPECT_FALSE(parse_causes("c.tsv", titles + "a\tb\tnetwork=x\t1\t1\t1\tv\n"));
  EXPECT_FALSE(parse_causes("c.tsv", titles + "a\tb\tnetwork=50%\t0\t1\t1\tv\n"));
}

TEST(Causes, RowsThatACauseLeavesNothingOfAreLikelierThanThoseItLeavesHalfOf) {
  const std::vector<Residual> near = {{0.02, true}, {-0.03, true}, {0.1, false}}, far = {{0.7, true}, {0.6, true}};
  EXPECT_GT(log_likelihood(near, 0.1), log_likelihood(far, 0.1) + 5);
  EXPECT_NEAR(distance(near), 0.025, 1e-9);
}

// Links at half reach 4/5 of the bandwidth, at a quarter 2/5: half of the bandwidth lies between.
TEST(Causes, LinksAreSlowedUntilTheBandwidthIsThePublishedPart) {
  const std::vector<Slowdown> all = {{1, 1}, {0.5, 1.25}, {0.25, 2.5}};
  EXPECT_DOUBLE_EQ(rate_for(all, 0.8), 0.5);
  EXPECT_GT(rate_for(all, 0.5), 0.25);
  EXPECT_LT(rate_for(all, 0.5), 0.5);
  EXPECT_DOUBLE_EQ(rate_for(all, 0.2), 0.125);  // beyond the last: half of the bandwidth is half of the rate
}

}  // namespace
}  // namespace weft::doctor
