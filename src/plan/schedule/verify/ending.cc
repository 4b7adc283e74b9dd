#include "plan/schedule/verify/ending.h"

#include <algorithm>

namespace weft::schedule::symbolic {
namespace {

using Kind = Finding::Kind;

// Nobody is left who could help.
bool ended(const Schedule& s, const Execution& execution, const Blocker& b) {
  if (b.lane >= 0) return execution.finished(execution.of(b.peer, b.lane));
  for (int lane = 0; lane < s.lanes; ++lane)
    if (!execution.finished(execution.of(b.peer, lane))) return false;
  return true;
}

// "2 -> 0 -> 1 -> 2": who waits for whom, starting at a stuck strand. Where a rank waits for itself, with lanes:
// "0 lane 1 -> 0 lane 2 -> 0 lane 1".
std::string cycle_from(const Schedule& s, Execution& execution, const Strand& start) {
  std::vector<const Strand*> path;
  bool within = false;
  for (const Strand* at = &start; std::ranges::find(path, at) == path.end();) {
    path.push_back(at);
    const Blocker b = execution.blocker(*at);
    within = within || b.peer == at->rank;
    const auto stuck = [&](int lane) {
      const Strand& strand = execution.of(b.peer, lane);
      return execution.finished(strand) ? nullptr : &strand;
    };
    const Strand* next = b.lane >= 0 ? stuck(b.lane) : nullptr;
    for (int lane = 0; next == nullptr && lane < s.lanes; ++lane) next = stuck(lane);
    if (next == nullptr) break;
    at = next;
    if (const auto seen = std::ranges::find(path, at); seen != path.end()) {
      path.erase(path.begin(), seen);
      path.push_back(at);
      break;
    }
  }
  std::string text;
  for (const Strand* strand : path) {
    if (!text.empty()) text += " -> ";
    text += std::to_string(strand->rank);
    if (within) text += fmt::format(" lane {}", strand->lane);
  }
  return text;
}

void check_all_finished(const Schedule& s, Execution& execution, int slots, Report& report) {
  const Strand* victim = nullptr;
  Blocker cause;
  for (const Strand& strand : execution.strands()) {
    if (execution.finished(strand)) continue;
    const Blocker b = execution.blocker(strand);
    const bool peer_ended = ended(s, execution, b);
    // The most informative cause: a peer that has ended, then a full connection, then the plain cycle.
    const bool better = victim == nullptr || peer_ended ||
                        (b.reason == Blocker::Reason::kSlot && cause.reason != Blocker::Reason::kSlot);
    if (better) victim = &strand, cause = b;
    if (peer_ended) break;
  }
  if (victim == nullptr) return;
  const ChunkId chunk = s.strand(victim->rank, victim->lane)[victim->next].chunk;
  if (cause.reason == Blocker::Reason::kSlot)
    return report.fail(Kind::kSlotOverrun, *victim, chunk, cause.peer,
                       "sends to rank {}, whose {} slots are full and are not emptied", cause.peer, slots);
  const char* what = cause.reason == Blocker::Reason::kSignal ? "signal" : "message";
  if (cause.reason == Blocker::Reason::kOrder)
    return report.fail(Kind::kDeadlock, *victim, chunk, cause.peer, "waits for a step of lane {} in a cycle: {}",
                       cause.lane, cycle_from(s, execution, *victim));
  if (ended(s, execution, cause))
    return report.fail(Kind::kNeverSent, *victim, chunk, cause.peer, "waits for a {} of rank {}, which has ended", what,
                       cause.peer);
  report.fail(Kind::kDeadlock, *victim, chunk, cause.peer, "waits for a {} in a cycle: {}", what,
              cycle_from(s, execution, *victim));
}

void check_nothing_left(const Schedule& s, const Execution& execution, Report& report) {
  for (const Strand& from : execution.strands()) {
    for (Rank peer = 0; peer < s.shape.ranks; ++peer) {
      const Connection& c = execution.connection(from, peer);
      if (!c.parts.empty())
        return report.fail(Kind::kNeverTaken, execution.of(peer, from.lane), c.parts.front().chunk, from.rank,
                           "never receives {}chunk {} that rank {} sent",
                           c.parts.back().open ? "the rest of a message from " : "", c.parts.front().chunk, from.rank);
      if (!c.signals.empty())
        return report.fail(Kind::kNeverTaken, execution.of(peer, from.lane), -1, from.rank,
                           "never waits for a signal of rank {}", from.rank);
    }
  }
  execution.for_aggregations([&](const Group& group, int lane, const Aggregation& a) {
    for (std::size_t m = 0; m < a.sent.size(); ++m)
      for (std::size_t reader = 0; reader < a.taken.size(); ++reader) {
        if (report.failed() || a.sent[m].size() <= a.taken[reader]) continue;
        const Rank sender = group.member(static_cast<Rank>(m));
        report.fail(Kind::kNeverTaken, execution.of(group.member(static_cast<Rank>(reader)), lane),
                    a.sent[m].back().chunk, sender, "never takes the sum that rank {} sent a part of", sender);
      }
  });
}

void check_postcondition(const Schedule& s, Execution& execution, Report& report) {
  for (Rank r = 0; r < s.shape.ranks; ++r) {
    for (ChunkId c = 0; c < s.shape.chunks; ++c) {
      if (!holds(s.shape, Buffer::kOut, c, r)) continue;
      const Cell& result = execution.cell(r, Buffer::kOut, c);
      Strand end{r, 0, s.strand(r, 0).size(), {}, {}};
      const Epoch& writer = result.history.last_write();
      const bool written = writer.step != kEntry;
      if (written)
        if (const Strand& strand = execution.strands()[static_cast<std::size_t>(writer.strand)]; strand.rank == r)
          end = {r, strand.lane, static_cast<std::size_t>(writer.step), {}, {}};
      const auto by = [&]() -> std::string {
        if (!written) return "never written";
        const Strand& strand = execution.strands()[static_cast<std::size_t>(writer.strand)];
        return fmt::format("written in step {} of rank {} lane {}", writer.step, strand.rank, strand.lane);
      };
      for (const auto& part : result.value.parts())
        if (part.chunk != c)
          return report.fail(Kind::kForeign, end, c, part.first, "out[{}] holds chunk {} of rank {} ({})", c,
                             part.chunk, part.first, by());
      const auto lacks = [&](Rank peer) {
        report.fail(Kind::kMissing, end, c, peer, "out[{}] lacks the contribution of rank {} ({})", c, peer, by());
      };
      if (routed(s.shape.collective)) {
        for (const Rank peer : contributors_to(s.shape, c))
          if (result.value.lacks(c, peer, peer + 1) == peer) return lacks(peer);
        continue;
      }
      const Run wanted = contributors(s.shape, s.shape.block_of(c));
      const auto last = static_cast<Rank>(wanted.at(wanted.count));
      if (const Rank peer = result.value.lacks(c, static_cast<Rank>(wanted.first), last); peer != last)
        return lacks(peer);
    }
  }
}

// When a rank returns, its memory is its own again: whatever peers did there must be ordered before. This also keeps
// rounds and calls apart, because the next one begins after the exit.
void check_exits(const Schedule& s, Execution& execution, Report& report) {
  for (Rank r = 0; r < s.shape.ranks && !report.failed(); ++r) {
    Strand exit{r, 0, s.strand(r, 0).size(), Clock(s.strands.size(), Clock::kNone), {}};
    for (int lane = 0; lane < s.lanes; ++lane) exit.clock.join(execution.of(r, lane).clock);
    execution.for_own_cells(r, [&](Cell& cell, ChunkId chunk) {
      const Epoch* other = cell.history.write(execution.epoch(exit), exit.clock);
      if (other == nullptr || report.failed()) return;
      const Strand& rival = execution.strands()[static_cast<std::size_t>(other->strand)];
      report.fail(Kind::kRace, exit, chunk, rival.rank,
                  "returns while step {} of rank {} lane {} may still touch its chunk {}", other->step, rival.rank,
                  rival.lane, chunk);
    });
    if (s.shape.collective != Collective::kBarrier) continue;
    for (Rank peer = 0; peer < s.shape.ranks; ++peer)
      if (exit.clock.at(execution.index(execution.of(peer, 0))) == 0)
        return report.fail(Kind::kMissing, exit, -1, peer, "leaves the barrier although rank {} may not have come",
                           peer);
  }
}

}  // namespace

void check_ending(const Schedule& schedule, Execution& execution, int slots, Report& report) {
  if (!report.failed()) check_all_finished(schedule, execution, slots, report);
  if (!report.failed()) check_nothing_left(schedule, execution, report);
  if (!report.failed()) check_postcondition(schedule, execution, report);
  if (!report.failed()) check_exits(schedule, execution, report);
}

}  // namespace weft::schedule::symbolic
