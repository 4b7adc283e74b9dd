#include "apps/rehearsal/stuck.h"

#include <algorithm>
#include <functional>
#include <set>

namespace weft::rehearsal {
namespace {

std::string in_line(const std::string& line) { return line.empty() ? "" : " at " + line; }

class Search {
 public:
  Search(const Job& job, const Meetings& meetings, const std::vector<Standstill>& ranks, Outcome& outcome)
      : job_(job), meetings_(meetings), ranks_(ranks), outcome_(outcome) {
    for (const Finding& finding : outcome.findings)
      for (const Place& place : finding.places) named_.insert(place.rank);
  }

  void find() {
    if (circle()) return;
    for (int i = 0; i < meetings_.size(); ++i) {
      const Meeting& meeting = meetings_[i];
      if (meeting.done || meeting.arrivals.empty() || told_.contains(meeting.group) ||
          meetings_.disagreed(meeting.group))
        continue;
      for (const Rank rank : meeting.absent()) {
        const Standstill* other = standstill(rank);
        if (other == nullptr || !other->ended || named_.contains(rank)) continue;
        never_comes(meeting, rank);
        told_.insert(meeting.group);
        break;
      }
    }
    if (outcome_.findings.empty()) unexplained();
  }

 private:
  const Standstill* standstill(Rank rank) const {
    const auto found = std::ranges::find(ranks_, rank, &Standstill::rank);
    return found == ranks_.end() ? nullptr : &*found;
  }

  // The ranks that a meeting waits for, itself or by what has to end before it.
  void awaited(int index, std::set<int>& seen, std::set<Rank>& ranks) const {
    const Meeting& meeting = meetings_[index];
    if (meeting.done || !seen.insert(index).second) return;
    const std::vector<Rank> absent = meeting.absent();
    ranks.insert(absent.begin(), absent.end());
    // Both ends have asked for a message, each after another one between them.
    if (absent.empty() && meeting.arrivals.front().call->message())
      ranks.insert(meeting.expected.begin(), meeting.expected.end());
    for (const int before : meeting.before) awaited(before, seen, ranks);
  }

  // Follows from each blocked rank whom it waits for; a rank that comes again closes a circle.
  bool circle() {
    std::vector<std::pair<Rank, Blocked>> path;
    std::set<Rank> finished;
    const std::function<bool(Rank)> follow = [&](Rank rank) {
      const auto again = std::ranges::find(path, rank, [](const auto& p) { return p.first; });
      if (again != path.end()) {
        report_circle({again, path.end()});
        return true;
      }
      const Standstill* here = standstill(rank);
      if (here == nullptr || here->ended || finished.contains(rank)) return false;
      for (const Blocked& wait : here->waits) {
        path.emplace_back(rank, wait);
        std::set<int> seen;
        std::set<Rank> others;
        awaited(wait.meeting, seen, others);
        others.erase(rank);
        for (const Rank other : others)
          if (follow(other)) return true;
        path.pop_back();
      }
      finished.insert(rank);
      return false;
    };
    return std::ranges::any_of(ranks_, [&](const Standstill& s) { return follow(s.rank); });
  }

  void report_circle(const std::vector<std::pair<Rank, Blocked>>& circle) {
    if (std::ranges::any_of(circle, [&](const auto& c) { return named_.contains(c.first); })) return;
    Finding finding{"deadlock", "ranks wait for each other in a circle: ", {}};
    for (std::size_t i = 0; i < circle.size(); ++i) {
      const auto& [rank, wait] = circle[i];
      const Meeting& meeting = meetings_[wait.meeting];
      const auto arrival = std::ranges::find(meeting.arrivals, rank, &Meeting::Arrival::rank);
      const std::string& line = arrival == meeting.arrivals.end() ? wait.line : *arrival->line;
      finding.text += fmt::format("{}rank {}{} waits in {} for rank {}", i > 0 ? "; " : "", rank, in_line(line),
                                  arrival == meeting.arrivals.end() ? "a call" : text_of(*arrival->call),
                                  circle[(i + 1) % circle.size()].first);
      finding.places.push_back({rank, line});
    }
    outcome_.findings.push_back(std::move(finding));
  }

  void never_comes(const Meeting& meeting, Rank absent) {
    const Meeting::Arrival& here = meeting.arrivals.front();
    std::string last = "it makes no call of this group";
    std::string line;
    for (int i = 0; i < meetings_.size(); ++i)
      for (const Meeting::Arrival& a : meetings_[i].arrivals)
        if (a.rank == absent && a.call->group == meeting.group && a.call->message() == here.call->message())
          last = fmt::format("its last is {}{}", text_of(*a.call), in_line(*a.line)), line = *a.line;
    const bool message = here.call->message();
    const char* never = !message                  ? "never makes this call"
                        : here.call->op == "send" ? "never receives it"
                                                  : "never sends it";
    outcome_.findings.push_back({message ? "unmatched_message" : "missing_call",
                                 fmt::format("rank {}{} calls {}, rank {} {}: {}", here.rank, in_line(*here.line),
                                             text_of(*here.call), absent, never, last),
                                 {{here.rank, *here.line}, {absent, line}}});
  }

  // No rule above names the cause, yet a rank waits.
  void unexplained() {
    for (const Standstill& s : ranks_) {
      if (s.ended || s.waits.empty()) continue;
      const Meeting& meeting = meetings_[s.waits.front().meeting];
      const std::string call = meeting.arrivals.empty() ? "a call" : text_of(*meeting.arrivals.front().call);
      outcome_.findings.push_back(
          {"deadlock",
           fmt::format("rank {}{} waits in {} without end", s.rank, in_line(s.waits.front().line), call),
           {{s.rank, s.waits.front().line}}});
      return;
    }
  }

  const Job& job_;
  const Meetings& meetings_;
  const std::vector<Standstill>& ranks_;
  Outcome& outcome_;
  std::set<Rank> named_;  // ranks of earlier findings
  std::set<int> told_;    // groups with a finding
};

}  // namespace

void find_stuck(const Job& job, const Meetings& meetings, const std::vector<Standstill>& ranks, Outcome& outcome) {
  Search(job, meetings, ranks, outcome).find();
}

}  // namespace weft::rehearsal
