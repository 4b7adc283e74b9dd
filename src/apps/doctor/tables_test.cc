#include "apps/doctor/tables.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/job_text.h"

namespace weft::doctor {
namespace {

std::string list(int first, int count, const std::string& host) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("#  Rank {:>2} Group  0 Pid {} on {} device {:>2} [0000:{:02x}:00] NVIDIA H200\n", first + i,
                        70 + i, host, i, 15 + i);
  return text;
}
const std::string kRow = "  4194304  1048576  float  sum  -1  120.0  34.95  61.16  0  240.0  17.48  30.58  2\n";

TEST(PastedTables, BothColumnsAndTheirWrongElementsAreRead) {
  const auto table = read_table(list(0, 8, "a") + kRow);
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(table.rows[0].microseconds, 120);
  EXPECT_DOUBLE_EQ(table.rows[0].in_place, 240);
  EXPECT_EQ(table.rows[0].wrong, 2);
  const auto old =
      read_table("  4194304  1048576  float  sum  120.0  34.95  61.16  1e-07  240.0  17.48  30.58  2e-07\n");
  ASSERT_EQ(old.rows.size(), 1u);
  EXPECT_EQ(old.rows[0].wrong, 0) << "an error of rounding, as nccl-tests 2.11 printed it";
  EXPECT_DOUBLE_EQ(old.rows[0].in_place, 240);
  EXPECT_DOUBLE_EQ(read_table("4096 1024 float sum -1 12.0 0.34 0.6 N/A 14.0 0.3 0.5 N/A\n").rows[0].in_place, 14);
}

TEST(PastedTables, RunsThatNeverTalkedToEachOtherAreRefusedByName) {
  const auto table = read_table(list(0, 4, "a") + list(0, 4, "b") + list(0, 4, "c") + kRow + kRow);
  EXPECT_NE(table.refused.find("3 runs of 4 ranks each"), std::string::npos) << table.refused;
  EXPECT_NE(table.refused.find("rank 0 is listed 3 times"), std::string::npos);
  const auto again = read_table(list(0, 4, "a") + kRow + list(0, 4, "a") + kRow);
  EXPECT_EQ(again.refused, "");
  EXPECT_EQ(again.ranks, 4);
}

TEST(PastedTables, AListOfSomeRanksSaysHowManyThereAreAtLeast) {
  const auto table = read_table("#  Rank 31 Group  0 Pid 1 on h device  7 [0x01] NVIDIA H200\n" + kRow);
  EXPECT_EQ(table.ranks, 32);
  EXPECT_EQ(table.listed.size(), 1u);
}

TEST(PastedTables, OsuTablesOfPairsAreNoCollectives) {
  for (const std::string title :
       {"OSU MPI-CUDA Bi-Directional Bandwidth Test v7.1", "OSU MPI Multiple Bandwidth / Message Rate Test v5.9",
        "OSU MPI-ROCM Latency Test v6.2", "OSU MPI_Put Latency Test v5.6"})
    EXPECT_NE(read_table("# " + title + "\n# Size  x\n8 1.5\n").refused, "") << title;
  EXPECT_NE(read_table("# Benchmarking PingPong\n# #processes = 2\n#bytes #repetitions t[usec] Mbytes/sec\n").refused,
            "");
}

TEST(PastedTables, OsuTablesNameTheirCollectiveAndTheCommandTheirRanks) {
  const auto reduce =
      read_table("$ mpirun -np 24 ./osu_reduce -f\n# OSU MPI Reduce Latency Test v7.3\n# Size Avg\n64 9.5 8 11 100\n");
  EXPECT_EQ(reduce.collective, "reduce");
  EXPECT_EQ(reduce.ranks, 24);
  EXPECT_DOUBLE_EQ(reduce.rows.at(0).microseconds, 9.5);
  EXPECT_EQ(read_table("# OSU MPI-CUDA Allreduce Latency Test v7\n# Size\n64 9.5\n").collective, "all_reduce");
  EXPECT_EQ(read_table("# OSU MPI All-to-All Personalized Exchange Latency Test v5\n64 9.5\n").collective,
            "all_to_all");
}

TEST(PastedTables, OfSectionsOfImbTheLargestCollectiveIsTaken) {
  const auto section = [](const char* name, int processes, double time) {
    return fmt::format(
        "# Benchmarking {}\n# #processes = {}\n  #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
        "     1024   100   1.0   2.0   {}\n",
        name, processes, time);
  };
  const auto table = read_table(section("Allreduce", 2, 3) + section("Allreduce", 16, 7) + section("Sendrecv", 32, 9));
  EXPECT_EQ(table.ranks, 16);
  EXPECT_EQ(table.collective, "all_reduce");
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(table.rows[0].microseconds, 7);
  EXPECT_EQ(table.left_out, 2u);
}

TEST(PastedTables, ImbsSendrecvIsKnownByItsMegabytes) {
  const auto table = read_table(
      "Sendrecv:\n#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec] Mbytes/sec\n"
      "65536 640 11.5 13.1 12.6 9987.4\n");
  EXPECT_EQ(table.collective, "send_receive");
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(table.rows[0].microseconds, 12.6);
}

TEST(PastedTables, EachFormOfJsonIsReadAsItsTextIs) {
  const auto written = read_table(
      R"({"args":["/opt/reduce_scatter_perf","-g","4"],"config":{"nranks":4},"devices":[{"rank":0,"hostname":"h","device_name":"NVIDIA A100-SXM4-80GB"}],
          "results":[{"size":8388608,"count":2097152,"type":"float","redop":"sum","root":-1,
          "out_of_place":{"time":90.5,"alg_bw":92.6,"bus_bw":69.5,"nwrong":0},"in_place":{"time":91.5,"alg_bw":91.6,"bus_bw":68.7,"nwrong":5}}]})");
  ASSERT_EQ(written.rows.size(), 1u);
  EXPECT_EQ(written.collective, "reduce_scatter");
  EXPECT_EQ(written.ranks, 4);
  EXPECT_EQ(written.rows[0].wrong, 5);
  EXPECT_DOUBLE_EQ(written.rows[0].in_place, 91.5);
  const auto keyed = read_table(
      R"({"benchmark":[{"4096":{"type":"half","redop":"none","root":"2","oop_time":20.5,"oop_algbw":0.2,"oop_busbw":0.2,"oop_error":0.0,"ip_time":21.0,"ip_error":"N/A"}}]})");
  ASSERT_EQ(keyed.rows.size(), 1u);
  EXPECT_EQ(keyed.rows[0].root, 2);
  EXPECT_DOUBLE_EQ(keyed.rows[0].microseconds, 20.5);
  const auto lines = read_table(
      "{\"#wrong\":\"0\",\"algBw\":1.5,\"busBw\":2.6,\"gpus\":8,\"inPlace\":0,\"name\":\"AllGather\",\"redop\":"
      "\"none\",\"size\":2048,\"time\":9.0}\n"
      "{\"#wrong\":\"1\",\"algBw\":1.4,\"busBw\":2.5,\"gpus\":8,\"inPlace\":1,\"name\":\"AllGather\",\"redop\":"
      "\"none\",\"size\":2048,\"time\":9.5}\n"
      "{\"size\": tr\n");
  ASSERT_EQ(lines.rows.size(), 1u);
  EXPECT_EQ(lines.collective, "all_gather");
  EXPECT_EQ(lines.ranks, 8);
  EXPECT_EQ(lines.rows[0].wrong, 1);
  EXPECT_DOUBLE_EQ(lines.rows[0].in_place, 9.5);
  EXPECT_EQ(lines.cut, 1u);
  EXPECT_TRUE(read_table("{\"no\": \"table\"}").rows.empty());
}

