#include "schedule/verify/verify.h"

#include <fmt/format.h>

#include <deque>

#include "schedule/verify/races.h"
#include "schedule/verify/value.h"

namespace weft::schedule {
namespace {

using symbolic::AccessHistory;
using symbolic::Clock;
using symbolic::Epoch;
using symbolic::Value;
using Kind = Finding::Kind;

struct Cell {
  Value value;
  AccessHistory history;
};

struct Message {
  Value value;
  int chunk;
  Clock clock;
};

struct Strand {
  Rank rank;
  int lane;
  std::size_t next = 0;  // step
  Clock clock;
};

constexpr int kEntry = -1;  // as an epoch's step: the rank's call

class Verifier {
 public:
  Verifier(const Schedule& schedule, VerifyOptions options)
      : s_(schedule), options_(options), cells_(static_cast<std::size_t>(s_.ranks * 3 * s_.chunks)) {
    for (Rank r = 0; r < s_.ranks; ++r) {
      for (int lane = 0; lane < s_.lanes; ++lane) strands_.push_back({r, lane, 0, Clock(s_.strands.size(), 0)});
      for (int c = 0; c < s_.chunks; ++c)
        if (contributes(s_.collective, r, c, s_.root)) cell(r, Buffer::kIn, c).value = Value::contribution(r, c);
    }
    messages_.resize(s_.strands.size() * static_cast<std::size_t>(s_.ranks));
    signals_.resize(messages_.size());
    senders_.resize(messages_.size(), -1);
    takers_.resize(messages_.size(), -1);
    for (Strand& strand : strands_) enter(strand);
  }

