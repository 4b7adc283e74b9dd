#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"

// What the command prints and writes when it is interrupted.
namespace weft {
namespace {

using nlohmann::json;

struct Ended {
  int code = -1;
  std::string out, err;
};

// Runs weft and sends SIGINT when `ready` is true of what it has printed so far, or after `at_most` if given.
Ended interrupt(const std::vector<std::string>& arguments, const std::function<bool(const std::string&)>& ready,
                std::chrono::milliseconds at_most = std::chrono::hours(1)) {
  const std::string errors = testing::TempDir() + "/weft-interrupt-" + std::to_string(getpid()) + ".txt";
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGINT, SIG_DFL);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    dup2(open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    std::vector<char*> argv{const_cast<char*>("weft")};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    execv(WEFT_COMMAND, argv.data());
    _exit(127);
  }
  close(ends[1]);
  Ended ended;
  const auto until = std::chrono::steady_clock::now() + at_most;
  for (bool asked = false;;) {
    pollfd wait{ends[0], POLLIN, 0};
    if (poll(&wait, 1, 20) > 0) {
      char buffer[4096];
      const ssize_t n = read(ends[0], buffer, sizeof buffer);
      if (n <= 0) break;
      ended.out.append(buffer, static_cast<std::size_t>(n));
    }
    if (!asked && (ready(ended.out) || std::chrono::steady_clock::now() > until)) asked = kill(child, SIGINT) == 0;
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream in(errors);
  ended.err.assign(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove(errors);
  return ended;
}

// The sweep would take many minutes: it is interrupted when its first row is there.
TEST(Interrupted, ASweepPrintsAndWritesTheSizesThatAreDone) {
  const std::string file = testing::TempDir() + "/weft-interrupted-" + std::to_string(getpid()) + ".json";
  const Ended ended = interrupt({"bench", "all_reduce", "--on", "dgx-h100:nodes=64,net=ib-ndr", "--min", "64K", "--max",
                                 "8G", "--algo", "ring", "--no-fold", "--json", file},
                                [](const std::string& out) { return out.find(" ring ") != std::string::npos; });
  EXPECT_EQ(ended.code, 130) << ended.out;
  EXPECT_NE(ended.out.find("average busbw"), std::string::npos) << ended.out;
  std::ifstream in(file);
  const json report = json::parse(in, nullptr, false);
  ASSERT_FALSE(report.is_discarded());
  EXPECT_GE(report["rows"].size(), 1U);
  EXPECT_LT(report["rows"].size(), 18U);
  std::filesystem::remove(file);
}

TEST(Interrupted, RegretPrintsAndWritesTheRowsThatAreDone) {
  const std::string file = testing::TempDir() + "/weft-regret-" + std::to_string(getpid()) + ".json";
  const Ended ended = interrupt({"accuracy", "--regret", "dgx-h100;dgx-h100:nodes=64,net=ib-ndr", "--collective", "all",
                                 "--sizes", "8,1G", "--json", file},
                                [](const std::string& out) { return out.find(" all_reduce ") != std::string::npos; });
  EXPECT_EQ(ended.code, 130) << ended.err;
  EXPECT_NE(ended.err.find("weft: interrupted"), std::string::npos) << ended.err;
  EXPECT_NE(ended.out.find("# 1 choice, "), std::string::npos) << ended.out;
  std::ifstream in(file);
  const json report = json::parse(in, nullptr, false);
  ASSERT_FALSE(report.is_discarded());
  EXPECT_GE(report["rows"].size(), 1U);
  EXPECT_LT(report["rows"].size(), 32U);
  std::filesystem::remove(file);
}

// These print nothing before they are done: they are interrupted after a while, and say what is done by then.
TEST(Interrupted, ExplainPlaceAccuracyAndTrainSayWhatIsDone) {
  const std::vector<std::string> commands[] = {
      {"explain", "all_reduce", "--on", "dgx-h100:nodes=128,net=ib-ndr", "--bytes", "8G"},
      {"place", "--on", "dgx-h100:nodes=512,tiers=3", "--nodes", "128", "--bytes", "8G"},
      {"accuracy", std::string(WEFT_SOURCE) + "/data/measured"},
      {"train", "llama3-70b", "--on", "dgx-h100:nodes=128", "--global-batch", "2048", "--seq", "8192", "--best"}};
  for (const auto& command : commands) {
    const Ended ended = interrupt(
        command, [](const std::string&) { return false; }, std::chrono::milliseconds(700));
    EXPECT_EQ(ended.code, 130) << command[0] << ended.out << ended.err;
    EXPECT_NE(ended.err.find("weft: interrupted; "), std::string::npos) << command[0] << ended.err;
  }
}

}  // namespace
}  // namespace weft
