#include "schedule/verify/verify.h"

#include <fmt/format.h>

#include <map>
#include <span>
#include <tuple>

#include "schedule/queue.h"
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
  ChunkId chunk = -1;
  Clock clock;
  bool open = false;  // more parts of the same message follow
};

// From one lane of one rank to another rank. Whole messages are seen, not their parts.
struct Connection {
  Queue<Message> parts;
  int whole = 0;  // messages of which all parts were sent and not all were taken
};

// What a group's members sent into a switch, in order, and how many sums each of them has taken.
struct Aggregation {
  std::vector<std::vector<Message>> sent;
  std::vector<std::size_t> taken;
};

struct Strand {
  Rank rank;
  int lane;
  std::size_t next = 0;  // step
  Clock clock;
  std::span<const Order> orders;  // of its own steps that are still to come
};

constexpr int kEntry = -1;  // as an epoch's step: the rank's call

class Verifier {
 public:
  Verifier(const Schedule& schedule, VerifyOptions options)
      : s_(schedule),
        options_(options),
        per_rank_(2 * shape().chunks + s_.scratch),
        cells_(static_cast<std::size_t>(shape().ranks) * static_cast<std::size_t>(per_rank_)) {
    for (Rank r = 0; r < shape().ranks; ++r) {
      for (int lane = 0; lane < s_.lanes; ++lane) strands_.push_back({r, lane, 0, Clock(s_.strands.size(), 0), {}});
      for (ChunkId c = 0; c < shape().chunks; ++c)
        if (holds(shape(), Buffer::kIn, c, r)) cell(r, Buffer::kIn, c).value = Value::contribution(r, c);
    }
    messages_.resize(s_.strands.size() * static_cast<std::size_t>(shape().ranks));
    signals_.resize(messages_.size());
    senders_.resize(messages_.size(), -1);
    takers_.resize(messages_.size(), -1);
    for (Strand& strand : strands_) enter(strand);
    if (!s_.orders.empty()) prepare_orders();
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
    for_own_cells(strand.rank, [&](Cell& cell, int) {
      cell.history.write({static_cast<int>(index(strand)), 1, kEntry}, strand.clock);
    });
  }

  void prepare_orders() {
    std::span<const Order> rest = s_.orders;
    for (Strand& strand : strands_) {
      const auto mine = std::ranges::find_if(rest, [&](const Order& o) { return index_of(o) > index(strand); });
      strand.orders = {rest.begin(), mine};
      rest = {mine, rest.end()};
    }
    for (const Order& o : s_.orders)
      ends_[{index_of(o) / lanes() * lanes() + static_cast<std::size_t>(o.lane), o.after}];
  }
  static std::size_t index_of(const Order& o) { return static_cast<std::size_t>(o.strand); }
  std::size_t lanes() const { return static_cast<std::size_t>(s_.lanes); }

  // The strands whose steps end before the next one of `self` begins.
  void follow_orders(Strand& self) {
    while (!self.orders.empty() && static_cast<std::size_t>(self.orders.front().step) == self.next) {
      const Order& o = self.orders.front();
      symbolic::join(self.clock, ends_[{index(of(self.rank, o.lane)), o.after}]);
      self.orders = self.orders.subspan(1);
    }
  }

  // Runs the strand's next step; false if it must wait, has ended, or is wrong.
  bool step(Strand& self) {
    const auto& steps = s_.strand(self.rank, self.lane);
    if (self.next == steps.size()) return false;
    const Step& now = steps[self.next];
    if (!well_formed(self, now) || blocked_on(self, now).peer >= 0) return false;
    follow_orders(self);
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
    if (const auto end = ends_.find({index(self), static_cast<int>(self.next)}); end != ends_.end())
      end->second = self.clock;
    ++self.next;
    ++proof_.steps;
    return !proof_.counterexample;
  }

