#include "apps/launch/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "apps/launch/binding.h"
#include "apps/launch/descendants.h"
#include "apps/launch/frames.h"
#include "apps/launch/job.h"
#include "apps/launch/ucx_names.h"
#include "base/env.h"
#include "base/own_folder.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "exec/recorder/snapshot.h"
#include "net/bootstrap/arbiter.h"
#include "net/bootstrap/job.h"
#include "net/bootstrap/meeting.h"
#include "net/link/interfaces.h"
#include "net/shm/shm.h"

namespace weft::launch {
namespace {

using Clock = std::chrono::steady_clock;
namespace bootstrap = net::bootstrap;
namespace link = net::link;

constexpr int kRead = 32 << 10;                             // bytes of a rank's output at once
constexpr std::size_t kMostPending = std::size_t{1} << 20;  // bytes on their way to the launcher

auto system_failure(const std::string& what) {
  return failure(Code::kSystem, Blame::kProcess, "{}: {}", what, std::strerror(errno));
}

// The call that a process is in, or has made last, by its flight record.
std::string last_call(pid_t pid) {
  const auto folder = own_folder();
  if (!folder) return "";
  std::string text;
  std::int64_t newest = 0;
  for (const recorder::Snapshot& s : recorder::read_process(*folder, pid)) {
    const recorder::Operation* const o = s.last();
    if (o == nullptr || o->started < newest) continue;
    newest = o->started;
    text = fmt::format("{} {} #{} of {} {}", o->finished == 0 ? "in" : "after", o->collective, o->number, o->count,
                       o->type.empty() ? "transfers" : o->type);
  }
  return text;
}

// One of a rank's output streams.
struct Stream {
  Rank rank = 0;
  FrameKind kind = FrameKind::kOutput;
  UniqueFd fd;  // not open: at its end
};

class Agent {
 public:
  // Errors: what the launcher is to show.
  Status run(const std::string& version);
  void report(const Error& error) { send({FrameKind::kProblem, -1, error.message}); }

 private:
  void send(const Frame& frame);
  Result<Frame> receive(FrameKind wanted);
  Status prepare();
  Result<Place> open_place();
  Status start_ranks(const Place& place);
  Status start_rank(Rank rank, const std::vector<int>& cpus, const Place& place);
  void become_rank(Rank rank, const Place& place, int out, int err);

  void watch();
  void take_frames();
  void take_signal(int signal);
  void end_job(int signal);
  bool forward(Stream& stream);
  void reap();
  bool drained() const {
    return std::none_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.fd.open(); });
  }

  HostJob job_;
  FrameReader in_;
  PendingBytes out_;
  bool connected_ = true;
  const BlockedSignals signals_{SIGINT, SIGTERM, SIGHUP};
  UniqueFd signal_fd_;
  RankProcesses ranks_{true};
  std::vector<Stream> streams_;
  std::optional<UcxNames> names_;
  std::optional<bootstrap::Host> host_;
  std::unique_ptr<bootstrap::Arbiter> arbiter_;
  bool reported_claim_ = false;
  std::optional<Clock::time_point> until_;  // the ranks are to have ended by then
};

// Blocks; used while nothing else can happen.
void Agent::send(const Frame& frame) {
  out_.add(encode(frame));
  while (connected_ && !out_.empty()) connected_ = out_.write_some(STDOUT_FILENO);
}

Result<Frame> Agent::receive(FrameKind wanted) {
  char buffer[65536];
  for (;;) {
    WEFT_TRY(auto frame, in_.next());
    if (frame && frame->kind == wanted) return *frame;
    const ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
    if (n == 0 || (n < 0 && errno != EINTR)) return failure(Code::kSystem, Blame::kProcess, "the launcher is gone");
    if (n > 0) in_.add({buffer, static_cast<std::size_t>(n)});
  }
}

Result<Place> Agent::open_place() {
  if (!job_.opens) return Place{};
  WEFT_TRY(const env::Settings settings, env::read());
  link::Address at = link::loopback();
  if (!settings.interface.empty()) {
    WEFT_TRY(at, link::choose_interface(settings.interface));
  } else if (!job_.at.empty()) {
    WEFT_TRY(at, link::resolve("the host's own address", job_.at, 0));
  }
  WEFT_TRY(const link::Ports ports, bootstrap::ports_of(settings));
  WEFT_TRY(host_, bootstrap::Host::open(at, job_.size, ports));
  WEFT_TRY(arbiter_, bootstrap::Arbiter::open(at, ports));
  return Place{.join = host_->id().text(), .arbiter = arbiter_->address().text()};
}

