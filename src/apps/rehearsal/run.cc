#include "apps/rehearsal/run.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "apps/rehearsal/meeting.h"
#include "apps/rehearsal/stuck.h"

namespace weft::rehearsal {
namespace {

using Kind = Event::Kind;

struct Item {
  const Event* event = nullptr;
  double issued = 0;
};

struct Stream {
  std::deque<Item> items;
  double clock = 0;
  int cause = -1;  // the meeting that its clock rests on; -1: none since a kernel of the compute stream
};

struct Recorded {
  double at = 0;
  int cause = -1;
};

struct Mark {  // an optimizer's step
  std::string line;
  double at = 0, flops = 0, compute = 0, exposed = 0;
};

// One rank: its host's program, and what its streams have taken of it.
class Walker {
 public:
  Walker(const Recording& recording, Meetings& meetings, const Durations& durations, RankTime& time)
      : recording_(recording), meetings_(meetings), durations_(durations), time_(time) {
    time_.rank = recording.rank;
  }

  // Advances all streams until none can go on. Returns whether anything happened.
  bool advance() {
    bool any = false;
    for (bool again = true; again;) {
      again = host();
      for (auto& [number, stream] : streams_)
        while (!stream.items.empty() && take(number, stream)) again = true;
      any |= again;
    }
    return any;
  }

  bool ended() const {
    return next_ == recording_.events.size() &&
           std::ranges::all_of(streams_, [](const auto& s) { return s.second.items.empty(); });
  }

  // What keeps it from going on: meetings that it has come to and that the first item of a stream or its host waits
  // for.
  std::vector<Blocked> blocked() const {
    std::vector<Blocked> all;
    const auto add = [&](const Event& event) {
      const auto meeting = works_.find(event.number);
      if (event.kind == Kind::kWait && meeting != works_.end() && !meetings_[meeting->second].done &&
          meetings_[meeting->second].has(recording_.rank))
        all.push_back({meeting->second, event.line});
    };
    for (const auto& [number, stream] : streams_)
      if (!stream.items.empty()) add(*stream.items.front().event);
    if (next_ < recording_.events.size()) add(recording_.events[next_]);
    return all;
  }

  void finish() {
    for (const auto& [number, stream] : streams_) time_.total = std::max(time_.total, stream.clock);
    time_.total = std::max(time_.total, clock_);
    for (const auto& [number, meeting] : works_) {
      const Meeting& m = meetings_[meeting];
      if (m.done) time_.total = std::max(time_.total, m.end);
      for (const Meeting::Arrival& a : m.arrivals) {
        if (a.rank != recording_.rank) continue;
        CallSite& site = time_.sites[{*a.line, a.call->op}];
        ++site.calls;
        site.bytes += static_cast<double>(a.call->bytes);
        site.seconds += m.seconds;
      }
    }
    last_step();
  }

 private:
  // The next event of the host: to its stream, or waited for.
  bool host() {
    if (next_ == recording_.events.size()) return false;
    const Event& event = recording_.events[next_];
    if (event.kind == Kind::kSynchronize) {
      const auto at = recorded_.find(event.number);
      if (at == recorded_.end()) return false;
      clock_ = std::max(clock_, at->second.at);
    } else if (event.kind == Kind::kWait && event.host) {
      const auto work = works_.find(event.number);
      if (work != works_.end()) {
        if (!meetings_[work->second].done) return false;
        clock_ = std::max(clock_, meetings_[work->second].end);
      }
    } else if (event.kind != Kind::kMemory) {
      if (event.kind == Kind::kCall) works_[event.number] = meetings_.ask(recording_.rank, call_of(event));
      // Memory of the CPU is no stream's; barriers and objects follow what the stream has.
      if (event.kind == Kind::kCall && event.host && !call_of(event).type.empty())
        meetings_.arrive(works_.at(event.number), {recording_.rank, &call_of(event), &event.line, clock_});
      else
        streams_[event.stream].items.push_back({&event, clock_});
    }
    ++next_;
    return true;
  }

  const Call& call_of(const Event& event) const { return recording_.calls[static_cast<std::size_t>(event.index)]; }

