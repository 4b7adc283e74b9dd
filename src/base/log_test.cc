#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/nccl_names.h"

namespace weft {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  return text.str();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Log, WritesItsLevelAndPartsIntoAFilePerRank) {
  const std::string pattern = testing::TempDir() + "/weft-log-%p-%r";
  const std::string file = testing::TempDir() + fmt::format("/weft-log-{}-3", getpid());
  {
    const auto parts = parse_log_parts("x", "NET,plan");
    const auto log = Log::open({.level = LogLevel::kInfo, .parts = *parts, .file = pattern}, 3);
    ASSERT_TRUE(log) << log.error().message;
    (*log)->info(LogPart::kNet, "eth0 {}", "is used");
    (*log)->info(LogPart::kInit, "not this part");
    (*log)->trace(LogPart::kNet, "not this level");
    (*log)->warn(LogPart::kPlan, "a name\nwith two lines");
  }
  const std::string text = text_of(file);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_TRUE(contains(text, fmt::format(":{} [3] weft INFO NET eth0 is used\n", getpid()))) << text;
  EXPECT_TRUE(contains(text, "[3] weft WARN PLAN a name\\x0awith two lines\n")) << text;
}

TEST(Log, OneThatIsOffWritesNothing) {
  const auto log = Log::open({.file = "/nonexistent/folder/file"}, 0);
  ASSERT_TRUE(log);
  EXPECT_FALSE((*log)->writes(LogLevel::kWarn, LogPart::kFault));
}

TEST(Log, AFileThatCannotBeOpenedIsNamed) {
  const auto log = Log::open({.level = LogLevel::kInfo, .file = "/nonexistent/folder/file"}, 0);
  ASSERT_FALSE(log);
  EXPECT_TRUE(contains(log.error().message, "/nonexistent/folder/file"));
}

TEST(Log, LevelsAndPartsAreNcclsToo) {
  EXPECT_EQ(*parse_log_level("x", "info"), LogLevel::kInfo);
  EXPECT_EQ(*parse_log_level("x", "1"), LogLevel::kWarn);
  EXPECT_EQ(*parse_log_level("x", "VERSION"), LogLevel::kNone);
  EXPECT_FALSE(parse_log_level("x", "LOUD"));
  EXPECT_EQ(*parse_log_parts("x", "TUNING"), *parse_log_parts("x", "PLAN"));
  EXPECT_EQ(*parse_log_parts("x", "^CALL") & 1U << static_cast<unsigned>(LogPart::kCall), 0U);
  EXPECT_NE(*parse_log_parts("x", "^CALL") & 1U << static_cast<unsigned>(LogPart::kNet), 0U);
  EXPECT_FALSE(parse_log_parts("x", "NETS"));
}

env::Settings translated(const std::map<std::string, std::string>& nccl, env::Settings settings = {}) {
  env::apply_nccl_names(nccl, settings);
  return settings;
}

TEST(NcclNames, MeanWhatWeftsOwnVariablesSay) {
  const auto s = translated({{"NCCL_ALGO", "Tree"},
                             {"NCCL_PROTO", "ll128"},
                             {"NCCL_MIN_NCHANNELS", "4"},
                             {"NCCL_MAX_NCHANNELS", "4"},
                             {"NCCL_SOCKET_IFNAME", "=eth0"},
                             {"NCCL_DEBUG", "INFO"},
                             {"NCCL_DEBUG_SUBSYS", "INIT,TUNING"},
                             {"NCCL_DEBUG_FILE", "/tmp/%h.%p"},
                             {"NCCL_SHM_DISABLE", "1"},
                             {"NCCL_P2P_DISABLE", "1"}});
  EXPECT_EQ(env::filter_of(s.nccl_algorithms, "all_reduce").text(), "tree");
  EXPECT_EQ(env::filter_of(s.nccl_protocols, "broadcast").text(), "LL128");
  EXPECT_EQ(s.channels, 4);
  EXPECT_EQ(s.interface, "eth0");
  EXPECT_EQ(s.log.level, LogLevel::kInfo);
  EXPECT_EQ(s.log.parts, *parse_log_parts("x", "INIT,PLAN"));
  EXPECT_EQ(s.log.file, "/tmp/%h.%p");
  EXPECT_EQ(s.transport, "tcp");
  EXPECT_EQ(s.device_path, "host");
  EXPECT_TRUE(s.nccl_ignored.empty());
  EXPECT_EQ(translated({{"NCCL_SOCKET_IFNAME", "eth"}}).interface, "eth*");  // NCCL's is the beginning of a name
  EXPECT_EQ(translated({{"NCCL_SOCKET_IFNAME", "eth0,ib"}}).interface, "eth0*,ib*");
  EXPECT_EQ(translated({{"NCCL_SOCKET_IFNAME", "=eth0,eth1"}}).interface, "eth0,eth1");
  EXPECT_EQ(translated({{"NCCL_SOCKET_IFNAME", "^docker,lo"}}).interface, "^docker*,lo*");
  EXPECT_EQ(translated({{"NCCL_SOCKET_IFNAME", "^=docker0"}}).interface, "^docker0");
}

