#include "model/replay/run.h"

#include <algorithm>
#include <map>

#include "base/counted.h"
#include "model/replay/link.h"
#include "model/sim/flow/flow_fabric.h"
#include "plan/cost/access.h"

namespace weft::replay {
namespace {

using pgas::Event;
using protocol::End;
using protocol::Operation;
using Kind = Event::Kind;

// Loads and stores are instructions of a kernel that runs already: no call.
bool by_pointer(Kind kind) { return kind == Kind::kLoad || kind == Kind::kStore; }
bool answers(Kind kind) { return kind == Kind::kGet || kind == Kind::kFetch || kind == Kind::kLoad; }
bool writes(Kind kind) {
  return kind == Kind::kPut || kind == Kind::kPutSignal || kind == Kind::kAtomic || kind == Kind::kStore;
}
bool calls(Kind kind) { return (answers(kind) || writes(kind)) && !by_pointer(kind); }
bool reads(Kind kind) { return kind == Kind::kGet || kind == Kind::kLoad; }

// The bytes that cross to or from the peer as a flow; atomic operations are a word in a message of their own.
bool flows(const Event& e) {
  return (e.kind == Kind::kPut || e.kind == Kind::kPutSignal || reads(e.kind) || by_pointer(e.kind)) && e.bytes > 0;
}

// What a rank puts to itself is a copy within its memory; a load or a store there is one access of it.
Operation move_of(Rank rank, const Event& e) {
  Operation move{.kind = Operation::Kind::kMove, .bytes = e.bytes};
  const End here{.kind = End::Kind::kLocal};
  const End there = e.peer == rank && !by_pointer(e.kind) ? here : End{.kind = End::Kind::kRemote, .peer = e.peer};
  move.sources.push_back(reads(e.kind) ? there : here);
  move.destinations.push_back(reads(e.kind) ? here : there);
  return move;
}

// One rank on its way through its program.
struct Walker {
  std::size_t at = 0;  // the step
  enum class Phase : std::uint8_t { kGap, kCall, kMove, kAnswer, kWait, kDone } phase = Phase::kGap;
  bool posted = false;
  Operation operation;
  Duration until;                  // busy by itself, or met
  Duration since;                  // when this phase began
  Duration visible;                // when all it wrote can be seen by those it wrote to, and it knows
  std::vector<std::int64_t> came;  // by rank: announcements taken
  Spent spent;
};

// Members of a group that have come to its next collective.
struct Meeting {
  std::vector<Rank> waiting;
};

class Run {
 public:
  Run(const cost::OneSidedView& view, const LinkedProgram& program, const Options& options)
      : view_(view),
        program_(program),
        options_(options),
        ranks_(static_cast<Rank>(program.ranks.size())),
        fabric_(view.machine.topology(), view.machine.routes(), ranks_, {.costs = view.costs, .strands = 1}),
        walkers_(program.ranks.size()) {
    for (Rank r = 0; r < ranks_; ++r) {
      fabric_.endpoint(r).begin({.protocol = protocol::Protocol::kDirect});
      walker(r).came.assign(program.ranks.size(), 0);
      ends_.emplace_back(steps(r).size());
    }
  }

  Result<Outcome> run() {
    WEFT_TRY(const Duration last, fabric_.run([this](Rank r, int) {
      if (!started_) started_ = fabric_.now();
      walk(r);
    }));
    (void)last;
    if (problem_) return tl::make_unexpected(*problem_);
    Outcome outcome;
    for (Rank r = 0; r < ranks_; ++r) {
      const Walker& w = walker(r);
      if (w.at < steps(r).size())
        return bad_input("rank {} waits for ever at its operation {}: {}", r, w.at + 1,
                         pgas::to_line(*steps(r)[w.at].event).substr(0, 80));
      outcome.ranks.push_back(w.spent);
      outcome.total = std::max(outcome.total, w.spent.total());
    }
    outcome.ends = std::move(ends_);
    outcome.unexplained = program_.unexplained;
    const auto busiest = fabric_.busiest();
    outcome.busiest_link = busiest.link;
    outcome.busiest_share = busiest.utilisation;
    return outcome;
  }

 private:
  using Phase = Walker::Phase;
  Walker& walker(Rank r) { return walkers_[static_cast<std::size_t>(r)]; }
  const std::vector<Step>& steps(Rank r) const { return program_.ranks[static_cast<std::size_t>(r)]; }
  // Since the program began: ranks start when the machine has been started.
  Duration now() const { return fabric_.now() - *started_; }

  void walk(Rank r) {
    Walker& w = walker(r);
    while (!problem_ && w.at < steps(r).size()) {
      const Step& step = steps(r)[w.at];
      if (!advance(r, w, step)) return;
      if (w.phase != Phase::kDone) continue;
      ends_[static_cast<std::size_t>(r)][w.at] = now();
      w.phase = Phase::kGap;
      w.posted = false;
      ++w.at;
    }
  }

  Duration call_of(Rank r, Rank peer) const {
    if (options_.posting && r != peer && view_.machine.path(r, peer).type == topology::PathType::kNet)
      return *options_.posting;
    return cost::call_time(view_.costs.gpu());
  }

  // The time of a question's way there and its answer's back, beyond the bytes.
  Duration answer_of(Rank r, const Event& e) const {
    if (by_pointer(e.kind)) return cost::load_latency(view_.costs.gpu(), view_.machine.path(r, e.peer).type);
    return view_.round_trip(r, e.peer, ranks_);
  }