TEST(PastedTables, PrefixesOfCollectorsOfLogsAreNoColumns) {
  for (const std::string prefix : {"[pod/nccl-0/main] ", "2026-03-04T05:06:07.1Z stdout F ", "05:06:07  ",
                                   "(launcher) ", "2026-03-04 05:06:07,125 INFO ", "nccl-1  | ", "[1,0]<stdout>:"}) {
    std::string text;
    for (const std::string& line : {list(0, 1, "a"), list(1, 1, "a"), kRow}) text += prefix + line;
    const auto table = read_table(text);
    EXPECT_EQ(table.rows.size(), 1u) << prefix;
    EXPECT_EQ(table.ranks, 2) << prefix;
    EXPECT_EQ(table.gpu, "NVIDIA H200") << prefix;
  }
  EXPECT_EQ(read_table(plain_text("\x1b[36m" + kRow.substr(0, kRow.size() - 1) + "\x1b[0m\r\n")).rows.size(), 1u);
}

TEST(PastedTables, ATagInTheMiddleOfALineIsNoColumn) {
  const auto table = read_table(
      "[3]   16777216   4194304   float   sum   -1[3]   1334.9   12.57   24.09   0[3]   "
      "1336.5   12.55   24.06   0\n");
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(table.rows[0].microseconds, 1334.9);
  EXPECT_DOUBLE_EQ(table.rows[0].in_place, 1336.5);
}

