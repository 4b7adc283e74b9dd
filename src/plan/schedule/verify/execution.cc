#include "plan/schedule/verify/execution.h"

#include <algorithm>

namespace weft::schedule::symbolic {
namespace {

using Kind = Finding::Kind;

std::size_t strand_of(const Order& o) { return static_cast<std::size_t>(o.strand); }

std::size_t member(const Strand& self, const Operand& o) {
  return static_cast<std::size_t>((self.rank - o.peer) / o.stride);
}

}  // namespace

Execution::Execution(const Schedule& schedule, VerifyOptions options, Report& report)
    : s_(schedule),
      options_(options),
      report_(report),
      at_(schedule),
      form_(schedule, report),
      per_rank_(2 * s_.shape.chunks + s_.scratch),
      cells_(static_cast<std::size_t>(s_.shape.ranks) * static_cast<std::size_t>(per_rank_)),
      connections_(at_.connections()) {
  for (Rank r = 0; r < s_.shape.ranks; ++r) {
    for (int lane = 0; lane < s_.lanes; ++lane)
      strands_.push_back({r, lane, 0, Clock(at_.strands(), at_.strand(r, lane)), {}});
    for (ChunkId c = 0; c < s_.shape.chunks; ++c)
      if (holds(s_.shape, Buffer::kIn, c, r)) cell(r, Buffer::kIn, c).value = Value::contribution(r, c);
  }
  for (Strand& strand : strands_) enter(strand);
  if (!s_.orders.empty()) prepare_orders();
}

Proof Execution::run() {
  for (bool moved = true; moved;) {
    moved = false;
    for (Strand& strand : strands_)
      while (!report_.failed() && step(strand)) moved = true;
  }
  return std::move(proof_);
}

// Until a rank calls, its memory is its own: the caller may still fill the input and read the last call's output, and
// weft the last call's scratch. So every buffer counts as written at the rank's entry, which its own strands know of.
void Execution::enter(Strand& strand) {
  if (strand.lane == 0)
    strand.clock.enter();
  else
    strand.clock.join(of(strand.rank, 0).clock);
  if (strand.lane != 0) return;
  for_own_cells(strand.rank, [&](Cell& cell, ChunkId) {
    cell.history.write({static_cast<int>(index(strand)), 1, kEntry}, strand.clock);
  });
}

void Execution::prepare_orders() {
  std::span<const Order> rest = s_.orders;
  for (Strand& strand : strands_) {
    const auto mine = std::ranges::find_if(rest, [&](const Order& o) { return strand_of(o) > index(strand); });
    strand.orders = {rest.begin(), mine};
    rest = {mine, rest.end()};
  }
  for (const Order& o : s_.orders) ends_[{at_.strand(strands_[strand_of(o)].rank, o.lane), o.after}];
}

// The strands whose steps end before the next one of `self` begins.
void Execution::follow_orders(Strand& self) {
  while (!self.orders.empty() && static_cast<std::size_t>(self.orders.front().step) == self.next) {
    const Order& o = self.orders.front();
    self.clock.join(ends_[{at_.strand(self.rank, o.lane), o.after}]);
    self.orders = self.orders.subspan(1);
  }
}

// Runs the strand's next step; false if it must wait, has ended, or is wrong.
bool Execution::step(Strand& self) {
  const auto& steps = s_.strand(self.rank, self.lane);
  if (self.next == steps.size()) return false;
  const Step& now = steps[self.next];
  if (!form_.accepts(self, now) || blocker(self, now).peer >= 0) return false;
  follow_orders(self);
  self.clock.tick();
  switch (now.kind) {
    case Step::Kind::kSignal:
      connections_[at_.connection(self.rank, self.lane, now.peer)].signals.push_back(self.clock);
      break;
    case Step::Kind::kWait: {
      auto& signals = connections_[at_.connection(now.peer, self.lane, self.rank)].signals;
      self.clock.join(signals.front());
      signals.pop_front();
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
  return !report_.failed();
}

void Execution::move(Strand& self, const Step& now) {
  const Value value = reduced(self, now);
  if (report_.failed()) return;
  if (options_.on_move) {
    Moved moved{self.rank, self.lane, static_cast<int>(self.next), value.parts().front().chunk, {}, self.clock.depth()};
    for (const Value::Part& p : value.parts()) moved.contributors.push_back({p.first, p.ranks});
    options_.on_move(moved);
  }
  if (stays_where_it_is(self, now)) return;
  for (const Operand& o : now.destinations) {
    write(self, now, o, value);
    if (report_.failed()) return;
  }
}

// A chunk's copy from the input to the output in place writes nothing.
bool Execution::stays_where_it_is(const Strand& self, const Step& now) {
  if (reduces(s_.shape.collective) || now.sources.size() != 1 || now.destinations.size() != 1) return false;
  const Operand &from = now.sources[0], &to = now.destinations[0];
  return from.kind == Operand::Kind::kLocal && to.kind == Operand::Kind::kLocal &&
         &cell(self.rank, from.buffer, from.chunk) == &cell(self.rank, to.buffer, to.chunk);
}

// The sum of the step's sources.
Value Execution::reduced(Strand& self, const Step& now) {
  Value value;
  Rank last = -1;  // contributor, where order matters
  for (const Operand& o : now.sources) {
    Value part = read(self, now, o);
    if (report_.failed()) return value;
    const Value::Part first = part.parts()[0];
    if (options_.in_order && now.sources.size() > 1) {
      if (part.parts().size() != 1 || first.ranks != 1 || first.first <= last) {
        report_.fail(Kind::kOutOfOrder, self, now.chunk, first.first,
                     "adds the contribution of rank {} after that of rank {}, or sums that are not single ones",
                     first.first, last);
        return value;
      }
      last = first.first;
    }
    if (value.defined() && value.parts()[0].chunk != first.chunk) {
      report_.fail(Kind::kForeign, self, now.chunk, first.first, "adds chunk {} to chunk {}", first.chunk,
                   value.parts()[0].chunk);
      return value;
    }
    value = value.defined() ? value + part : std::move(part);
  }
  for (const auto& part : value.parts())
    if (part.count > 1) {
      report_.fail(Kind::kDoubled, self, part.chunk, part.first,
                   "the contribution of rank {} to chunk {} is added {} times", part.first, part.chunk, part.count);
      break;
    }
  return value;
}

Value Execution::read(Strand& self, const Step& now, const Operand& o) {
  if (o.message()) {
    Connection& c = connections_[at_.incoming(self, o)];
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
    for (std::size_t m = 0; m < a.sent.size() && !report_.failed(); ++m)
      add(take(self, now, o.group().member(static_cast<Rank>(m)), a.sent[m][turn], false));
    return sum;
  }
  for (const Rank owner : owners(self, o)) {
    proof_.remote_accesses += owner != self.rank;
    Cell& source = cell(owner, o.buffer, o.chunk);
    if (const Epoch* other = source.history.read(epoch(self), self.clock)) {
      race(self, o, owner, *other);
    } else if (!source.value.defined()) {
      report_.fail(Kind::kUndefined, self, o.chunk, owner, "reads chunk {} of rank {}, which nothing was written to",
                   o.chunk, owner);
    }
    if (report_.failed()) return sum;
    add(source.value);
  }
  return sum;
}

// What a message that was sent as `sent` is to its receiver.
Value Execution::take(Strand& self, const Step& now, Rank sender, Message sent, bool open) {
  self.clock.join(sent.clock);
  if (sent.chunk != now.chunk)
    report_.fail(Kind::kWrongChunk, self, now.chunk, sender, "receives chunk {} where rank {} sent chunk {}", now.chunk,
                 sender, sent.chunk);
  else if (sent.open != open)
    report_.fail(Kind::kWrongChunk, self, now.chunk, sender,
                 "receives chunk {} as {} part of a message, rank {} sent it as {}", now.chunk,
                 open ? "an open" : "the last", sender, sent.open ? "an open one" : "the last");
  return std::move(sent.value);
}

void Execution::write(Strand& self, const Step& now, const Operand& o, const Value& value) {
  if (o.message()) {
    proof_.messages += !o.open;
    Connection& c = connections_[at_.outgoing(self, o)];
    c.parts.push_back({value, now.chunk, self.clock, o.open});
    c.whole += !o.open;
    return;
  }
  if (o.kind == Operand::Kind::kAggregation) {
    ++proof_.messages;
    aggregation(self, o).sent[member(self, o)].push_back({value, now.chunk, self.clock});
    return;
  }
  for (const Rank owner : owners(self, o)) {
    proof_.remote_accesses += owner != self.rank;
    Cell& target = cell(owner, o.buffer, o.chunk);
    if (const Epoch* other = target.history.write(epoch(self), self.clock)) return race(self, o, owner, *other);
    target.value = value;
  }
}

void Execution::race(const Strand& self, const Operand& o, Rank owner, const Epoch& other) {
  const Strand& rival = strands_[static_cast<std::size_t>(other.strand)];
  if (other.step == kEntry)
    return report_.fail(Kind::kRace, self, o.chunk, rival.rank,
                        "touches chunk {} of rank {}, which may not have called yet", o.chunk, owner);
  report_.fail(Kind::kRace, self, o.chunk, rival.rank, "touches chunk {} unordered with step {} of rank {} lane {}",
               o.chunk, other.step, rival.rank, rival.lane);
}

Blocker Execution::blocker(const Strand& self, const Step& now) {
  using Reason = Blocker::Reason;
  for (const Order& o : self.orders) {
    if (static_cast<std::size_t>(o.step) != self.next) break;
    if (of(self.rank, o.lane).next <= static_cast<std::size_t>(o.after)) return {self.rank, Reason::kOrder, o.lane};
  }
  if (now.kind == Step::Kind::kWait && connection(of(now.peer, self.lane), self.rank).signals.empty())
    return {now.peer, Reason::kSignal, self.lane};
  for (const Operand& o : now.sources) {
    if (o.message() && connections_[at_.incoming(self, o)].whole == 0)
      return {o.peer, Reason::kMessage, form_.sender(at_.incoming(self, o))};
    if (o.kind != Operand::Kind::kAggregation) continue;
    const Aggregation& a = aggregation(self, o);
    for (std::size_t m = 0; m < a.sent.size(); ++m)
      if (a.sent[m].size() <= a.taken[member(self, o)])
        return {o.group().member(static_cast<Rank>(m)), Reason::kMessage};
  }
  for (const Operand& o : now.destinations) {
    if (o.message() && connections_[at_.outgoing(self, o)].whole >= options_.slots)
      return {o.peer, Reason::kSlot, form_.taker(at_.outgoing(self, o))};
    if (o.kind != Operand::Kind::kAggregation) continue;
    const Aggregation& a = aggregation(self, o);
    for (std::size_t m = 0; m < a.taken.size(); ++m)
      if (a.sent[member(self, o)].size() >= a.taken[m] + static_cast<std::size_t>(options_.slots))
        return {o.group().member(static_cast<Rank>(m)), Reason::kSlot};
  }
  return {};
}

Aggregation& Execution::aggregation(const Strand& self, const Operand& o) {
  Aggregation& a = aggregations_[{o.peer, o.count, o.stride, at_.lane_of(self, o)}];
  a.sent.resize(static_cast<std::size_t>(o.count));
  a.taken.resize(static_cast<std::size_t>(o.count));
  return a;
}

Cell& Execution::cell(Rank rank, Buffer buffer, ChunkId chunk) {
  // In place, a chunk that both buffers hold is one memory.
  if (options_.in_place && buffer == Buffer::kOut && holds(s_.shape, Buffer::kIn, chunk, rank)) buffer = Buffer::kIn;
  return cells_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(per_rank_) +
                static_cast<std::size_t>(static_cast<ChunkId>(buffer) * s_.shape.chunks + chunk)];
}

}  // namespace weft::schedule::symbolic