  void move(Strand& self, const Step& now) {
    Value value;
    Rank last = -1;  // contributor, where order matters
    for (const Operand& o : now.sources) {
      Value part = read(self, now, o);
      if (proof_.counterexample) return;
      if (options_.in_order && now.sources.size() > 1) {
        if (part.parts().size() != 1 || part.parts()[0].rank <= last)
          return fail(Kind::kOutOfOrder, self, now.chunk, part.parts()[0].rank,
                      "adds the contribution of rank {} after that of rank {}, or sums that are not single ones",
                      part.parts()[0].rank, last);
        last = part.parts()[0].rank;
      }
      if (value.defined() && value.parts()[0].chunk != part.parts()[0].chunk)
        return fail(Kind::kForeign, self, now.chunk, part.parts()[0].rank, "adds chunk {} to chunk {}",
                    part.parts()[0].chunk, value.parts()[0].chunk);
      value = value.defined() ? value + part : std::move(part);
    }
    for (const auto& part : value.parts())
      if (part.count > 1)
        return fail(Kind::kDoubled, self, part.chunk, part.rank,
                    "the contribution of rank {} to chunk {} is added {} times", part.rank, part.chunk, part.count);
    if (stays_where_it_is(self, now)) return;
    for (const Operand& o : now.destinations) {
      if (o.message()) {
        proof_.messages += !o.open;
        Connection& c = outgoing(self, o);
        c.parts.push_back({value, now.chunk, self.clock, o.open});
        c.whole += !o.open;
        continue;
      }
      if (o.kind == Operand::Kind::kAggregation) {
        ++proof_.messages;
        aggregation(self, o).sent[member(self, o)].push_back({value, now.chunk, self.clock});
        continue;
      }
      for (const Rank owner : owners(self, o)) {
        proof_.remote_accesses += owner != self.rank;
        Cell& target = cell(owner, o.buffer, o.chunk);
        if (const Epoch* other = target.history.write(epoch(self), self.clock)) return race(self, o, owner, *other);
        target.value = value;
      }
    }
  }

  // In place, a chunk's copy from the input to the output.
  bool stays_where_it_is(const Strand& self, const Step& now) {
    if (reduces(shape().collective) || now.sources.size() != 1 || now.destinations.size() != 1) return false;
    const Operand &from = now.sources[0], &to = now.destinations[0];
    return from.kind == Operand::Kind::kLocal && to.kind == Operand::Kind::kLocal &&
           &cell(self.rank, from.buffer, from.chunk) == &cell(self.rank, to.buffer, to.chunk);
  }

  Value read(Strand& self, const Step& now, const Operand& o) {
    if (o.message()) {
      Connection& c = incoming(self, o);
      Message message = std::move(c.parts.front());
      c.parts.pop_front();
      c.whole -= !message.open;
      return take(self, now, o.peer, std::move(message), o.open);
    }
    Value sum;
    const auto add = [&](Value value) { sum = sum.defined() ? sum + value : std::move(value); };
    if (o.kind == Operand::Kind::kAggregation) {
      Aggregation& a = aggregation(self, o);
      const std::size_t turn = a.taken[member(self, o)]++;
      for (std::size_t m = 0; m < a.sent.size() && !proof_.counterexample; ++m)
        add(take(self, now, o.group().member(static_cast<Rank>(m)), a.sent[m][turn], false));
      return sum;
    }
    for (const Rank owner : owners(self, o)) {
      proof_.remote_accesses += owner != self.rank;
      Cell& source = cell(owner, o.buffer, o.chunk);
      if (const Epoch* other = source.history.read(epoch(self), self.clock)) {
        race(self, o, owner, *other);
      } else if (!source.value.defined()) {
        fail(Kind::kUndefined, self, o.chunk, owner, "reads chunk {} of rank {}, which nothing was written to", o.chunk,
             owner);
      }
      if (proof_.counterexample) return sum;
      add(source.value);
    }
    return sum;
  }

  // What a message that was sent as `sent` is to its receiver.
  Value take(Strand& self, const Step& now, Rank sender, Message sent, bool open) {
    symbolic::join(self.clock, sent.clock);
    if (sent.chunk != now.chunk)
      fail(Kind::kWrongChunk, self, now.chunk, sender, "receives chunk {} where rank {} sent chunk {}", now.chunk,
           sender, sent.chunk);
    else if (sent.open != open)
      fail(Kind::kWrongChunk, self, now.chunk, sender,
           "receives chunk {} as {} part of a message, rank {} sent it as {}", now.chunk, open ? "an open" : "the last",
           sender, sent.open ? "an open one" : "the last");
    return std::move(sent.value);
  }

