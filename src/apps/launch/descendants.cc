#include "apps/launch/descendants.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft::launch {
namespace {

// The parent of a process; 0: there is no such process, or it is a zombie.
pid_t parent_of(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(stat, line);
  const std::size_t close = line.rfind(')');  // a program's name may hold anything
  if (close == std::string::npos || close + 4 >= line.size() || line[close + 2] == 'Z') return 0;
  return static_cast<pid_t>(std::strtol(line.c_str() + close + 4, nullptr, 10));
}

std::vector<std::pair<pid_t, pid_t>> processes_and_parents() {
  std::vector<std::pair<pid_t, pid_t>> all;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    if (const pid_t parent = parent_of(pid); parent != 0) all.emplace_back(pid, parent);
  }
  return all;
}

std::set<pid_t> descendants() {
  const auto all = processes_and_parents();
  std::set<pid_t> below;
  for (bool more = true; more;) {
    more = false;
    for (const auto& [pid, parent] : all)
      if (parent == getpid() || below.contains(parent)) more |= below.insert(pid).second;
  }
  return below;
}

}  // namespace

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void kill_descendants() {
  constexpr int kMostRounds = 100;  // a process that forks faster than this is not awaited for ever
  for (int round = 0; round < kMostRounds; ++round) {
    const std::set<pid_t> below = descendants();
    for (const pid_t pid : below) kill(pid, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (below.empty()) return;
    usleep(1000);
  }
}

}  // namespace weft::launch
