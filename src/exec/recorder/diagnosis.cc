#include "exec/recorder/diagnosis.h"

#include <algorithm>

namespace weft::recorder {
namespace {

Doing doing_of(const Snapshot* s) {
  if (s == nullptr) return Doing::kUnrecorded;
  if (s->process == Process::kEnded) return Doing::kEnded;
  if (s->process == Process::kStopped) return Doing::kStopped;
  if (s->waits()) return Doing::kWaiting;
  return s->busy() ? Doing::kRunning : Doing::kIdle;
}

std::string call_of(const Operation& o) { return fmt::format("{} #{}", o.collective, o.number); }

// In which other communicator the process is meanwhile.
std::string elsewhere(const Snapshot& s, const std::vector<Snapshot>& all) {
  for (const Snapshot& other : all)
    if (other.pid == s.pid && &other != &s && !other.doing().empty())
      return fmt::format("; it is in {} of {}", other.doing(), other.group);
  return "";
}

std::string why(const Standing& standing, Rank rank, const std::vector<Snapshot>& all) {
  const Snapshot* s = standing.ranks[static_cast<std::size_t>(rank)];
  const std::string in = s != nullptr && !s->doing().empty() ? fmt::format(", in {}", s->doing()) : "";
  switch (standing.doing[static_cast<std::size_t>(rank)]) {
    case Doing::kUnrecorded:
      return "it has no record here: on another machine, or gone";
    case Doing::kEnded:
      return "its process has ended" + in;
    case Doing::kStopped:
      return "its process is stopped by a signal" + in;
    case Doing::kIdle:
      if (s->last() == nullptr) return "it has not called anything yet" + elsewhere(*s, all);
      return fmt::format("it has not called #{}; its last call was {}{}", s->last()->number + 1, call_of(*s->last()),
                         elsewhere(*s, all));
    case Doing::kRunning:
      return "it computes or moves data" + in;
    case Doing::kWaiting:
      return "it waits" + in;
  }
  return "";
}

void find_circle(Standing& standing, Rank from) {
  if (!standing.circle.empty()) return;
  Rank at = from;
  do {
    standing.circle.push_back(at);
    at = standing.ranks[static_cast<std::size_t>(at)]->awaited();
  } while (at != from);
  const Snapshot& first = *standing.ranks[static_cast<std::size_t>(from)];
  for (const Rank r : standing.circle) {
    const Snapshot& another = *standing.ranks[static_cast<std::size_t>(r)];
    if (!first.tagged && !another.tagged) continue;
    standing.disagreement = fmt::format("rank {} is in {}, rank {} in {}", from, first.doing(), standing.circle[1],
                                        standing.ranks[static_cast<std::size_t>(standing.circle[1])]->doing());
    return;
  }
  const Operation& mine = *first.last();
  for (const Rank r : standing.circle) {
    const Operation& other = *standing.ranks[static_cast<std::size_t>(r)]->last();
    if (other.number == mine.number && other.collective == mine.collective && other.count == mine.count &&
        other.type == mine.type && other.root == mine.root)
      continue;
    standing.disagreement = fmt::format("rank {} is in {} of {} {}, rank {} in {} of {} {}", from, call_of(mine),
                                        mine.count, mine.type, r, call_of(other), other.count, other.type);
    return;
  }
}

// Follows whom each waiting rank waits for to the end.
void follow_waits(Standing& standing, const std::vector<Snapshot>& all) {
  const auto n = static_cast<Rank>(standing.ranks.size());
  std::vector<int> behind(standing.ranks.size());
  // A receive from any rank waits for nobody in particular.
  const auto waits = [&](Rank r) {
    return standing.doing[static_cast<std::size_t>(r)] == Doing::kWaiting &&
           standing.ranks[static_cast<std::size_t>(r)]->awaited() >= 0;
  };
  for (Rank r = 0; r < n; ++r) {
    if (!waits(r)) continue;
    Rank at = r;
    for (Rank hops = 0; hops <= n && waits(at); ++hops) {
      const Rank next = standing.ranks[static_cast<std::size_t>(at)]->awaited();
      if (next >= n) break;
      at = next;
    }
    if (waits(at))
      find_circle(standing, at);
    else
      ++behind[static_cast<std::size_t>(at)];
  }
  for (Rank r = 0; r < n; ++r)
    if (behind[static_cast<std::size_t>(r)] > 0)
      standing.late.push_back({r, behind[static_cast<std::size_t>(r)], why(standing, r, all)});
  std::stable_sort(standing.late.begin(), standing.late.end(),
                   [](const Late& a, const Late& b) { return a.behind > b.behind; });
}

}  // namespace

std::vector<Standing> standings(const std::vector<Snapshot>& snapshots) {
  std::vector<Standing> all;
  for (const Snapshot& s : snapshots) {
    if (all.empty() || all.back().job != s.job || all.back().group != s.group)
      all.push_back({.job = s.job,
                     .group = s.group,
                     .transport = s.transport,
                     .ranks = std::vector<const Snapshot*>(static_cast<std::size_t>(std::max<Rank>(s.ranks, 0)))});
    Standing& standing = all.back();
    if (s.rank >= 0 && static_cast<std::size_t>(s.rank) < standing.ranks.size())
      standing.ranks[static_cast<std::size_t>(s.rank)] = &s;
  }
  for (Standing& standing : all) {
    for (const Snapshot* s : standing.ranks) standing.doing.push_back(doing_of(s));
    follow_waits(standing, snapshots);
  }
  return all;
}

}  // namespace weft::recorder
