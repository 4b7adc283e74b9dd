#include "plan/cost/walk.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace weft::cost {

using Kind = schedule::Operand::Kind;
using schedule::Step;

namespace {

bool comes_in(const Script::End& source) { return source.kind == Kind::kMessage || source.kind == Kind::kAggregation; }

// What one rank moves while all ranks do the same.
BytesPerSecond core_rate(const MachineView& machine, const schedule::Task& task) {
  return machine.level_of(2 * task.ranks * task.elements * task.element_bytes, task.ranks).rate / task.ranks;
}

}  // namespace

Walk::Walk(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan, const Script& script,
           const Links& links, bool empty_messages)
    : script_(script),
      links_(links),
      gpu_(machine.costs().gpu()),
      empty_(empty_messages),
      of_channel_(plan.protocol == protocol::Protocol::kLL),
      local_rate_(machine.costs().local_channel().value()),
      busy_(machine.costs().gpu() ? static_cast<std::size_t>(task.ranks) : 0),
      blocks_(static_cast<double>(plan.algorithm->lanes) / plan.algorithm->lanes_of_a_block()),
      core_free_(static_cast<std::size_t>(task.ranks)),
      worked_(gpu_ ? 0 : core_free_.size()),
      cores_(std::min(task.ranks, machine.endpoints())),
      in_flight_(0, 0, 1),
      signals_(links.of.size()) {
  const schedule::Cut cut = schedule::cut_of(task, plan);
  piece_ = static_cast<double>(std::min(cut.piece, cut.round));
  in_flight_ = InFlight(links.of.size(), empty_ ? 0 : piece_, static_cast<double>(std::max(Bytes{1}, cut.slice)));
  if (cut.slice > 0 && !empty_) messages_ = std::max(1.0, std::ceil(piece_ / static_cast<double>(cut.slice)));
  wire_ = static_cast<double>(protocol::wire_bytes(plan.protocol, static_cast<Bytes>(piece_)));
  per_message_ = 1 / messages_;
  on_wire_.reserve(links.of.size());
  for (const Links::Link& l : links.of) on_wire_.push_back(wire_ / l.rate);
  if (!gpu_) {
    memory_ = 1 / core_rate(machine, task).value();
    // A sum that is stored in its place is not copied there. What is stored for others to load keeps to one way of
    // storing where a message's sender tries both: with it, plans took 0.7 to 1.5 of the time of messages between near
    // cores and 4 between far ones (decision 0265).
    constexpr double kUntried = 1.25;
    const double stored = plan.algorithm->needs.stores ? machine.costs().factors().fused_store : kUntried;
    scratch_ = plan.staged ? std::max(memory_, stored / machine.costs().handed_over().value()) : memory_;
  }
  strands_.reserve(script.strands.size());
  for (const Script::Strand& s : script.strands) strands_.push_back({.rank = s.rank, .next = s.first, .last = s.last});
  for (const Script::Sum& sum : script.sums) parts_.emplace_back(sum.members.size());
}

Rounds Walk::run(double rounds) {
  Rounds ends;
  for (; walked_ < kWalkedRounds && walked_ < rounds; ++walked_) ends.push_back(walk_round());
  return ends;
}

// A rank that shares its core works at its part of the core's rate.
double Walk::work_per_round() const {
  if (worked_.empty() || walked_ == 0) return 0;
  std::vector<double> busy(static_cast<std::size_t>(cores_));
  for (std::size_t r = 0; r < worked_.size(); ++r) busy[r % busy.size()] += worked_[r];
  return *std::ranges::max_element(busy) * static_cast<double>(busy.size()) / static_cast<double>(worked_.size()) /
         walked_;
}

double seconds(const Rounds& ends, double rounds) {
  const double walked = std::min<double>(kWalkedRounds, std::ceil(rounds));
  if (walked == 0) return 0;
  const auto last = static_cast<std::size_t>(walked) - 1;
  return ends[last] + (rounds - walked) * (ends[last] - (last > 0 ? ends[last - 1] : 0));
}

double rounds_of_channel(const schedule::Task& task, const schedule::Plan& plan) {
  if (task.collective == Collective::kBarrier) return 1;
  const schedule::Cut cut = schedule::cut_of(task, plan);
  const bool any = std::min(cut.piece, cut.round) > 0;
  return any ? std::max(1.0, static_cast<double>(cut.piece) / static_cast<double>(cut.round)) : 0;
}

