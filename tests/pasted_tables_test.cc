#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"

// `weft check` and `weft doctor` on texts that other tools printed, as the commands answer them.
namespace weft {
namespace {

using nlohmann::json;

class Pasted : public testing::Test {
 protected:
  ~Pasted() override { std::remove(file_.c_str()); }
  const std::string& with(const std::string& text) {
    std::ofstream(file_) << text;
    return file_;
  }

 private:
  std::string file_ = testing::TempDir() + "/pasted-" + std::to_string(getpid()) + ".txt";
};

// Four GPUs; pair 0 to 2 carries a quarter of what the others carry.
TEST_F(Pasted, AMatrixNamesThePairBelowTheOthersAndDevicesWithoutPeerAccess) {
  const std::string matrix =
      "Device=1 CANNOT Access Peer Device=3\nUnidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n"
      "   D\\D     0      1      2      3\n     0 1500.0 240.1 60.3 241.0\n     1 239.0 1500.2 240.8 240.2\n"
      "     2 240.6 241.1 1499.0 239.9\n     3 240.0 239.4 240.3 1501.0\n";
  const Answer a = weft("check " + with(matrix));
  EXPECT_EQ(a.code, 1) << a.err;
  EXPECT_NE(a.out.find("0 to 2 60.3"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("Without peer access: 1 of the directions"), std::string::npos) << a.out;
  const json report = json::parse(weft("check " + with(matrix) + " --json -").out);
  EXPECT_EQ(report.at("schema"), "weft.check_matrix/1");
  EXPECT_EQ(report.at("without_peer_access"), 1);
  EXPECT_EQ(report.at("slow"), true);
}

TEST_F(Pasted, OsusBandwidthBetweenTwoRanksIsHeldAgainstAPort) {
  const std::string table =
      "# OSU MPI-CUDA Bandwidth Test v7.4\n# Size      Bandwidth (MB/s)\n1024       900.10\n4194304   {}\n";
  const auto osu = [&](const char* rate) {
    std::string text = table;
    return with(text.replace(text.find("{}"), 2, rate));
  };
  EXPECT_EQ(weft("check " + osu("48100.20") + " --on dgx-h100").code, 0);
  const Answer slow = weft("check " + osu("12100.20") + " --on dgx-h100");
  EXPECT_EQ(slow.code, 1);
  EXPECT_NE(slow.out.find("is slow"), std::string::npos) << slow.out;
  EXPECT_EQ(weft("check " + osu("48100.20")).code, 2) << "no machine is named";
}

// busbw = 1.75 algbw: eight ranks.
TEST_F(Pasted, RowsUnderAHeaderOfTheirOwnAreReadByIt) {
  const std::string table =
      "#reduction_on_stream\nsize(B)     count     type      redop     latency(us)       min_lat(us)       max_lat(us)"
      "       algbw(GB/s)   busbw(GB/s)\n"
      "1048576     262144    int       sum       40.000000         39.100            41.900            26.214"
      "        45.875\n"
      "67108864    16777216  int       sum       300.000000        298.000           310.000           223.696"
      "       391.468\n";
  const Answer a = weft("check " + with(table) + " --on dgx-h100");
  EXPECT_EQ(a.err, "");
  EXPECT_NE(a.out.find("This all_reduce table"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("column 'latency(us)'"), std::string::npos) << a.out;
}

TEST_F(Pasted, CoresOfNccomTestAreAskedForAsChips) {
  const std::string table =
      "nccom-test -r 8 allr\n size(B) count(elems) type time(us) algbw(GB/s) busbw(GB/s)\n 33554432 33554432 uint8 768 "
      "43.69 76.46\n";
  const Answer asked = weft("check " + with(table) + " --on aws-trn1");
  EXPECT_EQ(asked.code, 2);
  EXPECT_NE(asked.err.find("8 ranks are NeuronCores"), std::string::npos) << asked.err;
  const Answer a = weft("check " + with(table) + " --on aws-trn1 --ranks 4");
  EXPECT_NE(a.out.find("This all_reduce table"), std::string::npos) << a.out << a.err;
  EXPECT_NE(a.out.find("on 4 ranks"), std::string::npos) << a.out;
}

TEST_F(Pasted, DoctorShowsTheHintOfAPortThatIsSwitchedOff) {
  const std::string ports =
      "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n"
      "CA 'mlx5_1'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n\t\tRate: 10\n";
  const Answer a = weft("doctor " + with(ports));
  EXPECT_EQ(a.code, 0);
  EXPECT_NE(a.out.find("hint: A port is switched off"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("mlx5_1 port 1"), std::string::npos) << a.out;
}

// Rows of eight H100 that take `times` as long as they should: 470 GB/s on the bus, or a part of them.
std::string rows_of(double times) {
  const auto row = [&](const char* size, double us, double algbw) {
    char text[160];
    std::snprintf(text, sizeof text, "%s  float  sum  -1  %.1f  %.2f  %.2f  0\n", size, us * times, algbw / times,
                  1.75 * algbw / times);
    return std::string(text);
  };
  return row("  33554432   8388608", 170, 197.38) + row("1073741824 268435456", 4000, 268.44);
}
std::string devices(int count, const std::string& last) {
  std::string text = "# nThread 1 nGpus 1 minBytes 1 maxBytes 2 step: 32(factor)\n# Using devices\n";
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    text += "#  Rank  " + number + " Group  0 Pid 7" + number + " on n device  " + number + " [0x0" + number +
            "] NVIDIA " + (i == count - 1 ? last : "H100 80GB HBM3") + "\n";
  }
  return text;
}

TEST_F(Pasted, OfTwoTablesInOneFileEachIsJudgedAndTheWorstIsTheStatus) {
  const std::string one = devices(8, "H100 80GB HBM3");
  const Answer a = weft("check " + with(one + rows_of(1) + one + rows_of(10)));
  EXPECT_EQ(a.code, 1) << a.err;
  EXPECT_NE(a.out.find("Table 1 of 2 (line 11: "), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("is what the machine should deliver"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("is slow"), std::string::npos) << a.out;
  const json report = json::parse(weft("check --json - " + with(rows_of(10) + rows_of(1)) + " --on dgx-h100").out);
  EXPECT_EQ(report.at("slow"), true) << "of the worst";
  ASSERT_EQ(report.at("tables").size(), 2u);
  EXPECT_EQ(report.at("tables")[1].at("slow"), false);
}

TEST_F(Pasted, RanksOnDifferentGpusAreHeldAgainstAMachineThatIsNamed) {
  const std::string table = devices(8, "A100-SXM4-80GB") + rows_of(1);
  const Answer asked = weft("check " + with(table));
  EXPECT_EQ(asked.code, 2);
  EXPECT_NE(asked.err.find("7 ranks on NVIDIA H100 80GB HBM3"), std::string::npos) << asked.err;
  const Answer named = weft("check " + with(table) + " --on dgx-h100");
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_NE(named.out.find("different GPUs"), std::string::npos) << named.out;
}

TEST_F(Pasted, RowsThatAreLeftOutAreNamedAndOptionsNameTheirBound) {
  const std::string file = with("-8 2 float sum -1 9.0 0.1 0.1 0\n" + rows_of(1));
  EXPECT_NE(weft("check " + file + " --on dgx-h100").out.find("1 row left out: line 1 (size -8)."), std::string::npos);
  EXPECT_NE(weft("check " + file + " -n -3").err.find("--ranks: -3: at least 0"), std::string::npos);
}

TEST_F(Pasted, RatesOfSeveralPairsAreHeldAgainstAsManyPorts) {
  const auto table = [&](const char* rate) {
    return with(
        std::string("# OSU MPI-CUDA Multiple Bandwidth / Message Rate Test v7.4\n# [ pairs: 2 ] [ window size: 64 ]\n"
                    "# Size                  MB/s        Messages/s\n4194304 ") +
        rate + " 23000.5\n");
  };
  const Answer good = weft("check " + table("96200.1") + " --on dgx-h100:nodes=2");
  EXPECT_EQ(good.code, 0) << good.out << good.err;
  EXPECT_NE(good.out.find("2 ports of 2 pairs"), std::string::npos) << good.out;
  const Answer shared = weft("check " + table("48100.1") + " --on dgx-h100:nodes=2");
  EXPECT_EQ(shared.code, 1);
  EXPECT_NE(shared.out.find("share a port"), std::string::npos) << shared.out;
}

TEST_F(Pasted, DoctorNamesTheCommandForATableAndAnswersBesideAFileThatIsNotThere) {
  const std::string file = with(rows_of(1));
  const Answer table = weft("doctor " + file);
  EXPECT_EQ(table.code, 0);
  EXPECT_NE(table.out.find("weft check " + file), std::string::npos) << table.out;
  const Answer beside = weft("doctor " + file + " " + file + ".not-there");
  EXPECT_EQ(beside.code, 2);
  EXPECT_NE(beside.out.find("weft check " + file), std::string::npos) << beside.out;
  EXPECT_NE(beside.err.find("no such file"), std::string::npos) << beside.err;
}

}  // namespace
}  // namespace weft