Status Agent::prepare() {
  WEFT_TRY(const Frame described, receive(FrameKind::kJob));
  WEFT_TRY(job_, HostJob::parse(described.text));
  for (const auto& [name, value] : job_.environment) setenv(name.c_str(), value.c_str(), 1);
  WEFT_TRY(const env::Settings settings, env::read());
  if (settings.transport.ends_with("ucx")) names_.emplace();
  if (chdir(job_.folder.c_str()) != 0)
    return bad_input("cannot use the folder {}: {} (--folder names another)", job_.folder, std::strerror(errno));
  WEFT_CHECK(check_program(job_.program.front()));
  return {};
}

void Agent::become_rank(Rank rank, const Place& place, int out, int err) {
  signals_.restore();
  signal(SIGPIPE, SIG_DFL);
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  dup2(nothing.get(), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  const std::pair<const char*, std::string> settings[] = {{"WEFT_RANK", std::to_string(rank)},
                                                          {"WEFT_SIZE", std::to_string(job_.size)},
                                                          {"WEFT_JOIN", place.join},
                                                          {"WEFT_ARBITER", place.arbiter}};
  for (const auto& [name, value] : settings) setenv(name, value.c_str(), 1);
  if (names_) names_->apply();
  std::vector<char*> arguments;
  for (std::string& word : job_.program) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  fmt::print(stderr, "weft: cannot start {}: {}\n", shown(job_.program.front()), std::strerror(errno));
}

Status Agent::start_rank(Rank rank, const std::vector<int>& cpus, const Place& place) {
  UniqueFd writers[2];
  for (int i = 0; i < 2; ++i) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return system_failure(fmt::format("pipe of rank {}", rank));
    streams_.push_back({rank, i == 0 ? FrameKind::kOutput : FrameKind::kErrors, UniqueFd(ends[0])});
    writers[i] = UniqueFd(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  return ranks_.start(rank, cpus, [&] {
    become_rank(rank, place, writers[0].get(), writers[1].get());
    return 127;
  });
}

Status Agent::start_ranks(const Place& place) {
  WEFT_TRY(const auto bindings, bind_as_asked(job_.first, job_.ranks));
  for (Rank r = 0; r < job_.ranks; ++r) {
    const auto& cpus = bindings[static_cast<std::size_t>(r)].cpus;
    if (const Status started = start_rank(job_.first + r, cpus, place); !started) {
      ranks_.signal_all(SIGKILL);
      return started;
    }
  }
  return {};
}

void Agent::end_job(int signal) {
  ranks_.signal_all(until_ ? SIGKILL : signal);  // at the second signal nothing is waited for
  if (!until_) until_ = Clock::now() + kGrace;
}

void Agent::take_signal(int signal) {
  if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP)
    end_job(signal);
  else
    ranks_.signal_all(signal);
}

void Agent::take_frames() {
  char buffer[65536];
  const ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  bool gone = n <= 0;
  if (n > 0) in_.add({buffer, static_cast<std::size_t>(n)});
  while (!gone) {
    const auto frame = in_.next();
    gone = !frame;
    if (gone || !*frame) break;
    if ((*frame)->kind == FrameKind::kSignal) take_signal((*frame)->rank);
  }
  if (!gone) return;
  connected_ = false;
  end_job(SIGTERM);
}

// False: at its end.
bool Agent::forward(Stream& stream) {
  char buffer[kRead];
  const ssize_t n = read(stream.fd.get(), buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n > 0) {
    if (connected_) out_.add(encode({stream.kind, stream.rank, std::string(buffer, static_cast<std::size_t>(n))}));
    return true;
  }
  stream.fd.reset();
  return false;
}

void Agent::reap() {
  for (const auto& ended : ranks_.reap()) {
    // The rank's output is sent before its exit: all that its pipe holds, but not what its children go on writing.
    for (Stream& s : streams_) {
      if (s.rank != ended.rank || !s.fd.open()) continue;
      int held = 0;
      ioctl(s.fd.get(), FIONREAD, &held);
      for (int left = held; left > 0 && s.fd.open(); left -= kRead)
        if (!forward(s)) break;
    }
    const RankEnd end{
        .code = ended.code(), .signal = ended.signal(), .last = ended.code() == 0 ? "" : last_call(ended.pid)};
    if (connected_) out_.add(encode({FrameKind::kEnded, ended.rank, end.to_text()}));
  }
}

// Until all ranks have ended and their output has been passed on.
void Agent::watch() {
  std::optional<Clock::time_point> drain_until;
  for (;;) {
    reap();
    if (ranks_.running() == 0) {
      if (!drain_until) drain_until = Clock::now() + kDrain;
      if (Clock::now() > *drain_until) kill_descendants();
      const bool over = drained() || Clock::now() > *drain_until + kDrain;
      if (over && (out_.empty() || !connected_)) return;
    }
    if (until_ && Clock::now() > *until_) ranks_.signal_all(SIGKILL);
    if (arbiter_ && !reported_claim_ && arbiter_->claimed()) {
      reported_claim_ = true;
      if (connected_) out_.add(encode({FrameKind::kGoesOn, -1, ""}));
    }
    std::vector<pollfd> waiting = {{signal_fd_.get(), POLLIN, 0},
                                   {connected_ ? STDIN_FILENO : -1, POLLIN, 0},
                                   {connected_ && !out_.empty() ? STDOUT_FILENO : -1, POLLOUT, 0}};
    for (const Stream& s : streams_)
      waiting.push_back({s.fd.open() && out_.size() < kMostPending ? s.fd.get() : -1, POLLIN, 0});
    poll(waiting.data(), waiting.size(), 100);
    if (const int s = waiting[0].revents != 0 ? BlockedSignals::take(signal_fd_.get()) : 0; s != 0 && s != SIGCHLD)
      take_signal(s == SIGHUP ? SIGTERM : s);
    if (waiting[1].revents != 0) take_frames();
    if (waiting[2].revents != 0) connected_ = connected_ && out_.write_some(STDOUT_FILENO);
    for (std::size_t i = 0; i < streams_.size(); ++i)
      if (waiting[i + 3].revents != 0) forward(streams_[i]);
  }
}

Status Agent::run(const std::string& version) {
  signal(SIGPIPE, SIG_IGN);
  adopt_orphans();
  WEFT_TRY(const int fd, signals_.descriptor());
  signal_fd_ = UniqueFd(fd);
  WEFT_TRY(const env::Settings settings, env::read());
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const auto [client, server] = env::ssh_connection(settings);
  out_.add(fmt::format("{}{}\n", kGreeting, version));
  send({FrameKind::kHello, -1, Hello{.host = name, .client = client, .server = server}.to_text()});
  WEFT_CHECK(prepare());
  WEFT_TRY(const Place own, open_place());
  send({FrameKind::kReady, -1, own.to_text()});
  WEFT_TRY(const Frame start, receive(FrameKind::kStart));
  WEFT_TRY(const Place place, Place::parse(start.text));
  WEFT_CHECK(start_ranks(place));
  // Only now: a fork carries no threads.
  if (arbiter_) arbiter_->serve();
  std::thread meeting([&] {
    if (host_) (void)host_->serve(kMeetingTime);
  });
  watch();
  kill_descendants();
  if (host_) host_->stop();
  meeting.join();
  net::shm::sweep_names();
  if (const auto folder = own_folder()) recorder::sweep(*folder);
  send({FrameKind::kDone, -1, ""});
  return {};
}

}  // namespace

Status check_program(const std::string& program) {
  const auto executable = [](const std::string& path) {
    struct stat found {};
    if (stat(path.c_str(), &found) != 0 || access(path.c_str(), X_OK) != 0) return false;
    if (S_ISDIR(found.st_mode)) errno = EISDIR;
    return !S_ISDIR(found.st_mode);
  };
  if (program.find('/') != std::string::npos) {
    if (!executable(program)) return bad_input("cannot start {}: {}", program, std::strerror(errno));
    return {};
  }
  const std::string path = env::search_path();
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    if (executable(path.substr(at, end - at) + "/" + program)) return {};
    at = end + 1;
  }
  return bad_input("cannot start {}: it is nowhere in PATH", program);
}

int run_agent(const std::string& version) {
  Agent agent;
  const Status done = agent.run(version);
  if (!done) agent.report(done.error());
  return done ? 0 : 2;
}

}  // namespace weft::launch