  // Whose memories an operand in memory names.
  static std::vector<Rank> owners(const Strand& self, const Operand& o) {
    if (o.kind == Operand::Kind::kLocal) return {self.rank};
    if (o.kind == Operand::Kind::kRemote) return {o.peer};
    std::vector<Rank> all;
    for (Rank i = 0; i < o.count; ++i) all.push_back(o.group().member(i));
    return all;
  }

  Aggregation& aggregation(const Strand& self, const Operand& o) {
    Aggregation& a = aggregations_[{o.peer, o.count, o.stride, lane_of(self, o)}];
    a.sent.resize(static_cast<std::size_t>(o.count));
    a.taken.resize(static_cast<std::size_t>(o.count));
    return a;
  }
  static std::size_t member(const Strand& self, const Operand& o) {
    return static_cast<std::size_t>((self.rank - o.peer) / o.stride);
  }

  struct Blocker {
    Rank peer = -1;  // -1: not blocked
    enum class Reason { kMessage, kSignal, kSlot, kOrder } reason = Reason::kMessage;
    int lane = -1;  // of the peer, where only one can help
  };
  Blocker blocked_on(const Strand& self, const Step& now) {
    for (const Order& o : self.orders) {
      if (static_cast<std::size_t>(o.step) != self.next) break;
      if (of(self.rank, o.lane).next <= static_cast<std::size_t>(o.after))
        return {self.rank, Blocker::Reason::kOrder, o.lane};
    }
    if (now.kind == Step::Kind::kWait && signals_[channel(of(now.peer, self.lane), self.rank)].empty())
      return {now.peer, Blocker::Reason::kSignal, self.lane};
    for (const Operand& o : now.sources) {
      if (o.message() && incoming(self, o).whole == 0)
        return {o.peer, Blocker::Reason::kMessage, senders_[channel(of(o.peer, lane_of(self, o)), self.rank)]};
      if (o.kind != Operand::Kind::kAggregation) continue;
      const Aggregation& a = aggregation(self, o);
      for (std::size_t m = 0; m < a.sent.size(); ++m)
        if (a.sent[m].size() <= a.taken[member(self, o)])
          return {o.group().member(static_cast<Rank>(m)), Blocker::Reason::kMessage};
    }
    for (const Operand& o : now.destinations) {
      if (o.message() && outgoing(self, o).whole >= options_.slots)
        return {o.peer, Blocker::Reason::kSlot, takers_[channel(of(self.rank, lane_of(self, o)), o.peer)]};
      if (o.kind != Operand::Kind::kAggregation) continue;
      const Aggregation& a = aggregation(self, o);
      for (std::size_t m = 0; m < a.taken.size(); ++m)
        if (a.sent[member(self, o)].size() >= a.taken[m] + static_cast<std::size_t>(options_.slots))
          return {o.group().member(static_cast<Rank>(m)), Blocker::Reason::kSlot};
    }
    return {};
  }

  bool well_formed(Strand& self, const Step& now) {
    if (now.kind != Step::Kind::kMove) {
      if (now.peer >= 0 && now.peer < shape().ranks && now.peer != self.rank) return true;
      fail(Kind::kBadOperand, self, -1, now.peer, "names rank {}, which is not a peer", now.peer);
      return false;
    }
    if (now.sources.empty() || now.destinations.empty()) {
      fail(Kind::kBadOperand, self, now.chunk, -1, "moves nothing or nowhere");
      return false;
    }
    if (now.chunk < 0 || now.chunk >= shape().chunks) {
      fail(Kind::kBadOperand, self, now.chunk, -1, "moves chunk {} of {}", now.chunk, shape().chunks);
      return false;
    }
    for (const Operand& o : now.sources)
      if (!well_formed(self, now, o, now.sources, false)) return false;
    for (const Operand& o : now.destinations)
      if (!well_formed(self, now, o, now.destinations, true)) return false;
    return true;
  }

