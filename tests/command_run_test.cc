#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"

// Ranks that are started here, and what they log.
namespace weft {
namespace {

using nlohmann::json;

TEST(Command, RunsForRealBetweenProcessesAndThreadsWithCheckedResults) {
  for (const char* transport : {"shm", "threads"}) {
    for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "broadcast"}) {
      const Answer a =
          weft(std::string("bench ") + collective +
               " --ranks 3 --min 8 --max 256K --factor 32 --iters 3 --check --json - --transport " + transport);
      ASSERT_EQ(a.code, 0) << collective << ": " << a.err;
      const json report = json::parse(a.out);
      EXPECT_EQ(report.at("world"), "real");
      for (const json& row : report.at("rows")) EXPECT_EQ(row.at("errors"), 0) << collective;
    }
  }
}

TEST(Command, RunStartsRanksThatFindEachOther) {
  const Answer a =
      weft(std::string("run -n 2 -- ") + WEFT_COMMAND + " bench all_reduce --max 64 --iters 2 --check --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(json::parse(a.out).at("ranks"), 2);
}

TEST(Command, RunReturnsTheFailingRanksCodeAndNamesASignal) {
  EXPECT_EQ(weft("run -n 2 -- sh -c 'exit 7'").code, 7);
  const Answer killed = weft("run -n 2 -- sh -c '[ $WEFT_RANK = 0 ] || kill -KILL $$'");
  EXPECT_EQ(killed.code, 137);
  EXPECT_NE(killed.err.find("rank 1"), std::string::npos) << killed.err;
}

// A rank's children, whose own parent has gone, end with the job; ranks have time to say something before.
TEST(Command, ASignalToTheLauncherIsPassedOnAndReachesWhatRanksHaveStarted) {
  const std::string folder = std::filesystem::temp_directory_path() / ("weft-signal-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto file = [&](const std::string& name) { return folder + "/" + name; };
  const std::string rank = "trap \"touch " + file("said") + "; exit 3\" TERM; sleep 600 & echo $! >" +
                           file("child.tmp") + "; mv " + file("child.tmp") + " " + file("child") + "; wait";
  std::ofstream(file("rank")) << rank;
  const std::string line = "exec " WEFT_COMMAND " run -n 1 -- sh " + file("rank") + " </dev/null >/dev/null 2>&1";
  const pid_t launcher = fork();
  if (launcher == 0) {
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  for (int i = 0; i < 1000 && !std::filesystem::exists(file("child")); ++i) usleep(20000);
  pid_t child = -1;
  std::ifstream(file("child")) >> child;
  ASSERT_GT(child, 0);
  kill(launcher, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(launcher, &status, 0), launcher);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM) << status;
  EXPECT_TRUE(std::filesystem::exists(file("said")));
  for (int i = 0; i < 100 && kill(child, 0) == 0; ++i) usleep(10000);  // until it has been reaped
  std::string stat;  // a container whose first process reaps nobody keeps it as a zombie
  std::ifstream("/proc/" + std::to_string(child) + "/stat") >> stat >> stat >> stat;
  EXPECT_TRUE(kill(child, 0) != 0 || stat == "Z") << stat;
  std::filesystem::remove_all(folder);
}

// Each rank starts a process over UCX, kills it once its memory has a name where it should, leaves a name as if it had
// been killed earlier, and is killed itself.
TEST(Command, RanksOverUcxThatAreKilledLeaveNoNameInSharedMemory) {
  if (weft("run -n 1 --transport ucx -- true").code != 0) GTEST_SKIP() << "no UCX";
  const std::string context =
      "\"$0\" bench all_reduce --max 64 --iters 100000000 >/dev/null 2>&1 & "
      "i=0; until grep -qs \"$UCX_POSIX_DIR/ucx_shm\" /proc/$!/maps || [ $i = 600 ]; do sleep 0.05; i=$((i+1)); done; "
      "[ $i = 600 ] || echo \"$UCX_POSIX_DIR\"; touch \"$UCX_POSIX_DIR/ucx_shm_posix_of_$WEFT_RANK\"; "
      "kill -KILL $! $$";
  const Answer a = weft("run -n 2 --transport ucx -- sh -c '" + context + "' " + WEFT_COMMAND);
  EXPECT_EQ(a.code, 137) << a.err;
  const std::string folder = a.out.substr(0, a.out.find('\n'));
  EXPECT_TRUE(folder.starts_with("/dev/shm/")) << "UCX has its memory elsewhere: " << a.out;
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(Run, AProgramsOptionsNeedNoDashes) {
  EXPECT_EQ(weft("run -n 2 echo --ranks -n 5 --help").out, "--ranks -n 5 --help\n--ranks -n 5 --help\n");
  EXPECT_EQ(weft("run -n 1 -- echo -n x").out, "x");
}

TEST(Run, PortsBoundWhereRanksMeetOnThisHost) {
  setenv("WEFT_PORTS", "23600-23699", 1);
  const Answer a = weft("run -n 1 --transport tcp sh -c 'echo ${WEFT_ARBITER##*:}'");
  unsetenv("WEFT_PORTS");
  ASSERT_EQ(a.code, 0) << a.err;
  const int port = std::stoi(a.out);
  EXPECT_TRUE(port >= 23600 && port <= 23699) << port;
}

TEST(Run, OptionsForHostsNeedHosts) {
  for (const std::string option :
       {"--folder /", "--env A=1", "--weft weft", "--ssh ssh", "--ports 20000", "--on-failure wait", "--no-label"}) {
    const Answer a = weft("run -n 1 " + option + " true");
    EXPECT_EQ(a.code, 2) << option;
    const std::string problem = option.substr(0, option.find(' ')) + " is for ranks on --hosts";
    EXPECT_NE(a.err.find(problem), std::string::npos) << a.err;
  }
}

TEST(Run, LabelledLinesComeWholeAndBeginWithTheirRank) {
  const Answer a =
      weft("run -n 2 --label sh -c 'printf one; sleep 0.2; printf \"two\\n\"; echo to stderr >&2; printf end'");
  EXPECT_EQ(a.code, 0) << a.err;
  for (const std::string line : {"[0] onetwo\n", "[1] onetwo\n", "[0] end\n", "[1] end\n"})
    EXPECT_NE(a.out.find(line), std::string::npos) << line << a.out;
  for (const std::string line : {"[0] to stderr\n", "[1] to stderr\n"})
    EXPECT_NE(a.err.find(line), std::string::npos) << line << a.err;
}

TEST(Run, LabelledRanksThatLeaveAProcessBehindDoNotKeepTheJob) {
  const Answer a = weft("run -n 1 --label sh -c 'sleep 30 & echo here; exit 3'");
  EXPECT_EQ(a.code, 3);
  EXPECT_EQ(a.out, "[0] here\n");
}

TEST(Run, AutoIsOneRankPerCoreOfThisProcess) {
  const Answer a = weft("run --nproc auto sh -c 'echo $WEFT_SIZE'");
  EXPECT_EQ(a.code, 0) << a.err;
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  EXPECT_EQ(std::stoi(a.out), CPU_COUNT(&mine));
  EXPECT_EQ(weft("run -n many true").code, 2);
}

TEST(Run, ThisHostNeedsNoSsh) {
  const Answer a =
      weft("run --hosts localhost:2 --ssh false sh -c 'echo rank $WEFT_RANK of $WEFT_SIZE; exit $WEFT_RANK'");
  EXPECT_EQ(a.code, 1);
  EXPECT_NE(a.out.find("[0] rank 0 of 2\n"), std::string::npos) << a.out << a.err;
  EXPECT_NE(a.out.find("[1] rank 1 of 2\n"), std::string::npos) << a.out << a.err;
  EXPECT_NE(a.err.find("weft: rank 1 on localhost ended with exit code 1\n"), std::string::npos) << a.err;
}

TEST(DebugLog, SaysInterfacesPathsPlansConnectionsAndCalls) {
  const Answer a = weft(std::string("run -n 2 --transport tcp env WEFT_DEBUG=TRACE ") + WEFT_COMMAND +
                        " bench all_reduce --min 1K --max 1K --iters 1");
  EXPECT_EQ(a.code, 0) << a.err;
  for (const char* line :
       {"[0] weft INFO INIT rank 0 of 2", "[1] weft INFO NET interface lo 127.0.0.1: used",
        "[0] weft INFO PATH to rank 1: tcp, process", "weft INFO PLAN all_reduce of 1 KiB on 2 ranks: ", "; next ",
        "weft INFO NET connection 0 with process", "weft TRACE CALL #1: all_reduce of 256 float"})
    EXPECT_NE(a.err.find(line), std::string::npos) << line << "\n" << a.err;
}

TEST(DebugLog, OffItSaysNothingAndAWrongWordIsNamed) {
  const std::string run = "run -n 2 --transport tcp ", bench = " bench barrier --iters 1";
  EXPECT_EQ(weft(run + WEFT_COMMAND + bench).err, "");
  const Answer wrong = weft(run + "env WEFT_DEBUG=LOUD " + WEFT_COMMAND + bench);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("WEFT_DEBUG 'LOUD'"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace weft