// Runs every strand through its steps once more; returns when the last one ends.
double Walk::walk_round() {
  for (std::size_t i = 0; i < strands_.size(); ++i) strands_[i].next = script_.strands[i].first;
  for (bool moved = true; moved;) {
    moved = false;
    for (Strand& s : strands_)
      while (s.next != s.last) {
        const Number done = take(s);
        if (done == 0) break;
        moved = true;
        s.times += done;
        if (s.times < script_.acts[s.next].times) break;
        s.times = 0;
        ++s.next;
      }
  }
  double end = 0;
  for (const Strand& s : strands_) {
    WEFT_ASSERT(s.next == s.last, "rank {} is stuck at step {} of {}", s.rank, s.next, s.last);
    end = std::max(end, s.free);
  }
  for (const Busy& busy : busy_)
    end = std::max({end, busy.within / blocks_, busy.across / blocks_, busy.posting, busy.taking});
  return empty_ ? end : std::max(end, (walked_ + 1) * busiest_per_round());
}

// The strand's next step, as often as it follows itself and what it waits for is there. Returns how often.
Number Walk::take(Strand& s) {
  const Script::Act& act = script_.acts[s.next];
  const Number left = act.times - s.times;
  if (act.kind == Step::Kind::kMove) return take_moves(s, act, left);
  Number done = 0;
  for (; done < left; ++done) {
    if (act.kind == Step::Kind::kSignal) {
      if (gpu_) s.free += links_.of[act.at].overhead;
      signals_.push(act.at, s.free + links_.of[act.at].latency);
      continue;
    }
    if (signals_.empty(act.at)) break;
    s.free = std::max(s.free + links_.of[act.at].look, signals_.front(act.at));
    signals_.pop(act.at);
  }
  return done;
}

Number Walk::take_moves(Strand& s, const Script::Act& act, Number left) {
  const std::span ends = std::span(script_.ends).subspan(act.at, act.count);
  const auto sources = ends.first(act.sources), destinations = ends.subspan(act.sources);
  const auto is_there = [&](const End& source) { return !comes_in(source) || !in_flight_.empty(source.connection); };
  // The strands of a CPU rank share its core; those of a GPU run side by side.
  double& free = gpu_ ? s.free : core_free_[static_cast<std::size_t>(s.rank)];
  const double moving = empty_ ? 0 : gpu_ ? seconds_of(sources, destinations) : seconds_of_core(ends);
  const OfChannel of_channel = empty_ || !gpu_ ? OfChannel() : seconds_of_channel(sources, destinations);
  Number done = 0;
  for (; done < left && std::ranges::all_of(sources, is_there); ++done) {
    const Stream input = receive(s, sources, std::max(free, s.free));
    // A GPU's proxy posts while its kernels move; a CPU rank does one after the other.
    const double posting = posting_of(s, destinations);
    const double whole = gpu_ ? std::max(moving, posting) : moving + posting;
    const double slice = whole * per_message_;
    const Stream output{input.first + slice, std::max(input.first + whole, input.last + slice), input.first};
    s.free = free = output.last + send(s, sources, destinations, output);
    if (!gpu_) {
      worked_[static_cast<std::size_t>(s.rank)] += whole;
      continue;
    }
    Busy& busy = busy_[static_cast<std::size_t>(s.rank)];
    if (of_channel_) busy.within += of_channel.within;
    busy.across += of_channel.across;
    busy.posting += posting;
  }
  return done;
}

// When what a move takes in is there: messages when the rank has had time for them, too, after those before. What comes
// slowly leaves time for others.
Stream Walk::receive(Strand& s, std::span<const End> sources, double start) {
  for (const End& source : sources)
    if (comes_in(source)) start += link(source).look;
  Stream input{start, start};
  double begun = HUGE_VAL, work = 0;
  for (const End& source : sources) {
    if (!comes_in(source)) continue;
    const Stream part = in_flight_.take(source.connection, !source.open);
    input = {std::max(input.first, part.first), std::max(input.last, part.last)};
    if (const double seconds = taking_of(s, source); seconds > 0) {
      begun = std::min(begun, part.begun);
      work += seconds;
    }
  }
  if (work > 0) {
    (gpu_ ? busy_[static_cast<std::size_t>(s.rank)].taking : worked_[static_cast<std::size_t>(s.rank)]) += work;
    s.taken = std::max(s.taken, begun) + work;
    input = {std::max(input.first, s.taken - work * (1 - per_message_)), std::max(input.last, s.taken)};
  }
  return input;
}