  // The first item of a stream, if it can be done.
  bool take(int number, Stream& stream) {
    const Event& event = *stream.items.front().event;
    const double issued = stream.items.front().issued;
    if (issued > stream.clock) stream.clock = issued;
    switch (event.kind) {
      case Kind::kKernel: {
        const Kernel& kernel = recording_.kernels[static_cast<std::size_t>(event.index)];
        const double seconds = durations_.kernel(kernel, recording_.rank);
        stream.clock += seconds;
        flops_ += kernel.flops;
        if (number == 0) time_.compute += kernel.kind == "idle" ? 0 : seconds, stream.cause = -1;
        break;
      }
      case Kind::kCall:
        meetings_.arrive(works_.at(event.number), {recording_.rank, &call_of(event), &event.line, stream.clock});
        break;
      case Kind::kWait: {
        const auto work = works_.find(event.number);
        if (work == works_.end()) break;
        if (!meetings_[work->second].done) return false;
        wait(number, stream, {meetings_[work->second].end, work->second});
        break;
      }
      case Kind::kRecord:
        recorded_[event.number] = {stream.clock, stream.cause};
        break;
      case Kind::kWaitEvent: {
        const auto at = recorded_.find(event.number);
        if (at == recorded_.end()) return false;
        wait(number, stream, at->second);
        break;
      }
      case Kind::kStep:
        marks_.push_back({event.line, stream.clock, flops_, time_.compute, time_.exposed});
        break;
      case Kind::kMemory:
      case Kind::kSynchronize:
        break;
    }
    stream.items.pop_front();
    return true;
  }

  void wait(int number, Stream& stream, Recorded until) {
    if (until.at <= stream.clock) return;
    const double lost = until.at - stream.clock;
    stream.clock = until.at;
    stream.cause = until.cause;
    if (number != 0 || until.cause < 0) return;
    time_.exposed += lost;
    for (const Meeting::Arrival& a : meetings_[until.cause].arrivals)
      if (a.rank == recording_.rank) time_.sites[{*a.line, a.call->op}].exposed += lost;
  }

  void last_step() {
    if (marks_.size() < 2) return;
    const Mark& last = marks_.back();
    for (std::size_t i = marks_.size() - 1; i-- > 0;) {
      if (marks_[i].line != last.line) continue;
      time_.step = last.at - marks_[i].at;
      time_.step_flops = last.flops - marks_[i].flops;
      time_.step_compute = last.compute - marks_[i].compute;
      time_.step_exposed = last.exposed - marks_[i].exposed;
      return;
    }
  }

  const Recording& recording_;
  Meetings& meetings_;
  const Durations& durations_;
  RankTime& time_;
  std::size_t next_ = 0;
  double clock_ = 0;  // of the host
  double flops_ = 0;
  std::map<int, Stream> streams_;
  std::map<std::int64_t, int> works_;  // meetings, by number of the call
  std::map<std::int64_t, Recorded> recorded_;
  std::vector<Mark> marks_;
};

}  // namespace

Result<Outcome> run(const Job& job, const Durations& durations) {
  Outcome outcome;
  outcome.ranks.resize(job.ranks.size());
  Meetings meetings(job, durations, outcome);
  std::vector<std::unique_ptr<Walker>> walkers;
  for (std::size_t i = 0; i < job.ranks.size(); ++i)
    walkers.push_back(std::make_unique<Walker>(job.ranks[i], meetings, durations, outcome.ranks[i]));
  for (bool again = true; again;) {
    again = false;
    for (auto& walker : walkers) again |= walker->advance();
    WEFT_TRY(const bool settled, meetings.settle());
    again |= settled;
  }
  std::vector<Standstill> standstills;
  for (std::size_t i = 0; i < walkers.size(); ++i) {
    walkers[i]->finish();
    standstills.push_back({job.ranks[i].rank, walkers[i]->ended(), walkers[i]->blocked()});
  }
  for (const Recording& rank : job.ranks)
    if (!rank.error.empty())
      outcome.findings.push_back({"error",
                                  fmt::format("rank {}{}{}: {}", rank.rank, rank.error_line.empty() ? "" : " at ",
                                              rank.error_line, rank.error),
                                  {{rank.rank, rank.error_line}}});
  find_stuck(job, meetings, standstills, outcome);
  return outcome;
}

}  // namespace weft::rehearsal