  // One phase further; false: not yet.
  bool advance(Rank r, Walker& w, const Step& step) {
    const Kind kind = step.event->kind;
    switch (w.phase) {
      case Phase::kGap:
        return pass(r, w, step.gap * options_.compute, w.spent.computing, Phase::kCall);
      case Phase::kCall: {
        const Duration call = calls(kind) ? call_of(r, step.event->peer) : Duration();
        return pass(r, w, call, w.spent.moving, flows(*step.event) ? Phase::kMove : Phase::kAnswer);
      }
      case Phase::kMove:
        return move(r, w, step);
      case Phase::kAnswer: {
        const Duration back = answers(kind) ? answer_of(r, *step.event) : Duration();
        if (!pass(r, w, back, w.spent.moving, Phase::kWait)) return false;
        if (writes(kind)) written(r, w, step);
        if (kind == Kind::kFetch && step.announced) announce(r, step.event->peer);
        return true;
      }
      case Phase::kWait:
        return wait(r, w, step);
      case Phase::kDone:
        break;
    }
    return true;
  }

  // Lets `duration` pass, and adds it to an account.
  bool pass(Rank r, Walker& w, Duration duration, Duration& account, Phase next) {
    if (!w.posted) {
      w.posted = true;
      w.until = now() + duration;
      account += duration;
      if (duration > Duration()) fabric_.resume_after(r, 0, duration);
    }
    if (now() < w.until) return false;
    w.posted = false;
    w.phase = next;
    return true;
  }

  bool move(Rank r, Walker& w, const Step& step) {
    if (!w.posted) {
      w.posted = true;
      w.since = now();
      w.operation = move_of(r, *step.event);
      (void)fabric_.endpoint(r).post(0, w.operation);  // a rank's own memory and its peers' are always ready
    }
    if (!fabric_.endpoint(r).finished(0)) return false;
    w.spent.moving += now() - w.since;
    w.posted = false;
    w.phase = Phase::kAnswer;
    return true;
  }

  void written(Rank r, Walker& w, const Step& step) {
    const Rank peer = step.event->peer;
    w.visible = std::max(w.visible, now() + view_.latency(r, peer, ranks_) * 2);
    if (step.announced) announce(r, peer);
  }
  void announce(Rank from, Rank to) {
    const Operation signal{.kind = Operation::Kind::kSignal, .peer = to};
    (void)fabric_.endpoint(from).post(0, signal);
  }

  bool wait(Rank r, Walker& w, const Step& step) {
    const Kind kind = step.event->kind;
    if (kind == Kind::kQuiet) return pass(r, w, std::max(Duration(), w.visible - now()), w.spent.waiting, Phase::kDone);
    if (!w.posted) {
      w.posted = true;
      w.since = now();
      w.until = Duration::max();
      if (kind == Kind::kMeet) meet(r, *step.event);
    }
    if (kind == Kind::kMeet && now() < w.until) return false;
    for (const Step::Need& need : step.needs)
      if (!take(r, w, need)) return false;
    (kind == Kind::kMeet ? w.spent.meeting : w.spent.waiting) += now() - w.since;
    w.phase = Phase::kDone;
    return true;
  }

  bool take(Rank r, Walker& w, const Step::Need& need) {
    auto& came = w.came[static_cast<std::size_t>(need.writer)];
    const Operation wait{.kind = Operation::Kind::kWait, .peer = need.writer};
    for (; came < need.count; ++came) {
      if (!fabric_.endpoint(r).ready(0, wait)) return false;
      (void)fabric_.endpoint(r).post(0, wait);
    }
    return true;
  }

  // The last to come says when everybody goes on.
  void meet(Rank r, const Event& event) {
    Meeting& meeting = meetings_[event.group];
    meeting.waiting.push_back(r);
    if (static_cast<Rank>(meeting.waiting.size()) < event.group.size) return;
    const auto duration = options_.meeting(event);
    if (!duration) {
      problem_ = duration.error();
      return;
    }
    for (const Rank member : std::exchange(meeting.waiting, {})) {
      walker(member).until = now() + *duration;
      fabric_.resume_after(member, 0, *duration);
    }
  }

  const cost::OneSidedView& view_;
  const LinkedProgram& program_;
  const Options& options_;
  Rank ranks_;
  sim::FlowFabric fabric_;
  std::vector<Walker> walkers_;
  std::map<pgas::Group, Meeting> meetings_;
  std::vector<std::vector<Duration>> ends_;
  std::optional<Duration> started_;
  std::optional<Error> problem_;
};

}  // namespace

Result<Outcome> run(const cost::OneSidedView& machine, const pgas::Program& program, const Options& options) {
  if (program.empty()) return bad_input("a program without ranks");
  if (static_cast<Rank>(program.size()) > machine.machine.endpoints() && machine.costs.gpu())
    return bad_input("the program has {}, the machine {}", counted(program.size(), "rank"),
                     counted(machine.machine.endpoints(), "GPU"));
  for (std::size_t r = 0; r < program.size(); ++r)
    for (const Event& e : program[r])
      if (by_pointer(e.kind) && e.peer != static_cast<Rank>(r))
        if (const std::string why = cost::no_pointer(machine.machine, static_cast<Rank>(r), e.peer); !why.empty())
          return bad_input("rank {} {}s {} bytes of rank {} by a pointer, which {} has not: {}", r,
                           e.kind == Kind::kLoad ? "load" : "store", e.bytes, e.peer, machine.machine.topology().title,
                           why);
  const LinkedProgram linked = link(program);
  return Run(machine, linked, options).run();
}

}  // namespace weft::replay
