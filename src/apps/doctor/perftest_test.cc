#include "apps/doctor/perftest.h"

#include <gtest/gtest.h>

namespace weft::doctor {
namespace {

const std::string kLine = "---------------------------------------------------------------------------------------\n";

std::string table(const std::string& title, const std::string& columns, const std::string& rows) {
  return kLine + "                    " + title + "\n Dual-port       : OFF\t\tDevice         : mlx5_4\n" +
         " Link type       : Ethernet\n" + kLine + columns + "\n" + rows + kLine;
}

TEST(Perftest, MegabytesAreMebibytesAndGigabitsAreBits) {
  const auto plain = read_perftest(
      table("RDMA_Write BW Test", " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]",
            " 65536      5000             11050.00            11000.00           0.176\n"));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->test, "RDMA_Write BW Test");
  EXPECT_EQ(plain->device, "mlx5_4");
  EXPECT_EQ(plain->link, "Ethernet");
  ASSERT_EQ(plain->rows.size(), 1u);
  EXPECT_NEAR(plain->rows[0].gigabytes, 11000 * 1048576e-9, 1e-9);
  const auto bits =
      read_perftest(table("RDMA_Read Bidirectional BW Test",
                          " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
                          " 65536      5000             391.2              390.4           0.7\n"));
  ASSERT_TRUE(bits);
  EXPECT_TRUE(bits->both_ways);
  EXPECT_NEAR(bits->rows.at(0).gigabytes, 48.8, 1e-9);
}

TEST(Perftest, LatenciesAreReadByTheirTypicalTime) {
  const auto read = read_perftest(table(
      "RDMA_Write Latency Test", " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]",
      " 2       1000          1.61           5.33         1.66               1.69\n"));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->rows.size(), 1u);
  EXPECT_DOUBLE_EQ(read->rows[0].microseconds, 1.66);
  EXPECT_DOUBLE_EQ(read->rows[0].gigabytes, 0);
}

TEST(Perftest, OtherTextIsNoTableOfIt) {
  EXPECT_FALSE(read_perftest("#bytes #iterations without a test\n"));
  EXPECT_FALSE(read_perftest("RDMA_Write BW Test\n"));
  EXPECT_FALSE(read_perftest(""));
}

// 1,000 MiB/s at 2,000 messages/s are messages of 524,288 bytes.
TEST(Perftest, UcxPerftestsSizeFollowsFromItsRates) {
  const std::string head =
      "+--------------+--------------+------------------------------+---------------------+-----------------------+\n"
      "|              |              |       overhead (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |\n";
  for (const char* row :
       {"[thread 0]   600  0.2 500.0 500.0  900.0 900.0  1800 1800\nFinal: 1000 0.2 500.0 500.0 1000.0 1000.0 2000 "
        "2000\n",
        "   600  0.2 500.0 500.0  900.0 900.0  1800 1800\n  1000 0.2 500.0 500.0 1000.0 1000.0 2000 2000\n"}) {
    const auto read = read_perftest(head + row);
    ASSERT_TRUE(read) << row;
    ASSERT_EQ(read->rows.size(), 1u);
    EXPECT_EQ(read->rows[0].bytes, 524288);
    EXPECT_NEAR(read->rows[0].gigabytes, 1000 * 1048576e-9, 1e-9);
  }
}

TEST(Perftest, OsusTablesBetweenTwoRanksAreRead) {
  const auto both = read_perftest(
      "$ srun -n 2 -N 2 ./osu_bibw D D\n# OSU MPI-ROCM Bi-Directional Bandwidth Test v7.3\n# Size      Bandwidth "
      "(MB/s)\n"
      "1            2.50\n1048576  47010.25\n");
  ASSERT_TRUE(both);
  EXPECT_TRUE(both->both_ways);
  EXPECT_TRUE(both->gpu);
  ASSERT_EQ(both->rows.size(), 2u);
  EXPECT_NEAR(both->rows[1].gigabytes, 47.01, 0.01);
  const auto latency = read_perftest("# OSU MPI Latency Test v5.9\n# Size  Latency (us)\n0  1.10\n8  1.15\n");
  ASSERT_TRUE(latency);
  EXPECT_FALSE(latency->gpu);
  ASSERT_EQ(latency->rows.size(), 1u);
  EXPECT_DOUBLE_EQ(latency->rows[0].microseconds, 1.15);
  EXPECT_FALSE(read_perftest("# OSU MPI Allreduce Latency Test v7.3\n# Size  Avg Latency(us)\n8  4.1\n"));
  const auto pairs = read_perftest(
      "# OSU MPI Multiple Bandwidth / Message Rate Test v7.3\n# [ pairs: 6 ] [ window size: 64 ]\n# Size  MB/s  "
      "Messages/s\n8 1 2\n");
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->pairs, 6);
}

}  // namespace
}  // namespace weft::doctor