// How long taking one move's messages from this source keeps the rank busy, with the other channels' in between.
double Walk::taking_of(const Strand& s, const End& source) {
  if (source.kind != Kind::kMessage || source.open) return 0;
  const double overhead = link(source).overhead;
  return overhead > 0 ? messages_ * overhead * links_.taking[static_cast<std::size_t>(s.rank)] : 0;
}

// What a move gives away. Returns how long the strand rests after it.
double Walk::send(const Strand& s, std::span<const End> sources, std::span<const End> destinations,
                  const Stream& output) {
  double rest = 0;
  for (const End& source : sources)
    if (source.kind == Kind::kMulticast) rest = std::max(rest, messages_ * link(source).fence);
  for (const End& to : destinations) {
    if (to.kind == Kind::kLocal || to.kind == Kind::kRemote) continue;
    const auto& [latency, overhead, fence, rate, channel, crosses, look] = link(to);
    const Stream there{output.first + latency, output.last + latency, output.begun + latency};
    if (to.kind == Kind::kAggregation) {
      send_part(s.rank, to, there);
      continue;
    }
    const bool message = to.kind == Kind::kMessage;
    if (fence > 0) rest = std::max(rest, (message ? messages_of(to) : messages_) * fence);
    if (message) in_flight_.put(to.connection, there, !to.open);
  }
  return rest;
}

// One more part for a group's switches; with the last one the sum goes to every member.
void Walk::send_part(Rank rank, const End& into, const Stream& part) {
  const Script::Sum& group = script_.sums[into.sum];
  auto& parts = parts_[into.sum];
  parts[static_cast<std::size_t>((rank - group.first) / group.stride)].push_back(part);
  if (std::ranges::any_of(parts, [](const auto& queue) { return queue.empty(); })) return;
  Stream sum{0, 0};
  for (auto& queue : parts) {
    sum = {std::max(sum.first, queue.front().first), std::max(sum.last, queue.front().last)};
    queue.pop_front();
  }
  const Links::Link& down = links_.of[group.down];
  const double whole = empty_ ? 0 : on_wire_[group.down], slice = whole * per_message_;
  sum = {sum.first + slice + down.latency, std::max(sum.first + whole, sum.last + slice) + down.latency};
  for (const Number member : group.members) in_flight_.put(member, sum, true);
}

// How long posting one move's messages keeps the strand busy, with the other channels' in between.
double Walk::posting_of(const Strand& s, std::span<const End> destinations) {
  double seconds = 0;
  for (const End& to : destinations) {
    if (to.kind != Kind::kMessage && to.kind != Kind::kAggregation) continue;
    const double overhead = link(to).overhead;
    if (overhead > 0) seconds += (to.kind == Kind::kMessage ? messages_of(to) : messages_) * overhead;
  }
  return seconds > 0 ? seconds * links_.posting[static_cast<std::size_t>(s.rank)] : 0;
}

// How long moving one move's bytes keeps a GPU's strand busy.
double Walk::seconds_of(std::span<const End> sources, std::span<const End> destinations) const {
  const OfChannel of_channel = seconds_of_channel(sources, destinations);
  double slowest = std::max(of_channel.within, of_channel.across);
  for (const End& source : sources)
    if (source.kind != Kind::kLocal && !comes_in(source)) slowest = std::max(slowest, on_wire_[source.connection]);
  for (const End& to : destinations)
    if (to.kind != Kind::kLocal) slowest = std::max(slowest, on_wire_[to.connection]);
  return slowest;
}

// How much of it the channel needs by itself, which does the same for its other strands.
Walk::OfChannel Walk::seconds_of_channel(std::span<const End> sources, std::span<const End> destinations) const {
  OfChannel sending;
  double local = 0;
  for (const End& source : sources) {
    if (source.kind == Kind::kLocal || comes_in(source)) local += source.kind == Kind::kLocal ? piece_ : wire_;
  }
  for (const End& to : destinations) {
    if (to.kind == Kind::kLocal) local += piece_;
    if (of_channel_ && to.kind == Kind::kMessage && link(to).channel > 0)
      (link(to).crosses ? sending.across : sending.within) += wire_ / link(to).channel;
  }
  sending.within = std::max(sending.within, local / local_rate_);
  return sending;
}

// The same of a CPU rank, whose core moves all operands. Where ranks do a switch's work, an operand is one for every
// member.
double Walk::seconds_of_core(std::span<const End> ends) const {
  double seconds = 0;
  for (const End& end : ends)
    seconds += end.kind == Kind::kMessage ? wire_ * std::max(memory_, 1 / link(end).rate)
                                          : piece_ * (end.scratch ? scratch_ : memory_) * end.count;
  return seconds;
}

}  // namespace weft::cost
