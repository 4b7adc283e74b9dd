#include "apps/launch/agent_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace weft::launch {
namespace {

constexpr std::size_t kMostErrors = 4096;
constexpr int kNoSuchCommand = 127, kSshFailed = 255;  // exit codes of shells and of ssh

bool is_this_host(const std::string& name) {
  char own[256] = {};
  gethostname(own, sizeof own - 1);
  return name == "localhost" || name == own;
}

// A word for any shell that ssh may start there.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Everything else, secrets among it, goes through the pipe.
std::vector<std::string> words_for(const HostsJob& job, const HostRanks& host, bool local) {
  if (local) return {"/proc/self/exe", "run-agent"};
  std::vector<std::string> words = job.ssh;
  for (const char* word :
       {"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "--"})
    words.emplace_back(word);
  words.push_back(host.name);
  words.push_back("sh -c " +
                  quoted(fmt::format("w={}; test -x \"$w\" || w=weft; exec \"$w\" run-agent", quoted(job.command))));
  return words;
}

// Reads once; closes at the end.
void read_into(UniqueFd& fd, const std::function<void(std::string_view)>& take) {
  char buffer[65536];
  const ssize_t n = read(fd.get(), buffer, sizeof buffer);
  if (n > 0) return take({buffer, static_cast<std::size_t>(n)});
  if (n == 0 || (errno != EINTR && errno != EAGAIN)) fd.reset();
}

}  // namespace

Result<AgentProcess> AgentProcess::start(const HostsJob& job, const HostRanks& host, const BlockedSignals& signals) {
  AgentProcess agent;
  agent.host_ = host;
  agent.running = host.ranks;
  agent.local_ = is_this_host(host.name);
  std::array<UniqueFd, 3> here, there;
  for (std::size_t i = 0; i < 3; ++i) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return failure(Code::kSystem, Blame::kProcess, "pipe to {}: {}", host.name, std::strerror(errno));
    here[i] = UniqueFd(ends[i == 0 ? 1 : 0]);
    there[i] = UniqueFd(ends[i == 0 ? 0 : 1]);
  }
  std::vector<std::string> words = words_for(job, host, agent.local_);
  agent.pid_ = fork();
  if (agent.pid_ < 0)
    return failure(Code::kSystem, Blame::kProcess, "fork for {}: {}", host.name, std::strerror(errno));
  if (agent.pid_ == 0) {
    setpgid(0, 0);
    signals.restore();
    signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < 3; ++i) dup2(there[static_cast<std::size_t>(i)].get(), i);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    fmt::print(stderr, "{}: {}\n", words[0], std::strerror(errno));
    std::fflush(stderr);
    _exit(kSshFailed);
  }
  setpgid(agent.pid_, agent.pid_);
  agent.in_ = std::move(here[0]);
  agent.out_ = std::move(here[1]);
  agent.err_ = std::move(here[2]);
  return agent;
}

void AgentProcess::write_some() {
  if (!to_.write_some(in_.get())) in_.reset();
}

void AgentProcess::read_out() {
  read_into(out_, [this](std::string_view bytes) { from_.add(bytes); });
}

void AgentProcess::read_err() {
  read_into(err_, [this](std::string_view bytes) {
    errors_ += bytes;
    if (errors_.size() > kMostErrors) errors_.erase(0, errors_.size() - kMostErrors);
  });
}

Result<std::optional<Frame>> AgentProcess::next(const std::string& version) {
  if (!greeted_) {
    const auto theirs = from_.greeting();
    if (!theirs) return bad_input("host {}: {}", host(), theirs.error().message);
    if (!*theirs) return std::nullopt;
    if (**theirs != version) return bad_input("host {} has weft {}, this host has {}", host(), **theirs, version);
    greeted_ = true;
  }
  auto frame = from_.next();
  if (!frame) return bad_input("host {}: {}", host(), frame.error().message);
  if (*frame && (*frame)->kind == FrameKind::kProblem) return bad_input("host {}: {}", host(), (*frame)->text);
  return frame;
}

void AgentProcess::kill_now() const {
  if (!ended_) kill(-pid_, SIGKILL);
}

bool AgentProcess::reap() {
  if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
  return ended_;
}

std::string AgentProcess::how_it_ended(const HostsJob& job) const {
  std::string last = errors_;
  while (!last.empty() && std::strchr("\r\n ", last.back()) != nullptr) last.pop_back();
  last = last.substr(last.rfind('\n') == std::string::npos ? 0 : last.rfind('\n') + 1);
  const int code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  if (code == kNoSuchCommand && !local_)
    return fmt::format("host {} has no weft: neither {} nor weft in its PATH (--weft PATH names another)", host(),
                       job.command);
  if (!greeted_ && last.find("unknown command") != std::string::npos)
    return fmt::format("host {} has another version of weft than {}", host(), job.version);
  if (code == kSshFailed && !last.empty()) return fmt::format("host {}: {}", host(), last);
  if (said_hello) return fmt::format("lost host {}{}{}", host(), last.empty() ? "" : ": ", last);
  return fmt::format("host {}: {} ended with code {}{}{}", host(), local_ ? "the agent" : job.ssh.front(), code,
                     last.empty() ? "" : ": ", last);
}

}  // namespace weft::launch