  Proof run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Strand& strand : strands_)
        while (!proof_.counterexample && step(strand)) moved = true;
    }
    if (!proof_.counterexample) check_all_finished();
    if (!proof_.counterexample) check_nothing_left();
    if (!proof_.counterexample) check_postcondition();
    if (!proof_.counterexample) check_exits();
    return std::move(proof_);
  }

 private:
  // Until a rank calls, its memory is its own: the caller may still fill the input and read the last call's output, and
  // weft the last call's scratch. So every buffer counts as written at the rank's entry, which its own strands know of.
  void enter(Strand& strand) {
    strand.clock[index(of(strand.rank, 0))] = 1;
    if (strand.lane != 0) return;
    for (const Buffer buffer : {Buffer::kIn, Buffer::kOut, Buffer::kScratch})
      for (int c = 0; c < s_.chunks; ++c)
        cell(strand.rank, buffer, c).history.write({static_cast<int>(index(strand)), 1, kEntry}, strand.clock);
  }

  // Runs the strand's next step; false if it must wait, has ended, or is wrong.
  bool step(Strand& self) {
    const auto& steps = s_.strand(self.rank, self.lane);
    if (self.next == steps.size()) return false;
    const Step& now = steps[self.next];
    if (!well_formed(self, now) || blocked_on(self, now).peer >= 0) return false;
    ++self.clock[index(self)];
    switch (now.kind) {
      case Step::Kind::kSignal:
        signals_[channel(self, now.peer)].push_back(self.clock);
        break;
      case Step::Kind::kWait: {
        auto& queue = signals_[channel(of(now.peer, self.lane), self.rank)];
        symbolic::join(self.clock, queue.front());
        queue.pop_front();
        break;
      }
      case Step::Kind::kMove:
        move(self, now);
        break;
    }
    ++self.next;
    ++proof_.steps;
    return !proof_.counterexample;
  }

  void move(Strand& self, const Step& now) {
    Value value;
    for (const Operand& o : now.sources) {
      Value part = read(self, now, o);
      if (proof_.counterexample) return;
      value = value.defined() ? value + part : std::move(part);
    }
    for (const auto& part : value.parts())
      if (part.count > 1)
        return fail(Kind::kDoubled, self, part.chunk, part.rank,
                    "the contribution of rank {} to chunk {} is added {} times", part.rank, part.chunk, part.count);
    for (const Operand& o : now.destinations) {
      if (o.kind == Operand::Kind::kMessage) {
        ++proof_.messages;
        outgoing(self, o).push_back({value, now.chunk, self.clock});
        continue;
      }
      const Rank owner = o.kind == Operand::Kind::kRemote ? o.peer : self.rank;
      proof_.remote_accesses += o.kind == Operand::Kind::kRemote;
      Cell& target = cell(owner, o.buffer, o.chunk);
      if (const Epoch* other = target.history.write(epoch(self), self.clock)) return race(self, o, *other);
      target.value = value;
    }
  }

  Value read(Strand& self, const Step& now, const Operand& o) {
    if (o.kind == Operand::Kind::kMessage) {
      auto& queue = incoming(self, o);
      Message message = std::move(queue.front());
      queue.pop_front();
      symbolic::join(self.clock, message.clock);
      if (message.chunk != now.chunk)
        fail(Kind::kWrongChunk, self, now.chunk, o.peer, "receives chunk {} where rank {} sent chunk {}", now.chunk,
             o.peer, message.chunk);
      return std::move(message.value);
    }
    const Rank owner = o.kind == Operand::Kind::kRemote ? o.peer : self.rank;
    proof_.remote_accesses += o.kind == Operand::Kind::kRemote;
    Cell& source = cell(owner, o.buffer, o.chunk);
    if (const Epoch* other = source.history.read(epoch(self), self.clock)) {
      race(self, o, *other);
    } else if (!source.value.defined()) {
      fail(Kind::kUndefined, self, o.chunk, owner, "reads chunk {} of rank {}, which nothing was written to", o.chunk,
           owner);
    }
    return source.value;
  }

  struct Blocker {
    Rank peer = -1;  // -1: not blocked
    enum class Reason { kMessage, kSignal, kSlot } reason = Reason::kMessage;
  };
  Blocker blocked_on(const Strand& self, const Step& now) {
    if (now.kind == Step::Kind::kWait && signals_[channel(of(now.peer, self.lane), self.rank)].empty())
      return {now.peer, Blocker::Reason::kSignal};
    for (const Operand& o : now.sources)
      if (o.kind == Operand::Kind::kMessage && incoming(self, o).empty()) return {o.peer, Blocker::Reason::kMessage};
    for (const Operand& o : now.destinations)
      if (o.kind == Operand::Kind::kMessage && static_cast<int>(outgoing(self, o).size()) >= options_.slots)
        return {o.peer, Blocker::Reason::kSlot};
    return {};
  }

  bool well_formed(Strand& self, const Step& now) {
    if (now.kind != Step::Kind::kMove) {
      if (now.peer >= 0 && now.peer < s_.ranks && now.peer != self.rank) return true;
      fail(Kind::kBadOperand, self, -1, now.peer, "names rank {}, which is not a peer", now.peer);
      return false;
    }
    if (now.sources.empty() || now.destinations.empty()) {
      fail(Kind::kBadOperand, self, now.chunk, -1, "moves nothing or nowhere");
      return false;
    }
    if (now.chunk < 0 || now.chunk >= s_.chunks) {
      fail(Kind::kBadOperand, self, now.chunk, -1, "moves chunk {} of {}", now.chunk, s_.chunks);
      return false;
    }
    for (const Operand& o : now.sources)
      if (!well_formed(self, now, o, now.sources, false)) return false;
    for (const Operand& o : now.destinations)
      if (!well_formed(self, now, o, now.destinations, true)) return false;
    return true;
  }

  bool well_formed(Strand& self, const Step& now, const Operand& o, const Operands& side, bool destination) {
    const bool remote = o.kind != Operand::Kind::kLocal;
    if (o.lane < Operand::kSameLane || o.lane >= s_.lanes) {
      fail(Kind::kBadOperand, self, now.chunk, o.peer, "names lane {} of {}", o.lane, s_.lanes);
    } else if (remote && (o.peer < 0 || o.peer >= s_.ranks || o.peer == self.rank)) {
      fail(Kind::kBadOperand, self, now.chunk, o.peer, "names rank {}, which is not a peer", o.peer);
    } else if (o.kind == Operand::Kind::kMessage) {
      own_connection(self, now, o, side, destination);
    } else if (o.chunk != now.chunk ||
               (o.buffer != Buffer::kScratch &&
                !holds(s_.collective, o.buffer, o.chunk, remote ? o.peer : self.rank, s_.ranks, s_.root))) {
      fail(Kind::kBadOperand, self, o.chunk, o.peer,
           "names chunk {}, which the buffer does not hold or the step does not move", o.chunk);
    } else if (destination && o.buffer == Buffer::kIn) {
      fail(Kind::kBadOperand, self, o.chunk, o.peer, "writes chunk {} of the input", o.chunk);
    } else if (destination && std::count(side.begin(), side.end(), o) > 1) {
      fail(Kind::kBadOperand, self, o.chunk, o.peer, "writes chunk {} twice in one step", o.chunk);
    }
    return !proof_.counterexample;
  }

  // A step moves at most one message over a connection, and each end of a connection belongs to one strand: otherwise
  // which message is meant would depend on which strand comes first.
  void own_connection(Strand& self, const Step& now, const Operand& o, const Operands& side, bool destination) {
    int same = 0;
    for (const Operand& other : side)
      same += other.kind == o.kind && other.peer == o.peer && lane_of(self, other) == lane_of(self, o);
    const char* verb = destination ? "sends to" : "receives from";
    if (same > 1)
      return fail(Kind::kBadOperand, self, now.chunk, o.peer, "{} rank {} {} times in one step", verb, o.peer, same);
    int& owner = destination ? senders_[channel(of(self.rank, lane_of(self, o)), o.peer)]
                             : takers_[channel(of(o.peer, lane_of(self, o)), self.rank)];
    if (owner < 0) owner = self.lane;
    if (owner != self.lane)
      fail(Kind::kRace, self, now.chunk, o.peer,
           "{} rank {} on the connection of lane {}, which lane {} uses unordered", verb, o.peer, lane_of(self, o),
           owner);
  }

  void check_all_finished() {
    const Strand* victim = nullptr;
    Blocker cause;
    for (const Strand& strand : strands_) {
      if (finished(strand)) continue;
      const Blocker b = blocked_on(strand, s_.strand(strand.rank, strand.lane)[strand.next]);
      const bool peer_ended = ended(b.peer);
      // The most telling cause: a peer that has ended, then a full connection, then the plain cycle.
      const bool better = victim == nullptr || peer_ended ||
                          (b.reason == Blocker::Reason::kSlot && cause.reason != Blocker::Reason::kSlot);
      if (better) victim = &strand, cause = b;
      if (peer_ended) break;
    }
    if (victim == nullptr) return;
    const int chunk = s_.strand(victim->rank, victim->lane)[victim->next].chunk;
    if (cause.reason == Blocker::Reason::kSlot)
      return fail(Kind::kSlotOverrun, *victim, chunk, cause.peer,
                  "sends to rank {}, whose {} slots are full and are not emptied", cause.peer, options_.slots);
    const char* what = cause.reason == Blocker::Reason::kSignal ? "signal" : "message";
    if (ended(cause.peer))
      return fail(Kind::kNeverSent, *victim, chunk, cause.peer, "waits for a {} of rank {}, which has ended", what,
                  cause.peer);
    fail(Kind::kDeadlock, *victim, chunk, cause.peer, "waits for a {} in a cycle: {}", what, cycle_from(*victim));
  }

  // "2 -> 0 -> 1 -> 2": who waits for whom, starting at a stuck strand.
  std::string cycle_from(const Strand& start) {
    std::vector<Rank> path;
    const Strand* at = &start;
    while (std::find(path.begin(), path.end(), at->rank) == path.end()) {
      path.push_back(at->rank);
      const Rank peer = blocked_on(*at, s_.strand(at->rank, at->lane)[at->next]).peer;
      for (int lane = s_.lanes - 1; lane >= 0; --lane)
        if (!finished(of(peer, lane))) at = &of(peer, lane);
    }
    path.push_back(at->rank);
    return fmt::format("{}", fmt::join(path, " -> "));
  }

  void check_nothing_left() {
    for (const Strand& from : strands_) {
      for (Rank peer = 0; peer < s_.ranks; ++peer) {
        const auto& queue = messages_[channel(from, peer)];
        if (!queue.empty())
          return fail(Kind::kNeverTaken, of(peer, from.lane), queue.front().chunk, from.rank,
                      "never receives chunk {} that rank {} sent", queue.front().chunk, from.rank);
        if (!signals_[channel(from, peer)].empty())
          return fail(Kind::kNeverTaken, of(peer, from.lane), -1, from.rank, "never waits for a signal of rank {}",
                      from.rank);
      }
    }
  }

  // When a rank returns, its memory is its own again: whatever peers did there must be ordered before. This also keeps
  // rounds and calls apart, because the next one begins after the exit.
  void check_exits() {
    for (Rank r = 0; r < s_.ranks; ++r) {
      Strand exit{r, 0, s_.strand(r, 0).size(), Clock(s_.strands.size(), 0)};
      for (int lane = 0; lane < s_.lanes; ++lane) symbolic::join(exit.clock, of(r, lane).clock);
      for (const Buffer buffer : {Buffer::kIn, Buffer::kOut, Buffer::kScratch})
        for (int c = 0; c < s_.chunks; ++c)
          if (const Epoch* other = cell(r, buffer, c).history.write(epoch(exit), exit.clock)) {
            const Strand& rival = strands_[static_cast<std::size_t>(other->strand)];
            return fail(Kind::kRace, exit, c, rival.rank,
                        "returns while step {} of rank {} lane {} may still touch its chunk {}", other->step,
                        rival.rank, rival.lane, c);
          }
    }
  }

  void check_postcondition() {
    for (Rank r = 0; r < s_.ranks; ++r) {
      for (int c = 0; c < s_.chunks; ++c) {
        if (!holds(s_.collective, Buffer::kOut, c, r, s_.ranks, s_.root)) continue;
        Cell& result = cell(r, Buffer::kOut, c);
        Strand end{r, 0, s_.strand(r, 0).size(), {}};
        const Epoch& writer = result.history.last_write();
        std::string who = "never written";
        if (writer.step != kEntry) {
          const Strand& strand = strands_[static_cast<std::size_t>(writer.strand)];
          who = fmt::format("written in step {} of rank {} lane {}", writer.step, strand.rank, strand.lane);
          if (strand.rank == r) end = {r, strand.lane, static_cast<std::size_t>(writer.step), {}};
        }
        for (const auto& part : result.value.parts())
          if (part.chunk != c)
            return fail(Kind::kForeign, end, c, part.rank, "out[{}] holds chunk {} of rank {} ({})", c, part.chunk,
                        part.rank, who);
        for (Rank peer = 0; peer < s_.ranks; ++peer)
          if (contributes(s_.collective, peer, c, s_.root) && result.value.count(peer, c) == 0)
            return fail(Kind::kMissing, end, c, peer, "out[{}] lacks the contribution of rank {} ({})", c, peer, who);
      }
    }
  }

  void race(const Strand& self, const Operand& o, const Epoch& other) {
    const Strand& rival = strands_[static_cast<std::size_t>(other.strand)];
    if (other.step == kEntry)
      return fail(Kind::kRace, self, o.chunk, rival.rank, "touches chunk {} of rank {}, which may not have called yet",
                  o.chunk, rival.rank);
    fail(Kind::kRace, self, o.chunk, rival.rank, "touches chunk {} unordered with step {} of rank {} lane {}", o.chunk,
         other.step, rival.rank, rival.lane);
  }

  template <class... Args>
  void fail(Kind kind, const Strand& where, int chunk, Rank peer, fmt::format_string<Args...> format, Args&&... args) {
    const auto& steps = s_.strand(where.rank, where.lane);
    const int step = where.next < steps.size() ? static_cast<int>(where.next) : -1;
    const std::string place =
        step >= 0 ? fmt::format("step {} ({})", step, to_string(steps[where.next])) : "at the end";
    proof_.counterexample = Finding{kind,
                                    where.rank,
                                    where.lane,
                                    step,
                                    chunk,
                                    peer,
                                    fmt::format("{}: rank {} lane {} {}: {}", name(kind), where.rank, where.lane, place,
                                                fmt::format(format, std::forward<Args>(args)...))};
  }

  std::deque<Message>& incoming(const Strand& self, const Operand& o) {
    return messages_[channel(of(o.peer, lane_of(self, o)), self.rank)];
  }
  std::deque<Message>& outgoing(const Strand& self, const Operand& o) {
    return messages_[channel(of(self.rank, lane_of(self, o)), o.peer)];
  }
  static int lane_of(const Strand& self, const Operand& o) { return o.lane == Operand::kSameLane ? self.lane : o.lane; }
  bool finished(const Strand& strand) const { return strand.next == s_.strand(strand.rank, strand.lane).size(); }
  bool ended(Rank rank) const {
    for (int lane = 0; lane < s_.lanes; ++lane)
      if (!finished(of(rank, lane))) return false;
    return true;
  }
  std::size_t index(const Strand& strand) const {
    return static_cast<std::size_t>(strand.rank * s_.lanes + strand.lane);
  }
  const Strand& of(Rank rank, int lane) const { return strands_[static_cast<std::size_t>(rank * s_.lanes + lane)]; }
  std::size_t channel(const Strand& source, Rank destination) const {
    return index(source) * static_cast<std::size_t>(s_.ranks) + static_cast<std::size_t>(destination);
  }
  Epoch epoch(const Strand& self) const {
    return {static_cast<int>(index(self)), self.clock[index(self)], static_cast<int>(self.next)};
  }
  Cell& cell(Rank rank, Buffer buffer, int chunk) {
    // In place, a chunk that both buffers hold is one memory.
    if (options_.in_place && buffer == Buffer::kOut &&
        holds(s_.collective, Buffer::kIn, chunk, rank, s_.ranks, s_.root))
      buffer = Buffer::kIn;
    return cells_[static_cast<std::size_t>((rank * 3 + static_cast<int>(buffer)) * s_.chunks + chunk)];
  }

  const Schedule& s_;
  VerifyOptions options_;
  std::vector<Cell> cells_;
  std::vector<Strand> strands_;
  std::vector<std::deque<Message>> messages_;  // [sending rank and lane][receiving rank]
  std::vector<std::deque<Clock>> signals_;     // [sending strand][receiving rank]
  std::vector<int> senders_, takers_;          // the lane at each end of messages_; -1 before the first use
  Proof proof_;
};

}  // namespace

std::string_view name(Finding::Kind kind) {
  constexpr std::string_view kNames[] = {"bad operand", "undefined",  "doubled",     "missing",      "foreign", "race",
                                         "wrong chunk", "never sent", "never taken", "slot overrun", "deadlock"};
  return kNames[static_cast<int>(kind)];
}

Proof verify(const Schedule& schedule, VerifyOptions options) { return Verifier(schedule, options).run(); }

}  // namespace weft::schedule
