#include "apps/launch/on_hosts.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "apps/launch/agent_process.h"
#include "apps/launch/labelled_output.h"
#include "base/text.h"

namespace weft::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSettle{300};  // ranks that fail because of another's death may be reported first
constexpr std::chrono::seconds kNotice{5};         // for the others to notice that a rank has failed, and end or shrink
constexpr std::chrono::seconds kHangUp{8};         // for agents to end their ranks and themselves
static_assert(kHangUp > kGrace + 2 * kDrain);

struct Failure {
  Rank rank = 0;
  std::string host;
  RankEnd end;
};

bool is_loopback(const std::string& ip) { return ip.rfind("127.", 0) == 0 || ip == "::1"; }

class Launcher {
 public:
  explicit Launcher(const HostsJob& job) : job_(job), output_(job.labels, ranks_of(job)) {}
  // Errors: nothing has been started.
  Result<int> run();

 private:
  static Rank ranks_of(const HostsJob& job) {
    Rank ranks = 0;
    for (const HostRanks& h : job.hosts) ranks += h.ranks;
    return ranks;
  }

  Status prepare();
  Status wait_until(bool AgentProcess::*reached, Clock::time_point deadline);
  void describe_job();
  std::string meeting_address() const;
  void step(int timeout_ms);
  void take_signal();
  void lose_reader(PendingBytes& output);
  Status take_frames(AgentProcess& agent);
  void take_frame(AgentProcess& agent, const Frame& frame);
  void take_problem(AgentProcess& agent, const Error& problem);
  void lose(AgentProcess& agent);
  void judge();
  void signal_all(int signal);
  void end_all();
  void flush();

  const HostsJob& job_;
  const BlockedSignals signals_{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  UniqueFd signal_fd_;
  std::vector<AgentProcess> agents_;
  LabelledOutput output_;
  std::optional<Error> problem_;  // before the ranks have started
  bool started_ = false, goes_on_ = false, ending_ = false;
  int interrupted_ = 0;  // the signal that ends the job
  std::optional<Clock::time_point> interrupted_at_;
  std::vector<Failure> failures_;  // not yet reported
  std::optional<Failure> cause_;   // reported
  Clock::time_point failed_at_;
};

void Launcher::signal_all(int signal) {
  for (AgentProcess& a : agents_) a.send({FrameKind::kSignal, signal, ""});
}

void Launcher::take_signal() {
  const int signal = BlockedSignals::take(signal_fd_.get());
  if (signal == 0 || signal == SIGCHLD) return;
  if (signal != SIGUSR1 && signal != SIGUSR2) {
    interrupted_ = signal;
    if (!interrupted_at_) interrupted_at_ = Clock::now();
  }
  if (started_) signal_all(signal);
}

// Nobody reads the output any more, as after `| head`: as if SIGPIPE had ended this process, which is ignored because
// agents that end close their pipes, too.
void Launcher::lose_reader(PendingBytes& output) {
  output = {};
  if (interrupted_ != 0) return;
  interrupted_ = SIGPIPE;
  interrupted_at_ = Clock::now();
  if (started_) signal_all(SIGTERM);
}

void Launcher::take_frame(AgentProcess& agent, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kHello:
      if (auto hello = Hello::parse(frame.text)) {
        agent.hello = *hello;
        agent.said_hello = true;
      }
      return;
    case FrameKind::kReady:
      if (auto place = Place::parse(frame.text)) {
        agent.place = *place;
        agent.ready = true;
      }
      return;
    case FrameKind::kOutput:
    case FrameKind::kErrors:
      return output_.add(frame.kind, frame.rank, frame.text);
    case FrameKind::kEnded:
      --agent.running;
      output_.finish(frame.rank);
      if (const auto end = RankEnd::parse(frame.text); end && end->code != 0) {
        if (failures_.empty() && !cause_) failed_at_ = Clock::now();
        failures_.push_back({frame.rank, agent.host(), *end});
      }
      return;
    case FrameKind::kGoesOn:
      goes_on_ = true;
      return;
    case FrameKind::kDone:
      agent.done = true;
      agent.hang_up();
      return;
    default:
      return;
  }
}

