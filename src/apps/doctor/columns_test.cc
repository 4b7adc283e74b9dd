#include "apps/doctor/columns.h"

#include <gtest/gtest.h>

#include "apps/doctor/matrix.h"

namespace weft::doctor {
namespace {

TEST(Columns, AMarkdownTableIsReadByItsHeaderWithSizesInTheCells) {
  const auto own = read_columns(
      "All-reduce on 4 GPUs\n"
      "| msg_size | eager time (ms) | graph p50 (us) |\n"
      "|----------|-----------------|----------------|\n"
      "| 8.0 KiB  | 0.05            | **21.5**       |\n"
      "| 1 MiB    | 0.09            | 80             |\n",
      "");
  ASSERT_TRUE(own);
  EXPECT_EQ(own->chosen, "graph p50 (us)");  // a median stands before the first
  ASSERT_EQ(own->table.rows.size(), 2u);
  EXPECT_EQ(own->table.rows[0].bytes, 8192);
  EXPECT_DOUBLE_EQ(own->table.rows[0].microseconds, 21.5);
  EXPECT_EQ(own->table.rows[1].bytes, 1 << 20);
  const auto eager = read_columns("size, eager_ms, graph_us\n4096,0.5,9\n", "eager");
  ASSERT_TRUE(eager);
  EXPECT_DOUBLE_EQ(eager->table.rows[0].microseconds, 500);
  EXPECT_TRUE(read_columns("size, eager_ms, graph_us\n4096,0.5,9\n", "lazy")->no_column);
}

TEST(Columns, SectionsOfDeepSpeedsLogAreCollectivesOfTheirOwn) {
  const auto own = read_columns(
      "Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg "
      "(Gbps) \n"
      "barrier\n"
      "                    0B                  3                   5.41                1.80                0.00 \n"
      "all_gather_into_tensor\n"
      "                    2.0 KB              3                   0.9                 0.3                 0.1  \n"
      "                    1.5 GB              2                   200                 100                 128  \n",
      "");
  ASSERT_TRUE(own);
  EXPECT_EQ(own->table.collective, "all_gather");
  ASSERT_EQ(own->table.rows.size(), 2u);
  EXPECT_EQ(own->table.rows[1].bytes, 1610612736);
  EXPECT_DOUBLE_EQ(own->table.rows[1].microseconds, 100'000);  // the mean, not the total
  EXPECT_DOUBLE_EQ(own->table.rows[1].algbw, 16);              // 128 Gbit/s
}

TEST(Columns, ElementsOfGlooAreFloatsAndBandwidthsAloneGiveTimes) {
  const auto gloo = read_columns(
      "   Algorithm:   allreduce_halving_doubling\n   Options:     processes=6, inputs=1\n\n"
      "   elements   min (us)   p50 (us)   p99 (us)    samples\n"
      "       1000        110       140       300         999\n",
      "");
  ASSERT_TRUE(gloo);
  EXPECT_EQ(gloo->table.ranks, 6);
  EXPECT_EQ(gloo->table.rows[0].bytes, 4000);
  EXPECT_DOUBLE_EQ(gloo->table.rows[0].microseconds, 140);
  const auto rates = read_columns("size\tredop\tbusbw\talgo\n(B)\t\t(GB/s)\t\n33554432\tsum\t120\tRING\n", "");
  ASSERT_TRUE(rates);
  EXPECT_DOUBLE_EQ(rates->table.rows[0].busbw, 120);
  EXPECT_EQ(rates->table.rows[0].microseconds, 0);  // they follow from busbw once the ranks are known
}

TEST(Columns, NixlbenchMeasuresAPair) {
  for (const char* text : {"NIXL\nBlock Size (B)      Batch Size     Avg Lat. (us)  B/W (MiB/Sec)  B/W (GB/Sec)\n----\n"
                           "65536               64             3.1        19073.5        20.0\n",
                           "block_size,batch_size,avg_lat,bw_mib_sec,bw_gb_sec\n65536,64,3.1,19073.5,20.0\n"}) {
    const auto own = read_columns(text, "");
    ASSERT_TRUE(own && own->pair) << text;
    ASSERT_EQ(own->pair->rows.size(), 1u);
    EXPECT_EQ(own->pair->rows[0].bytes, 65536);
    EXPECT_NEAR(own->pair->rows[0].gigabytes, 20, 0.01) << text;
  }
}

TEST(Columns, ProseAndConfigurationsAreNoTable) {
  EXPECT_FALSE(read_columns("The size of the message and its time were not kept.\n1 2 3\n", ""));
  EXPECT_FALSE(read_columns("bucket_size: 5\ntime: 3\n", ""));
  EXPECT_FALSE(read_columns("", ""));
}

TEST(Columns, ATextNamesOneCollectiveInAnySpelling) {
  EXPECT_EQ(collective_in("benchmark of AllReduce"), "all_reduce");
  EXPECT_EQ(collective_in("reduce_scatter_tensor"), "reduce_scatter");
  EXPECT_EQ(collective_in("all-gather against all-to-all"), "");  // two
  EXPECT_EQ(collective_in("barrier"), "");
}

TEST(Matrices, NvbandwidthAndTheSamplesOfCudaAreRead) {
  const PairMatrices read = read_matrices(
      "Device 0: NVIDIA A100-SXM4-80GB (00000000:34:00)\nDevice 1: NVIDIA A100-SXM4-80GB (00000000:35:00)\n"
      "Waiving device_to_device_memcpy_write_sm.\n"
      "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n 0     24.90     25.10\n\n"
      "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n 0       N/A    270.1\n 1     271.0 "
      "      N/A\n"
      "SUM device_to_device_memcpy_read_ce 541.1\n");
  ASSERT_EQ(read.all.size(), 2u);
  EXPECT_EQ(read.gpus.at(0), "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(read.waived, std::vector<std::string>{"device_to_device_memcpy_write_sm"});
  EXPECT_TRUE(read.all[0].host);
  EXPECT_EQ(read.all[1].rates, (std::vector<std::vector<double>>{{0, 270.1}, {271.0, 0}}));
  const PairMatrices samples = read_matrices(
      "Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1 \n     0 900.00  20.0\n     1  21.0 "
      "900.0\n"
      "P2P=Enabled Latency (P2P Writes) Matrix (us)\n   GPU     0      1 \n     0   2.0   3.0\n     1   3.0   2.0\n");
  ASSERT_EQ(samples.all.size(), 1u);  // latencies are no bandwidths
  EXPECT_TRUE(samples.all[0].both_ways && samples.all[0].staged);
  EXPECT_EQ(samples.all[0].rates[0], (std::vector<double>{0, 20.0}));  // a GPU with itself is its own memory
}

TEST(Matrices, AMatrixThatIsCutOffKeepsItsWholeRows) {
  const PairMatrices read =
      read_matrices("memcpy SM GPU(row) <- GPU(column) bandwidth (GB/s)\n 0 1 2\n0 N/A 1 2\n1 3 N/A\n2 5 6 N/A\n");
  ASSERT_EQ(read.all.size(), 1u);
  EXPECT_EQ(read.all[0].rates.size(), 1u);
  EXPECT_TRUE(read_matrices("bandwidth of GPU(column)\n").all.empty());
}

TEST(Columns, NvshmemsTestsNameTheirCollectiveAboveAHeaderOfTheirOwn) {
  const auto columns = read_columns(
      "#fcollect_on_stream\nsize(B)     count     type      latency(us)       min_lat(us)       max_lat(us)       "
      "algbw(GB/s)   busbw(GB/s)\n4096        1024      int       9.500000          9.400             9.700            "
      " "
      "0.431         0.377\n",
      "");
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns->chosen, "latency(us)");
  ASSERT_EQ(columns->table.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(columns->table.rows[0].microseconds, 9.5);
  EXPECT_EQ(collective_in("#fcollect_on_stream"), "all_gather");
  EXPECT_EQ(collective_in("#reduction_on_stream"), "all_reduce");
  EXPECT_EQ(collective_in("a reduction of the time"), "");
}

TEST(Columns, RowsWithoutASizeOrATimeAreCountedWithTheirLines) {
  const auto columns = read_columns(
      "size_bytes,time_us,busbw\n1024,9.5,0.2\n-2048,9.6,0.4\nnan,9.7,0.4\n4096,nan,\n"
      "8192,oops,-\n1e99,3,4\n16384,12.5,2.5\n",
      "");
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns->table.rows.size(), 2u);
  EXPECT_EQ(columns->table.cut, 5u);
  ASSERT_FALSE(columns->table.dropped.empty());
  EXPECT_EQ(columns->table.dropped[0].line, 3);
}

// Four ranks: the bus carries 1.5 times what 10^6 bytes in 25 us are, 40 GB/s.
TEST(Columns, ABandwidthOfTheBusIsKnownByItsRatioAndMegabytesMayBeDecimal) {
  const auto columns = read_columns(
      "mpirun -np 4 ./bench\nsize(MB)   tavg(usec)   avgbw(GB/sec)\n1.00   25.0   60.00\n64.00   800.0   120.00\n", "");
  ASSERT_TRUE(columns);
  ASSERT_EQ(columns->table.rows.size(), 2u);
  EXPECT_EQ(columns->table.rows[0].bytes, 1'000'000);
  EXPECT_DOUBLE_EQ(columns->table.rows[0].busbw, 60);
  EXPECT_DOUBLE_EQ(columns->table.rows[0].algbw, 40);
  const auto plain =
      read_columns("mpirun -np 4 x\nsize(MB)  time(us)  bw(GB/s)\n1  25.0  41.943\n2  50.0  41.943\n", "");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->table.rows[0].bytes, 1 << 20);
}

}  // namespace
}  // namespace weft::doctor
