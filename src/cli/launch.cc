#include "cli/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include "api/open.h"
#include "base/env.h"
#include "calibrate/cpus.h"
#include "net/bootstrap/arbiter.h"
#include "net/bootstrap/meeting.h"
#include "net/shm/shm.h"
#include "net/ucx/ucx.h"
#include "recorder/recorder.h"

namespace weft::cli {
namespace {

constexpr std::chrono::seconds kGrace{5};       // from a signal that ends the job to SIGKILL
constexpr std::chrono::hours kMeetingTime{24};  // programs may take their time to come to it

// Unguessable: from the system's random source.
std::string make_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  return id;
}

// Blocks the signals that end a job, so that they can be waited for together with SIGCHLD.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&set_);
    for (const int s : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, s);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~BlockedSignals() { restore(); }
  void restore() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // The next signal, or 0 after a tenth of a second.
  int next() {
    const timespec tick{0, 100'000'000};
    const int s = sigtimedwait(&set_, nullptr, &tick);
    return s < 0 ? 0 : s;
  }

 private:
  sigset_t set_{}, before_{};
};

// Where UCX keeps names of shared memory in a job. It removes each as soon as it has the memory, but a rank that is
// killed in between leaves its name; so they stand in a folder of the job's, which goes with it.
class UcxNames {
 public:
  // Folders of launchers that were killed go, too.
  UcxNames() {
    const auto folder = recorder::own_folder();
    if (!folder) return;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(*folder, ignored)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with(kPrefix)) continue;
      const auto pid = static_cast<pid_t>(std::strtol(name.c_str() + kPrefix.size(), nullptr, 10));
      if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH)) std::filesystem::remove_all(entry, ignored);
    }
    path_ = fmt::format("{}/{}{}", *folder, kPrefix, getpid());
    if (!std::filesystem::create_directory(path_, ignored)) path_.clear();
  }
  ~UcxNames() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  UcxNames(const UcxNames&) = delete;
  UcxNames& operator=(const UcxNames&) = delete;

  // In a rank: unless UCX is told already.
  void tell() const {
    if (!path_.empty()) setenv("UCX_POSIX_DIR", path_.c_str(), 0);
  }

 private:
  static constexpr std::string_view kPrefix = "ucx-";
  std::string path_;  // empty: none
};

// Ranks have process groups of their own, so that a signal reaches what they have started, too; but not at a terminal,
// whose keys and input belong to one group.
class Ranks {
 public:
  explicit Ranks(bool groups) : groups_(groups) {}

  // In the launcher and in the rank, for either may be first.
  void make_group(pid_t rank) const {
    if (groups_) setpgid(rank, rank);
  }
  void add(pid_t rank) { all_.push_back(rank); }
  // Also to processes whose rank has ended already.
  void signal_all(int signal) const {
    for (const pid_t rank : all_) kill(groups_ ? -rank : rank, signal);
  }
  // Is a process of these groups left?
  bool any_left() const {
    return groups_ && std::any_of(all_.begin(), all_.end(), [](pid_t rank) { return kill(-rank, 0) == 0; });
  }

 private:
  const bool groups_;
  std::vector<pid_t> all_;
};

}  // namespace

Result<int> launch(Rank ranks, const std::string& transport, const std::string& rates,
                   const std::function<int(const std::vector<Setting>&)>& body, Rank machines) {
  const std::string id = make_id();
  std::optional<net::bootstrap::Host> host;          // where ranks meet that share no memory
  std::unique_ptr<net::bootstrap::Arbiter> arbiter;  // decides who goes on, among those
  std::optional<UcxNames> names;
  if (api::across(transport) == "ucx") {
    WEFT_CHECK(net::ucx::available());
    names.emplace();
  }
  if (transport != "shm" || machines > 1) {
    WEFT_TRY(const env::Settings settings, env::read());
    net::bootstrap::Address at = net::bootstrap::loopback();
    if (!settings.interface.empty()) {
      WEFT_TRY(at, net::bootstrap::choose_interface(settings.interface));
    }
    WEFT_TRY(host, net::bootstrap::Host::open(at, ranks));
    WEFT_TRY(arbiter, net::bootstrap::Arbiter::open(at));
  }
  const std::vector<int> cpus = calibrate::usable_cpus();
  std::fflush(nullptr);
  BlockedSignals signals;
  std::vector<pid_t> children;
  Ranks started(isatty(STDIN_FILENO) == 0);
  for (Rank r = 0; r < ranks; ++r) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) {
      started.signal_all(SIGKILL);
      return failure(Code::kSystem, Blame::kProcess, "fork of rank {}: {}", r, std::strerror(errno));
    }
    if (child == 0) {
      started.make_group(getpid());
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);  // the parent died before the line above
      signals.restore();
      if (static_cast<std::size_t>(ranks) <= cpus.size()) calibrate::pin_to(cpus[static_cast<std::size_t>(r)]);
      std::vector<Setting> told = {{"WEFT_RANK", std::to_string(r)},
                                   {"WEFT_SIZE", std::to_string(ranks)},
                                   {"WEFT_ID", id},
                                   {"WEFT_RATES", rates}};
      if (host) {
        told.emplace_back("WEFT_JOIN", host->id().text());
        told.emplace_back("WEFT_ARBITER", arbiter->address().text());
        if (machines == 1 || transport != "shm") told.emplace_back("WEFT_TRANSPORT", transport);
        if (machines > 1) told.emplace_back("WEFT_NODE", fmt::format("{}-{}", id, r * machines / ranks));
        host->forget();
      }
      if (names) names->tell();
      const int code = body(told);
      std::fflush(nullptr);
      _exit(code);
    }
    children.push_back(child);
    started.make_group(child);
    started.add(child);
  }
  if (arbiter) arbiter->serve();
  // Only now: a fork carries no threads. What ranks that do not come mean, those that do will say.
  std::thread meeting([&] {
    if (host) (void)host->serve(kMeetingTime);
  });
  int result = 0;
  Rank running = ranks;
  std::optional<std::chrono::steady_clock::time_point> until;  // the job is to end by then
  const auto in_grace = [&] { return until && std::chrono::steady_clock::now() < *until; };
  while (running > 0 || (in_grace() && started.any_left())) {
    if (const int s = signals.next(); s == SIGINT || s == SIGTERM || s == SIGHUP) {
      result = 128 + s;
      started.signal_all(until ? SIGKILL : s);  // who is asked twice does not wait
      if (!until) until = std::chrono::steady_clock::now() + kGrace;
    }
    if (until && !in_grace()) started.signal_all(SIGKILL);
    for (Rank r = 0; r < ranks; ++r) {
      pid_t& child = children[static_cast<std::size_t>(r)];
      int status = 0;
      if (child <= 0 || waitpid(child, &status, WNOHANG) != child) continue;
      child = 0;
      --running;
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (WIFSIGNALED(status) && result < 128)
        fmt::print(stderr, "weft: rank {} was ended by signal {} ({})\n", r, WTERMSIG(status),
                   strsignal(WTERMSIG(status)));
      if (result == 0) result = code;
    }
  }
  if (until && started.any_left()) started.signal_all(SIGKILL);
  if (host) host->stop();
  meeting.join();
  net::shm::remove_name(id);
  net::shm::sweep_names();
  if (const auto folder = recorder::own_folder()) recorder::sweep(*folder);  // of ranks that were killed
  return result;
}

}  // namespace weft::cli