Status Launcher::take_frames(AgentProcess& agent) {
  for (;;) {
    WEFT_TRY(const auto frame, agent.next(job_.version));
    if (!frame) return {};
    take_frame(agent, *frame);
  }
}

// Once the ranks have started, the agent ends by itself: lose() then counts its ranks as failed.
void Launcher::take_problem(AgentProcess& agent, const Error& problem) {
  if (started_ && !agent.reported && interrupted_ == 0) output_.say(shown(problem.message));
  agent.reported = true;
  if (!started_ && !problem_) problem_ = problem;
}

// Its connection ended before its job was done.
void Launcher::lose(AgentProcess& agent) {
  const std::string how = agent.how_it_ended(job_);
  agent.done = true;
  if (!started_) {
    if (!problem_) problem_ = Error{Code::kInvalidArgument, Blame::kInput, how};
    return;
  }
  if (interrupted_ != 0 || agent.running == 0) return;
  if (!agent.reported) output_.say(shown(how));
  if (failures_.empty() && !cause_) failed_at_ = Clock::now();
  failures_.push_back({-1, agent.host(), RankEnd{.code = 1}});
  agent.running = 0;
}

void Launcher::step(int timeout_ms) {
  std::vector<pollfd> waiting = {{signal_fd_.get(), POLLIN, 0},
                                 {output_.out().empty() ? -1 : STDOUT_FILENO, POLLOUT, 0},
                                 {output_.err().empty() ? -1 : STDERR_FILENO, POLLOUT, 0}};
  for (const AgentProcess& a : agents_) {
    waiting.push_back({output_.full() ? -1 : a.out(), POLLIN, 0});
    waiting.push_back({a.err(), POLLIN, 0});
    waiting.push_back({a.has_to_send() ? a.in() : -1, POLLOUT, 0});
  }
  poll(waiting.data(), waiting.size(), timeout_ms);
  if (waiting[0].revents != 0) take_signal();
  if (waiting[1].revents != 0 && !output_.out().write_some(STDOUT_FILENO)) lose_reader(output_.out());
  if (waiting[2].revents != 0 && !output_.err().write_some(STDERR_FILENO)) lose_reader(output_.err());
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    AgentProcess& a = agents_[i];
    if (waiting[3 + 3 * i].revents != 0) a.read_out();
    if (waiting[4 + 3 * i].revents != 0) a.read_err();
    if (waiting[5 + 3 * i].revents != 0) a.write_some();
    if (const Status fine = take_frames(a); !fine) take_problem(a, fine.error());
    a.reap();
    if (a.over() && !a.done) lose(a);
  }
}

// Errors: what one of the hosts says, or does not.
Status Launcher::wait_until(bool AgentProcess::*reached, Clock::time_point deadline) {
  for (;;) {
    const auto late =
        std::find_if(agents_.begin(), agents_.end(), [&](const AgentProcess& a) { return !(a.*reached); });
    if (problem_) return tl::make_unexpected(*problem_);
    if (interrupted_ != 0 || late == agents_.end()) return {};
    if (Clock::now() > deadline)
      return bad_input("host {} has not answered within {} ms", late->host(), job_.timeout_ms);
    step(100);
  }
}

// The address by which the other hosts reach the first one: that at which ssh has reached it, or, where the first host
// is this one, that from which ssh has left for the others.
std::string Launcher::meeting_address() const {
  if (agents_.size() == 1) return "";
  if (const std::string& own = agents_.front().hello.server; !own.empty() && !is_loopback(own)) return own;
  for (const AgentProcess& a : agents_)
    if (!a.hello.client.empty() && !is_loopback(a.hello.client)) return a.hello.client;
  return "";
}

void Launcher::describe_job() {
  HostJob described{.program = job_.program,
                    .folder = job_.folder,
                    .environment = job_.environment,
                    .size = ranks_of(job_),
                    .at = meeting_address()};
  for (AgentProcess& a : agents_) {
    described.ranks = a.ranks();
    described.opens = described.first == 0;
    a.send({FrameKind::kJob, -1, described.to_text()});
    described.first += a.ranks();
  }
}

