#include "doctor/evidence.h"

#include <gtest/gtest.h>

#include "doctor/causes.h"
#include "doctor/diagnosis.h"
#include "doctor/line.h"
#include "doctor/tables.h"

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