  bool well_formed(Strand& self, const Step& now, const Operand& o, const Operands& side, bool destination) {
    const bool group = o.kind == Operand::Kind::kMulticast || o.kind == Operand::Kind::kAggregation;
    const bool peer = o.kind == Operand::Kind::kMessage || o.kind == Operand::Kind::kRemote;
    if (o.lane < Operand::kSameLane || o.lane >= s_.lanes) {
      fail(Kind::kBadOperand, self, now.chunk, o.peer, "names lane {} of {}", o.lane, s_.lanes);
    } else if (peer && (o.peer < 0 || o.peer >= shape().ranks || o.peer == self.rank)) {
      fail(Kind::kBadOperand, self, now.chunk, o.peer, "names rank {}, which is not a peer", o.peer);
    } else if (group && (o.stride < 1 || o.peer < 0 || !o.group().contains(self.rank) ||
                         o.group().member(o.count - 1) >= shape().ranks)) {
      fail(Kind::kBadOperand, self, now.chunk, o.peer,
           "names a group of ranks that it is not in, or that do not exist");
    } else if (o.kind == Operand::Kind::kAggregation && std::count(side.begin(), side.end(), o) > 1) {
      fail(Kind::kBadOperand, self, now.chunk, o.peer, "uses an aggregation twice in one step");
    } else if (o.message()) {
      own_connection(self, now, o, side, destination);
    } else if (o.memory() && !in_memory(self, now, o)) {
      fail(Kind::kBadOperand, self, o.chunk, o.peer,
           "names chunk {}, which the buffer does not hold or the step does not move", o.chunk);
    } else if (destination && o.memory() && o.buffer == Buffer::kIn) {
      fail(Kind::kBadOperand, self, o.chunk, o.peer, "writes chunk {} of the input", o.chunk);
    } else if (destination && o.memory() && std::count(side.begin(), side.end(), o) > 1) {
      fail(Kind::kBadOperand, self, o.chunk, o.peer, "writes chunk {} twice in one step", o.chunk);
    }
    return !proof_.counterexample;
  }