Status Launcher::prepare() {
  const auto deadline = Clock::now() + std::chrono::milliseconds(job_.timeout_ms);
  for (const HostRanks& host : job_.hosts) {
    WEFT_TRY(AgentProcess agent, AgentProcess::start(job_, host, signals_));
    agents_.push_back(std::move(agent));
  }
  WEFT_CHECK(wait_until(&AgentProcess::said_hello, deadline));
  if (interrupted_ != 0) return {};
  describe_job();
  WEFT_CHECK(wait_until(&AgentProcess::ready, deadline));
  if (interrupted_ != 0) return {};
  for (AgentProcess& a : agents_) a.send({FrameKind::kStart, -1, agents_.front().place.to_text()});
  started_ = true;
  return {};
}

// Names the rank that failed first, and ends the job unless the others go on without it.
void Launcher::judge() {
  if (failures_.empty() && !cause_) return;
  if (!cause_ && Clock::now() - failed_at_ > kSettle) {
    // Of ranks that fail at the same time, the one that was killed is the cause of the others' errors.
    const auto killed =
        std::find_if(failures_.begin(), failures_.end(), [](const Failure& f) { return f.end.signal != 0; });
    cause_ = killed != failures_.end() ? *killed : failures_.front();
    if (interrupted_ == 0 && cause_->rank >= 0) {
      const std::string how = cause_->end.signal != 0 ? "was ended by " + signal_text(cause_->end.signal)
                                                      : fmt::format("ended with exit code {}", cause_->end.code);
      output_.say(shown(fmt::format("rank {} on {} {}{}{}", cause_->rank, cause_->host, how,
                                    cause_->end.last.empty() ? "" : ", ", cause_->end.last)));
    }
  }
  if (!cause_ || goes_on_ || ending_ || !job_.ends_all || Clock::now() - failed_at_ < kNotice) return;
  if (std::all_of(agents_.begin(), agents_.end(), [](const AgentProcess& a) { return a.running == 0; })) return;
  ending_ = true;
  output_.say(fmt::format("the other ranks have not ended within {} s and are ended now", kNotice.count()));
  signal_all(SIGTERM);
}

void Launcher::flush() {
  const auto until = Clock::now() + kHangUp;
  while ((!output_.out().empty() || !output_.err().empty()) && Clock::now() < until) step(100);
}

// Every agent ends its ranks when nobody talks to it any more; ssh processes that stay are killed.
void Launcher::end_all() {
  for (AgentProcess& a : agents_) {
    a.done = true;
    a.hang_up();
  }
  const auto until = Clock::now() + kHangUp;
  const auto all_over = [&] { return std::all_of(agents_.begin(), agents_.end(), [](auto& a) { return a.reap(); }); };
  while (!all_over() && Clock::now() < until) step(20);
  for (const AgentProcess& a : agents_) a.kill_now();
  while (!all_over()) step(20);
}

Result<int> Launcher::run() {
  WEFT_TRY(const int fd, signals_.descriptor());
  signal_fd_ = UniqueFd(fd);
  std::fflush(nullptr);
  signal(SIGPIPE, SIG_IGN);
  if (const Status ready = prepare(); !ready) {
    end_all();
    return tl::make_unexpected(ready.error());
  }
  const auto done = [&] { return std::all_of(agents_.begin(), agents_.end(), [](const auto& a) { return a.done; }); };
  // A host that the network has lost says nothing more.
  const auto gives_up = [&] { return interrupted_at_ && Clock::now() - *interrupted_at_ > kHangUp; };
  while (started_ && !done() && !gives_up()) {
    step(100);
    judge();
  }
  if (!failures_.empty() && !cause_) {
    failed_at_ -= kSettle;
    judge();
  }
  end_all();
  flush();
  if (interrupted_ != 0) return 128 + interrupted_;
  return cause_ ? cause_->end.code : 0;
}

}  // namespace

Result<int> run_on_hosts(const HostsJob& job) { return Launcher(job).run(); }

}  // namespace weft::launch
