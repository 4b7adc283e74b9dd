#include "apps/launch/rank_processes.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "api/calibrate/cpus.h"

namespace weft::launch {

BlockedSignals::BlockedSignals(std::initializer_list<int> signals) {
  sigemptyset(&set_);
  sigaddset(&set_, SIGCHLD);
  for (const int s : signals) sigaddset(&set_, s);
  sigprocmask(SIG_BLOCK, &set_, &before_);
}

int BlockedSignals::next() const {
  const timespec tick{0, 100'000'000};
  const int s = sigtimedwait(&set_, nullptr, &tick);
  return s < 0 ? 0 : s;
}

Result<int> BlockedSignals::descriptor() const {
  const int fd = signalfd(-1, &set_, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return failure(Code::kSystem, Blame::kProcess, "signalfd: {}", std::strerror(errno));
  return fd;
}

int BlockedSignals::take(int descriptor) {
  signalfd_siginfo info;
  return read(descriptor, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

int RankProcesses::Ended::code() const { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }
int RankProcesses::Ended::signal() const { return WIFSIGNALED(status) ? WTERMSIG(status) : 0; }

Status RankProcesses::start(Rank rank, const std::vector<int>& cpus, const std::function<int()>& body) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return failure(Code::kSystem, Blame::kProcess, "fork of rank {}: {}", rank, std::strerror(errno));
  if (child == 0) {
    if (groups_) setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // the parent died before the line above
    if (!cpus.empty()) calibrate::pin_to(cpus);
    const int code = body();
    std::fflush(nullptr);
    _exit(code);
  }
  // In both processes, for either may be first.
  if (groups_) setpgid(child, child);
  all_.push_back({rank, child});
  ++running_;
  return {};
}

void RankProcesses::signal_all(int signal) const {
  for (const Child& c : all_) {
    if (groups_)
      kill(-c.pid, signal);
    else if (!c.ended)
      kill(c.pid, signal);
  }
}

bool RankProcesses::any_left() const {
  return groups_ && std::any_of(all_.begin(), all_.end(), [](const Child& c) { return kill(-c.pid, 0) == 0; });
}

std::vector<RankProcesses::Ended> RankProcesses::reap() {
  std::vector<Ended> ended;
  for (Child& c : all_) {
    Ended e{.rank = c.rank, .pid = c.pid};
    if (c.ended || waitpid(c.pid, &e.status, WNOHANG) != c.pid) continue;
    c.ended = true;
    --running_;
    ended.push_back(e);
  }
  return ended;
}

std::string signal_text(int signal) { return fmt::format("signal {} ({})", signal, strsignal(signal)); }

}  // namespace weft::launch