TEST(NcclNames, WeftsOwnVariablesComeFirst) {
  env::Settings own;
  own.algorithm = "ring";
  own.transport = "shm";
  const auto s = translated({{"NCCL_ALGO", "Tree"}, {"NCCL_SHM_DISABLE", "1"}}, own);
  EXPECT_EQ(s.algorithm, "ring");
  EXPECT_EQ(s.transport, "shm");
  ASSERT_EQ(s.nccl_understood.size(), 2u);
  EXPECT_TRUE(contains(s.nccl_understood[0], "NCCL_ALGO=Tree is overruled by WEFT_ALGO"));
  env::Settings quiet;  // WEFT_DEBUG=NONE WEFT_DEBUG_SUBSYS=ALL
  quiet.log_level_given = quiet.log_parts_given = true;
  const auto kept = translated({{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", "NET"}}, quiet);
  EXPECT_EQ(kept.log.level, LogLevel::kNone);
  EXPECT_EQ(kept.log.parts, ~0U);
}

TEST(NcclNames, WhatCannotBeHonouredSaysWhy) {
  const auto s = translated({{"NCCL_ALGO", "Butterfly"},
                             {"NCCL_PROTO", "LL64"},
                             {"NCCL_MAX_NCHANNELS", "many"},
                             {"NCCL_SOCKET_IFNAME", "eth0,,eth1"},
                             {"NCCL_DEBUG", "LOUD"},
                             {"NCCL_TOPO_FILE", "x.xml"},
                             {"NCCL_TOPO_DUMP_FILE", "y.xml"},
                             {"NCCL_BUFFSIZE", "8M"}});
  EXPECT_EQ(s.nccl_ignored.size(), 8u);
  for (const std::string& line : s.nccl_ignored) EXPECT_TRUE(contains(line, " has no effect: ")) << line;
  EXPECT_TRUE(s.algorithm.empty() && s.protocol.empty() && s.channels == 0 && s.interface.empty());
}

std::string filter(const env::Settings& s, const char* collective) {
  return env::filter_of(s.nccl_algorithms, collective).text();
}

TEST(NcclNames, ListsHoldForEveryFunctionUntilOneIsNamed) {
  const auto s = translated({{"NCCL_ALGO", "ring,CollNetDirect;allreduce:tree,nvlstree; Broadcast : RING"}});
  EXPECT_EQ(filter(s, "all_gather"), "ring, collnet_direct");
  EXPECT_EQ(filter(s, "all_reduce"), "tree, nvls_tree");
  EXPECT_EQ(filter(s, "broadcast"), "ring");
  EXPECT_TRUE(s.nccl_ignored.empty());
  const auto one = translated({{"NCCL_ALGO", "reducescatter:pat"}});
  EXPECT_EQ(filter(one, "reduce_scatter"), "pat");
  EXPECT_FALSE(env::filter_of(one.nccl_algorithms, "all_reduce").limits());
}

TEST(NcclNames, ACaretLeavesOutWhatFollowsIt) {
  const auto s = translated({{"NCCL_ALGO", "^Tree,NVLS"}, {"NCCL_PROTO", "^LL128;allreduce:LL128"}});
  const NameFilter& algorithms = env::filter_of(s.nccl_algorithms, "all_reduce");
  EXPECT_FALSE(algorithms.allows("tree") || algorithms.allows("nvls"));
  EXPECT_TRUE(algorithms.allows("ring") && algorithms.allows("two_shot"));
  EXPECT_TRUE(env::filter_of(s.nccl_protocols, "all_gather").allows("Simple"));
  EXPECT_FALSE(env::filter_of(s.nccl_protocols, "all_gather").allows("LL128"));
  EXPECT_EQ(env::filter_of(s.nccl_protocols, "all_reduce").text(), "LL128");
}

TEST(NcclNames, OfAListWithAWordThatNcclHasNotTheRestHolds) {
  const auto s = translated({{"NCCL_ALGO", "Ring,Butterfly;fold:tree"}});
  EXPECT_EQ(filter(s, "all_reduce"), "ring");
  ASSERT_EQ(s.nccl_ignored.size(), 1u);
  EXPECT_TRUE(contains(s.nccl_ignored[0], "Butterfly, fold of it")) << s.nccl_ignored[0];
}

TEST(NcclNames, ChannelsAreARangeAndTheSmallestWins) {
  const auto s = translated({{"NCCL_MIN_NCHANNELS", "4"}, {"NCCL_MAX_NCHANNELS", "16"}});
  EXPECT_EQ(s.least_channels, 4);
  EXPECT_EQ(s.most_channels, 16);
  EXPECT_EQ(s.channels, 0);
  EXPECT_EQ(translated({{"NCCL_MIN_NCHANNELS", "8"}, {"NCCL_MAX_NCHANNELS", "2"}}).channels, 8);
  EXPECT_EQ(translated({{"NCCL_MAX_NRINGS", "2"}}).most_channels, 2);
  // Thread blocks bound channels, too, and the narrower bound holds.
  EXPECT_EQ(translated({{"NCCL_MAX_CTAS", "8"}, {"NCCL_MAX_NCHANNELS", "16"}}).most_channels, 8);
  EXPECT_EQ(translated({{"NCCL_MIN_CTAS", "6"}, {"NCCL_MIN_NCHANNELS", "2"}}).least_channels, 6);
  EXPECT_EQ(translated({{"NCCL_MIN_CTAS", "4"}, {"NCCL_MAX_CTAS", "4"}}).channels, 4);
  EXPECT_TRUE(contains(translated({{"NCCL_MAX_CTAS", "8"}}).nccl_understood[0], "at most 8 channels"));
}

TEST(NcclNames, ThreadsTimesSocketsAreConnections) {
  EXPECT_EQ(translated({{"NCCL_SOCKET_NTHREADS", "2"}, {"NCCL_NSOCKS_PERTHREAD", "4"}}).sockets, 8);
  const auto many = translated({{"NCCL_SOCKET_NTHREADS", "16"}, {"NCCL_NSOCKS_PERTHREAD", "8"}});
  EXPECT_EQ(many.sockets, 16);
  ASSERT_EQ(many.nccl_understood.size(), 1u);
  EXPECT_TRUE(contains(many.nccl_understood[0], "more than NCCL's 64")) << many.nccl_understood[0];
  EXPECT_EQ(translated({{"NCCL_SOCKET_NTHREADS", "none"}}).sockets, 1);
}

TEST(NcclNames, LevelsAreNamesOrNcclsOlderNumbers) {
  EXPECT_EQ(translated({{"NCCL_P2P_LEVEL", "LOC"}}).device_path, "host");
  EXPECT_EQ(translated({{"NCCL_P2P_LEVEL", "1"}}).nccl_p2p, "pix");
  EXPECT_EQ(translated({{"NCCL_NET_GDR_LEVEL", "PHB"}}).nccl_gdr, "phb");
  EXPECT_EQ(translated({{"NCCL_NET_GDR_LEVEL", "near"}}).nccl_ignored.size(), 1u);
  EXPECT_EQ(translated({{"NCCL_BUFFSIZE", "1048576"}}).nccl_buffer, Bytes{1} << 20);
}

TEST(NcclNames, NicsAreBeginningsOfNamesUnlessTheyAreWhole) {
  const auto allows = [](const char* value, const char* nic) {
    return env::allows_nic(translated({{"NCCL_IB_HCA", value}}).nccl_nics, nic);
  };
  EXPECT_TRUE(allows("mlx5", "mlx5_3"));
  EXPECT_TRUE(allows("mlx5_1", "mlx5_10"));
  EXPECT_FALSE(allows("=mlx5_1", "mlx5_10"));
  EXPECT_TRUE(allows("=mlx5_0:1,mlx5_1:1", "mlx5_1"));
  EXPECT_FALSE(allows("^mlx5_bond", "mlx5_bond_0"));
  EXPECT_TRUE(allows("^=mlx5_1", "mlx5_10"));
}

TEST(NcclNames, SwitchesThatAreOffMeanNothing) {
  const auto s = translated({{"NCCL_SHM_DISABLE", "0"}, {"NCCL_P2P_DISABLE", "0"}, {"NCCL_ALGO", ""}});
  EXPECT_TRUE(s.transport.empty() && s.device_path.empty());
  EXPECT_TRUE(s.nccl_understood.empty() && s.nccl_ignored.empty());
}

}  // namespace
}  // namespace weft