TEST(Tables, NeuronsTestNamesItsOperationAndItsWorkersInItsCommand) {
  const auto table = read_table(
      "$ nccom-test -r 32 -b 64MB redsct\n     size(B)    count(elems)     type    time(us)    algbw(GB/s)    "
      "busbw(GB/s)\n    67108864        16777216    fp32         1500          44.74          43.34\n");
  EXPECT_EQ(table.collective, "reduce_scatter");
  EXPECT_EQ(table.cores, 32);
  EXPECT_EQ(table.ranks, 0);
  ASSERT_EQ(table.rows.size(), 1u);
}

TEST(Tables, ACommandOfSlurmSaysTheRanksOfAnOsuTable) {
  const auto table = read_table(
      "srun -N 4 --ntasks-per-node=6 ./osu_bcast -d cuda\n# OSU MPI-CUDA Broadcast Latency Test v7.4\n# Size   Avg "
      "Latency(us)\n4096   31.5\n");
  EXPECT_EQ(table.collective, "broadcast");
  EXPECT_EQ(table.ranks, 24);
}

// 4 ranks: 3/4 of 1 MiB in 100 us are 7.86 GB/s, of 64 MiB in 3 ms 16.78.
TEST(Tables, OldAllGathersLeftARanksOwnPartOutOfBothBandwidths) {
  auto table = read_table(
      "     1048576         65536   float    100.0    7.86    7.86  0e+00    101.0    7.79    7.79  0e+00\n"
      "    67108864       4194304   float   3000.0   16.78   16.78  0e+00   3010.0   16.72   16.72  0e+00\n");
  EXPECT_EQ(leave_out_contradictions(table), "");
  EXPECT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.ranks, 4);
  EXPECT_EQ(table.collective, "all_gather");
  auto other = read_table("1048576 65536 float 100.0 7.86 7.86 0e+00\n67108864 4194304 float 3000.0 9.1 9.1 0e+00\n");
  EXPECT_NE(leave_out_contradictions(other), "");
}

const std::string kHeader = "# nThread 1 nGpus 4 minBytes 1 maxBytes 2 step: 2(factor)\n";

TEST(Tables, EachTableOfATextIsOneOfItsOwn) {
  const std::string row = "  8388608  2097152  float  sum  -1  90.0  93.21  163.1  0  90.0  93.21  163.1  0\n",
                    larger = " 16777216  4194304  float  sum  -1  150.0  111.8  195.7  0  150.0  111.8  195.7  0\n",
                    other = "  8388608  4194304  half  sum  -1  91.0  92.18  161.3  0  91.0  92.18  161.3  0\n";
  // A header of another run, with its own devices and its own name.
  const auto runs =
      read_tables("$ ./all_reduce_perf\n" + kHeader + list(0, 8, "a") + row + larger +
                  "# Avg bus bandwidth : 1\n$ ./reduce_scatter_perf -g 4\n" + kHeader + list(0, 4, "b") + row);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].collective, "all_reduce");
  EXPECT_EQ(runs[0].ranks, 8);
  EXPECT_EQ(runs[0].rows.size(), 2u);
  EXPECT_EQ(runs[1].collective, "reduce_scatter");
  EXPECT_EQ(runs[1].ranks, 4);
  EXPECT_EQ(runs[1].hosts, std::set<std::string>{"b"});
  // Sizes that begin again, and another type, are of the same job.
  for (const std::string& again : {row, other}) {
    const auto swept = read_tables(kHeader + list(0, 8, "a") + row + larger + again + larger);
    ASSERT_GE(swept.size(), 2u);
    EXPECT_EQ(swept[1].ranks, 8);
    EXPECT_EQ(swept[1].line, 12);
  }
  EXPECT_EQ(read_tables(kHeader + row + larger).size(), 1u);
}

