// `weft ps` on jobs that run, stand still and have died.

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/processes.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

std::string run(const std::string& arguments) {
  std::string out;
  FILE* pipe = popen((std::string(WEFT_COMMAND) + " " + arguments + " 2>&1").c_str(), "r");
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  pclose(pipe);
  return out;
}

// A job of three ranks, as if on two machines if the transport joins such, that reduces for a long time; its launcher
// is the child, so that all end with it.
tests::Process long_job(const std::string& transport) {
  return tests::Process([transport](tests::Report&) {
    setenv("WEFT_HEAP", "64M", 1);
    freopen("/dev/null", "w", stdout);
    const char* machines = transport.starts_with("shm+") ? "2" : "1";
    execl(WEFT_COMMAND, "weft", "run", "-n", "3", "--machines", machines, "--transport", transport.c_str(), "--",
          WEFT_COMMAND, "bench", "all_reduce", "--algo", "ring", "--min", "64K", "--max", "64K", "--iters", "100000000",
          nullptr);
  });
}

pid_t parent_of(pid_t pid) {
  int parent = -1;
  FILE* stat = fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r");
  if (stat == nullptr) return -1;
  if (fscanf(stat, "%*d (%*[^)]) %*c %d", &parent) != 1) parent = -1;
  fclose(stat);
  return parent;
}

bool is_running_child(const json& rank, pid_t launcher) {
  return rank.contains("pid") && !rank["operation"].is_null() && rank["operation"]["number"] > 20 &&
         parent_of(rank["pid"]) == launcher;
}

// The communicator of the launcher's children, once all have called something; null: they do not come.
json communicator_of(pid_t launcher) {
  for (int attempt = 0; attempt < 600; ++attempt, std::this_thread::sleep_for(100ms)) {
    const json all = json::parse(run("ps --json -"));
    for (const json& c : all["communicators"])
      if (std::all_of(c["ranks"].begin(), c["ranks"].end(),
                      [&](const json& rank) { return is_running_child(rank, launcher); }))
        return c;
  }
  return json();
}

class PsOfProcesses : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::string(GetParam()).ends_with("ucx")) return;
    if (const std::string refusal = run("run -n 1 --transport ucx -- true"); !refusal.empty()) GTEST_SKIP() << refusal;
  }
};

INSTANTIATE_TEST_SUITE_P(Over, PsOfProcesses, testing::Values("shm", "tcp", "shm+tcp", "shm+ucx"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

TEST_P(PsOfProcesses, NamesTheStoppedRankAndWhoWaitsForIt) {
  tests::Process job = long_job(GetParam());
  const json before = communicator_of(job.pid());
  ASSERT_FALSE(before.is_null()) << run("ps");
  EXPECT_EQ(before["transport"], GetParam());
  const std::string name = before["job"];
  const bool sockets = std::string(GetParam()).ends_with("tcp");
  for (const json& rank : before["ranks"]) {
    EXPECT_EQ(rank.contains("sockets"), sockets);
    std::int64_t carried = 0;
    for (const json& s : rank.value("sockets", json::array())) carried += s["out_bytes"].get<std::int64_t>();
    EXPECT_EQ(carried > 0, sockets) << rank.dump(1);
  }
  const pid_t victim = before["ranks"][1]["pid"];
  kill(victim, SIGSTOP);
  json stuck;
  for (int attempt = 0; attempt < 100; ++attempt, std::this_thread::sleep_for(100ms)) {
    stuck = json::parse(run("ps " + name + " --json -"))["communicators"][0];
    if (!stuck["late"].empty() && stuck["late"][0]["behind"] == 2) break;
  }
  ASSERT_EQ(stuck["late"].size(), 1u) << stuck.dump(1);
  EXPECT_EQ(stuck["late"][0]["rank"], 1);
  EXPECT_EQ(stuck["late"][0]["behind"], 2);
  EXPECT_EQ(stuck["ranks"][1]["doing"], "stopped");
  EXPECT_EQ(stuck["ranks"][0]["doing"], "waiting");
  EXPECT_EQ(stuck["ranks"][2]["waits"]["for"], 1) << stuck.dump(1);
  EXPECT_GT(stuck["ranks"][2]["waits"]["steps"], 0);
  const std::string text = run("ps " + name.substr(0, 12));
  EXPECT_NE(text.find("late: rank 1 keeps 2 ranks waiting: its process is stopped"), std::string::npos) << text;
  EXPECT_NE(run("ps").find("rank 1 is late"), std::string::npos);
  kill(victim, SIGCONT);
  json after;
  for (int attempt = 0; attempt < 100; ++attempt, std::this_thread::sleep_for(100ms)) {
    after = json::parse(run("ps " + name + " --json -"))["communicators"][0];
    if (after["late"].empty()) break;
  }
  EXPECT_TRUE(after["late"].empty()) << after.dump(1);
}

TEST_P(PsOfProcesses, RecordsOfAKilledJobAreRemoved) {
  std::string name;
  {
    tests::Process job = long_job(GetParam());
    const json seen = communicator_of(job.pid());
    ASSERT_FALSE(seen.is_null());
    name = seen["job"];
  }
  for (int attempt = 0; attempt < 100 && run("ps").find(name) != std::string::npos; ++attempt)
    std::this_thread::sleep_for(100ms);
  EXPECT_EQ(run("ps").find(name), std::string::npos);
  EXPECT_NE(run("ps " + name).find("no job of this user"), std::string::npos);
}

}  // namespace
}  // namespace weft