  bool in_memory(const Strand& self, const Step& now, const Operand& o) const {
    if (o.buffer == Buffer::kScratch) return o.chunk >= 0 && o.chunk < s_.scratch;
    if (o.chunk != now.chunk) return false;
    for (const Rank owner : owners(self, o))
      if (!holds(shape(), o.buffer, o.chunk, owner)) return false;
    return true;
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
      const bool peer_ended = ended(b);
      // The most telling cause: a peer that has ended, then a full connection, then the plain cycle.
      const bool better = victim == nullptr || peer_ended ||
                          (b.reason == Blocker::Reason::kSlot && cause.reason != Blocker::Reason::kSlot);
      if (better) victim = &strand, cause = b;
      if (peer_ended) break;
    }
    if (victim == nullptr) return;
    const ChunkId chunk = s_.strand(victim->rank, victim->lane)[victim->next].chunk;
    if (cause.reason == Blocker::Reason::kSlot)
      return fail(Kind::kSlotOverrun, *victim, chunk, cause.peer,
                  "sends to rank {}, whose {} slots are full and are not emptied", cause.peer, options_.slots);
    const char* what = cause.reason == Blocker::Reason::kSignal ? "signal" : "message";
    if (cause.reason == Blocker::Reason::kOrder)
      return fail(Kind::kDeadlock, *victim, chunk, cause.peer, "waits for a step of lane {} in a cycle: {}", cause.lane,
                  cycle_from(*victim));
    if (ended(cause))
      return fail(Kind::kNeverSent, *victim, chunk, cause.peer, "waits for a {} of rank {}, which has ended", what,
                  cause.peer);
    fail(Kind::kDeadlock, *victim, chunk, cause.peer, "waits for a {} in a cycle: {}", what, cycle_from(*victim));
  }

  // "2 -> 0 -> 1 -> 2": who waits for whom, starting at a stuck strand. Where a rank waits for itself, with lanes:
  // "0 lane 1 -> 0 lane 2 -> 0 lane 1".
  std::string cycle_from(const Strand& start) {
    std::vector<const Strand*> path;
    bool within = false;
    for (const Strand* at = &start; std::ranges::find(path, at) == path.end();) {
      path.push_back(at);
      const Blocker b = blocked_on(*at, s_.strand(at->rank, at->lane)[at->next]);
      within = within || b.peer == at->rank;
      const Strand* next = b.lane >= 0 && !finished(of(b.peer, b.lane)) ? &of(b.peer, b.lane) : nullptr;
      for (int lane = 0; next == nullptr && lane < s_.lanes; ++lane)
        if (!finished(of(b.peer, lane))) next = &of(b.peer, lane);
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

  void check_nothing_left() {
    for (const Strand& from : strands_) {
      for (Rank peer = 0; peer < shape().ranks; ++peer) {
        const auto& queue = messages_[channel(from, peer)].parts;
        if (!queue.empty())
          return fail(Kind::kNeverTaken, of(peer, from.lane), queue.front().chunk, from.rank,
                      "never receives {}chunk {} that rank {} sent",
                      queue.back().open ? "the rest of a message from " : "", queue.front().chunk, from.rank);
        if (!signals_[channel(from, peer)].empty())
          return fail(Kind::kNeverTaken, of(peer, from.lane), -1, from.rank, "never waits for a signal of rank {}",
                      from.rank);
      }
    }
    for (const auto& [key, a] : aggregations_) {
      const Group group{std::get<0>(key), std::get<1>(key), std::get<2>(key)};
      for (std::size_t m = 0; m < a.sent.size(); ++m)
        for (std::size_t reader = 0; reader < a.taken.size(); ++reader)
          if (a.sent[m].size() > a.taken[reader]) {
            const Rank rank = group.member(static_cast<Rank>(reader));
            return fail(Kind::kNeverTaken, of(rank, std::get<3>(key)), a.sent[m].back().chunk,
                        group.member(static_cast<Rank>(m)), "never takes the sum that rank {} sent a part of",
                        group.member(static_cast<Rank>(m)));
          }
    }
  }

  // When a rank returns, its memory is its own again: whatever peers did there must be ordered before. This also keeps
  // rounds and calls apart, because the next one begins after the exit.
  void check_exits() {
    for (Rank r = 0; r < shape().ranks && !proof_.counterexample; ++r) {
      Strand exit{r, 0, s_.strand(r, 0).size(), Clock(s_.strands.size(), 0)};
      for (int lane = 0; lane < s_.lanes; ++lane) symbolic::join(exit.clock, of(r, lane).clock);
      for_own_cells(r, [&](Cell& cell, ChunkId chunk) {
        const Epoch* other = cell.history.write(epoch(exit), exit.clock);
        if (other == nullptr || proof_.counterexample) return;
        const Strand& rival = strands_[static_cast<std::size_t>(other->strand)];
        fail(Kind::kRace, exit, chunk, rival.rank,
             "returns while step {} of rank {} lane {} may still touch its chunk {}", other->step, rival.rank,
             rival.lane, chunk);
      });
      if (shape().collective != Collective::kBarrier) continue;
      for (Rank peer = 0; peer < shape().ranks; ++peer)
        if (exit.clock[index(of(peer, 0))] == 0)
          return fail(Kind::kMissing, exit, -1, peer, "leaves the barrier although rank {} may not have come", peer);
    }
  }

  void check_postcondition() {
    for (Rank r = 0; r < shape().ranks; ++r) {
      for (ChunkId c = 0; c < shape().chunks; ++c) {
        if (!holds(shape(), Buffer::kOut, c, r)) continue;
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
        for (Rank peer = 0; peer < shape().ranks; ++peer)
          if (holds(shape(), Buffer::kIn, c, peer) && result.value.count(peer, c) == 0)
            return fail(Kind::kMissing, end, c, peer, "out[{}] lacks the contribution of rank {} ({})", c, peer, who);
      }
    }
  }

  void race(const Strand& self, const Operand& o, Rank owner, const Epoch& other) {
    const Strand& rival = strands_[static_cast<std::size_t>(other.strand)];
    if (other.step == kEntry)
      return fail(Kind::kRace, self, o.chunk, rival.rank, "touches chunk {} of rank {}, which may not have called yet",
                  o.chunk, owner);
    fail(Kind::kRace, self, o.chunk, rival.rank, "touches chunk {} unordered with step {} of rank {} lane {}", o.chunk,
         other.step, rival.rank, rival.lane);
  }

  template <class... Args>
  void fail(Kind kind, const Strand& where, ChunkId chunk, Rank peer, fmt::format_string<Args...> format,
            Args&&... args) {
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

  Connection& incoming(const Strand& self, const Operand& o) {
    return messages_[channel(of(o.peer, lane_of(self, o)), self.rank)];
  }
  Connection& outgoing(const Strand& self, const Operand& o) {
    return messages_[channel(of(self.rank, lane_of(self, o)), o.peer)];
  }
  static int lane_of(const Strand& self, const Operand& o) { return o.lane == Operand::kSameLane ? self.lane : o.lane; }
  bool finished(const Strand& strand) const { return strand.next == s_.strand(strand.rank, strand.lane).size(); }
  // Nobody is left who could help.
  bool ended(const Blocker& b) const {
    if (b.lane >= 0) return finished(of(b.peer, b.lane));
    for (int lane = 0; lane < s_.lanes; ++lane)
      if (!finished(of(b.peer, lane))) return false;
    return true;
  }
  std::size_t index(const Strand& strand) const {
    return static_cast<std::size_t>(strand.rank * s_.lanes + strand.lane);
  }
  const Strand& of(Rank rank, int lane) const { return strands_[static_cast<std::size_t>(rank * s_.lanes + lane)]; }
  std::size_t channel(const Strand& source, Rank destination) const {
    return index(source) * static_cast<std::size_t>(shape().ranks) + static_cast<std::size_t>(destination);
  }
  Epoch epoch(const Strand& self) const {
    return {static_cast<int>(index(self)), self.clock[index(self)], static_cast<int>(self.next)};
  }
  const Shape& shape() const { return s_.shape; }

  // Calls work(cell, chunk or slot) on all memory of a rank that exists.
  template <class Work>
  void for_own_cells(Rank rank, Work&& work) {
    for (const Buffer buffer : {Buffer::kIn, Buffer::kOut})
      for (ChunkId c = 0; c < shape().chunks; ++c)
        if (holds(shape(), buffer, c, rank)) work(cell(rank, buffer, c), c);
    for (int slot = 0; slot < s_.scratch; ++slot) work(cell(rank, Buffer::kScratch, slot), slot);
  }

  Cell& cell(Rank rank, Buffer buffer, ChunkId chunk) {
    // In place, a chunk that both buffers hold is one memory.
    if (options_.in_place && buffer == Buffer::kOut && holds(shape(), Buffer::kIn, chunk, rank)) buffer = Buffer::kIn;
    return cells_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(per_rank_) +
                  static_cast<std::size_t>(static_cast<ChunkId>(buffer) * shape().chunks + chunk)];
  }

  const Schedule& s_;
  VerifyOptions options_;
  ChunkId per_rank_;  // cells: input and output chunks, scratch slots
  std::vector<Cell> cells_;
  std::vector<Strand> strands_;
  std::vector<Connection> messages_;                                       // [sending rank and lane][receiving rank]
  std::map<std::tuple<Rank, Rank, Rank, int>, Aggregation> aggregations_;  // by group and lane
  std::vector<Queue<Clock>> signals_;                                      // [sending strand][receiving rank]
  std::vector<int> senders_, takers_;                  // the lane at each end of messages_; -1 before the first use
  std::map<std::pair<std::size_t, int>, Clock> ends_;  // of the steps that orders wait for: [strand, step]
  Proof proof_;
};

}  // namespace

std::string_view name(Finding::Kind kind) {
  constexpr std::string_view kNames[] = {"bad operand", "undefined",    "doubled",     "missing",
                                         "foreign",     "race",         "wrong chunk", "never sent",
                                         "never taken", "slot overrun", "deadlock",    "out of order"};
  return kNames[static_cast<int>(kind)];
}

Proof verify(const Schedule& schedule, VerifyOptions options) { return Verifier(schedule, options).run(); }

}  // namespace weft::schedule