TEST(Tables, TitlesOfOsuBeginATableEach) {
  const auto tables = read_tables(
      "$ mpirun -np 6 ./osu_allgather\n# OSU MPI Allgather Latency Test v7.3\n# Size  Avg\n64 5.5\n128 6.5\n"
      "$ mpirun -np 12 ./osu_alltoall\n# OSU MPI All-to-All Personalized Exchange Latency Test v7.3\n64 9.5\n");
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].collective, "all_gather");
  EXPECT_EQ(tables[0].ranks, 6);
  EXPECT_EQ(tables[1].collective, "all_to_all");
  EXPECT_EQ(tables[1].ranks, 12);
  EXPECT_EQ(tables[1].rows.size(), 1u);
}

TEST(Tables, ImbsExchangeBelowItsSendrecvIsNone) {
  const std::string head = "#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec] Mbytes/sec\n";
  const auto tables =
      read_tables("Sendrecv:\n" + head + "4096 9 1.5 1.9 1.7 99\nExchange:\n" + head + "8192 9 3 4 3.5 9\n");
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].refused, "");
  EXPECT_NE(tables[1].refused, "");
}

TEST(Tables, RowsThatAreLeftOutAreCountedWithTheirLines) {
  const std::string rest = "  1024  float  sum  -1  12.0  0.34  0.6  0\n";
  const auto table = read_table(kRow + "-4096" + rest + "9e99" + rest + "nan" + rest + "0" + rest + "4O96" + rest +
                                "4096  1024  float  sum  -1  nan  0.34  0.6  0\n");
  EXPECT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.cut, 6u);
  ASSERT_EQ(table.dropped.size(), 6u);
  EXPECT_EQ(table.dropped[0].line, 2);
  EXPECT_EQ(table.dropped[0].why, "size -4096");
  EXPECT_EQ(table.dropped[5].line, 7);
  EXPECT_EQ(read_table("# OSU MPI Allreduce Latency Test v7\n64 9.5\n-128 9.9\n256 nan\n").cut, 2u);
}

TEST(Tables, GpusOfSeveralKindsAreCounted) {
  std::string devices = list(0, 7, "a") + "#  Rank  7 Group  0 Pid 9 on a device  7 [0x0f] NVIDIA L40S\n";
  const auto table = read_table(devices + kRow);
  EXPECT_EQ(table.gpus.size(), 2u);
  EXPECT_EQ(table.gpus.at("NVIDIA H200"), 7);
  EXPECT_EQ(table.gpu, "NVIDIA H200") << "that of most ranks";
}

// The count of these is that of a rank: 1 MiB are 16 times 16384 floats.
TEST(Tables, CountsOfOneRankSayHowManyThereAre) {
  const auto scatter = infer_collective(read_table("1048576 16384 float sum -1 40.0 26.2 24.6 0\n"), 0);
  EXPECT_EQ(scatter.collective, "reduce_scatter");
  EXPECT_EQ(scatter.ranks, 16);
  // busbw / algbw = 1.968 +- 0.007 may be 52 to 80 ranks: of these, 64 are whole nodes of eight.
  EXPECT_EQ(infer_collective(read_table("268435456 67108864 float sum -1 122131 2.20 4.33 0\n"), 0).ranks, 64);
}

}  // namespace
}  // namespace weft::doctor
