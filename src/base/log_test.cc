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
  EXPECT_EQ(s.algorithm, "tree");
  EXPECT_EQ(s.protocol, "LL128");
  EXPECT_EQ(s.channels, 4);
  EXPECT_EQ(s.interface, "eth0");
  EXPECT_EQ(s.log.level, LogLevel::kInfo);
  EXPECT_EQ(s.log.parts, *parse_log_parts("x", "INIT,PLAN"));
  EXPECT_EQ(s.log.file, "/tmp/%h.%p");
  EXPECT_EQ(s.transport, "tcp");
  EXPECT_EQ(s.device_path, "host");
  EXPECT_TRUE(s.nccl_ignored.empty());
  EXPECT_EQ(translated({{"NCCL_SOCKET_IFNAME", "eth"}}).interface, "eth*");  // NCCL's is the beginning of a name
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
  const auto s = translated({{"NCCL_ALGO", "NVLS,Tree"},
                             {"NCCL_PROTO", "^LL"},
                             {"NCCL_MAX_NCHANNELS", "8"},
                             {"NCCL_SOCKET_IFNAME", "^docker0"},
                             {"NCCL_DEBUG", "LOUD"},
                             {"NCCL_TOPO_FILE", "x.xml"},
                             {"NCCL_TOPO_DUMP_FILE", "y.xml"},
                             {"NCCL_BUFFSIZE", "8388608"}});
  EXPECT_EQ(s.nccl_ignored.size(), 8u);
  for (const std::string& line : s.nccl_ignored) EXPECT_TRUE(contains(line, " has no effect: ")) << line;
  EXPECT_TRUE(s.algorithm.empty() && s.protocol.empty() && s.channels == 0 && s.interface.empty());
}

TEST(NcclNames, SwitchesThatAreOffMeanNothing) {
  const auto s = translated({{"NCCL_SHM_DISABLE", "0"}, {"NCCL_P2P_DISABLE", "0"}, {"NCCL_ALGO", ""}});
  EXPECT_TRUE(s.transport.empty() && s.device_path.empty());
  EXPECT_TRUE(s.nccl_understood.empty() && s.nccl_ignored.empty());
}

}  // namespace
}  // namespace weft
