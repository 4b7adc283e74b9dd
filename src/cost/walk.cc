#include "cost/walk.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace weft::cost {

using schedule::Operand;
using schedule::Step;

namespace {

constexpr int kWalkedRounds = 3;

bool through_group(const Operand& o) {
  return o.kind == Operand::Kind::kMulticast || o.kind == Operand::Kind::kAggregation;
}
bool comes_in(const Operand& o) { return o.kind == Operand::Kind::kMessage || o.kind == Operand::Kind::kAggregation; }
// Where ranks do a switch's work, an operand is one for every member.
double ends_of(const Operand& o) { return through_group(o) ? o.count : 1; }

int lane_of(const Operand& o, int own) { return o.lane == Operand::kSameLane ? own : o.lane; }

// What one rank moves while all ranks do the same.
BytesPerSecond core_rate(const MachineView& machine, const schedule::Task& task) {
  return machine.level_of(2 * task.ranks * task.elements * task.element_bytes, task.ranks).rate / task.ranks;
}

}  // namespace

Walk::Walk(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan, Connections& connections)
    : machine_(machine),
      task_(task),
      plan_(plan),
      connections_(connections),
      mail_(static_cast<double>(std::max(Bytes{1}, schedule::cut_of(task, plan).slice))) {
  const schedule::Cut cut = schedule::cut_of(task_, plan_);
  piece_ = static_cast<double>(std::min(cut.piece, cut.round));
  rounds_ = cut.round > 0 ? static_cast<double>(cut.piece) / static_cast<double>(cut.round) : 0;
  slices_ = cut.slice > 0 ? std::max(1.0, std::ceil(piece_ / static_cast<double>(cut.slice))) : 1;
}

double Walk::run(bool empty_messages) {
  empty_ = empty_messages;
  strands_.clear();
  mail_.clear();
  signals_.clear();
  own_signals_.clear();
  parts_.clear();
  core_free_.assign(static_cast<std::size_t>(task_.ranks), 0);
  for (Rank r = 0; r < task_.ranks; ++r)
    for (int lane = 0; lane < plan_.algorithm->lanes; ++lane) strands_.push_back(Strand{.rank = r, .lane = lane});
  const double rounds = std::max(rounds_, piece_ > 0 ? 1.0 : 0.0);
  const int walked = std::min(kWalkedRounds, static_cast<int>(std::ceil(rounds)));
  std::vector<double> ends;
  for (int round = 0; round < walked; ++round) ends.push_back(walk_round());
  if (ends.empty()) return 0;
  const double last = ends.size() > 1 ? ends.back() - ends[ends.size() - 2] : ends.back();
  return ends.back() + (rounds - walked) * last;
}

// Runs every strand through its story once more; returns when the last one ends.
double Walk::walk_round() {
  for (Strand& s : strands_) {
    s.steps = plan_.algorithm->steps(story_of(task_, plan_, s.rank, s.lane, 0));
    s.step = s.steps.next();
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (Strand& s : strands_)
      while (s.step != nullptr && take(s)) {
        s.step = s.steps.next();
        moved = true;
      }
  }
  double end = 0;
  for (const Strand& s : strands_) {
    WEFT_ASSERT(s.step == nullptr, "{} on {} ranks is stuck", plan_.algorithm->name, task_.ranks);
    end = std::max(end, s.free);
  }
  return end;
}

// One more part for the group's switches; with the last one the sum goes to every member.
void Walk::send_part(Rank rank, const Operand& o, int lane, Stream part) {
  const std::uint64_t group = connections_.key(rank, o, Way::kDown, lane);
  auto& parts = parts_[group];
  parts.resize(static_cast<std::size_t>(o.count));
  parts[static_cast<std::size_t>((rank - o.peer) / o.stride)].push_back(part);
  if (std::ranges::any_of(parts, [](const auto& queue) { return queue.empty(); })) return;
  Stream sum{0, 0};
  for (auto& queue : parts) {
    sum = {std::max(sum.first, queue.front().first), std::max(sum.last, queue.front().last)};
    queue.pop_front();
  }
  const Connections::Link& down = connections_.link(rank, o, Way::kDown, lane);
  const double whole = empty_ ? 0 : wire_piece() / down.rate, slice = whole / slices_;
  sum = {sum.first + slice + down.latency, std::max(sum.first + whole, sum.last + slice) + down.latency};
  for (Rank i = 0; i < o.count; ++i) mail_.put(connections_.sum_key(o.group().member(i), o, lane), sum, bytes(), true);
}

std::uint64_t Walk::queue_of(const Operand& o, const Strand& s) {
  const int lane = lane_of(o, s.lane);
  return o.kind == Operand::Kind::kMessage ? Connections::key(o.peer, s.rank, lane)
                                           : connections_.sum_key(s.rank, o, lane);
}

double Walk::wire_piece() const {
  return static_cast<double>(protocol::wire_bytes(plan_.protocol, static_cast<Bytes>(piece_)));
}

// The strand's next step, if what it waits for is there.
bool Walk::take(Strand& s) {
  const Step& step = *s.step;
  if (step.lane != Operand::kSameLane) return take_own(s, step);
  if (step.kind == Step::Kind::kMove) return take_move(s, step);
  if (step.kind == Step::Kind::kSignal) {
    const std::uint64_t connection = Connections::key(s.rank, step.peer, s.lane);
    signals_[connection].push_back(s.free + connections_.link(s.rank, step.peer, s.lane).latency);
    return true;
  }
  auto& queue = signals_[Connections::key(step.peer, s.rank, s.lane)];
  if (queue.empty()) return false;
  s.free = std::max(s.free, queue.front());
  queue.pop_front();
  return true;
}

// Between two lanes of one rank: nothing crosses.
bool Walk::take_own(Strand& s, const Step& step) {
  const bool sends = step.kind == Step::Kind::kSignal;
  auto& queue = own_signals_[{s.rank, sends ? s.lane : step.lane, sends ? step.lane : s.lane}];
  if (sends) {
    queue.push_back(s.free);
    return true;
  }
  if (queue.empty()) return false;
  s.free = std::max(s.free, queue.front());
  queue.pop_front();
  return true;
}

bool Walk::take_move(Strand& s, const Step& step) {
  for (const Operand& o : step.sources)
    if (comes_in(o) && mail_.empty(queue_of(o, s))) return false;
  // The strands of a CPU rank share its core; those of a GPU run side by side.
  double& free = machine_.costs().gpu() ? s.free : core_free_[static_cast<std::size_t>(s.rank)];
  const Stream input = receive(s, step, std::max(free, s.free));
  const double whole = std::max(empty_ ? 0 : seconds_of(s, step), posting_of(s, step));
  const double slice = whole / slices_;
  const Stream output{input.first + slice, std::max(input.first + whole, input.last + slice), input.first};
  s.free = free = output.last + send(s, step, output);
  return true;
}

// When what a move takes in is there: messages when the rank has had time for them, too, after those before. What comes
// slowly leaves time for others.
Stream Walk::receive(Strand& s, const Step& step, double start) {
  Stream input{start, start};
  double begun = HUGE_VAL, work = 0;
  for (const Operand& o : step.sources) {
    if (!comes_in(o)) continue;
    const Stream part = mail_.take(queue_of(o, s), !o.open);
    input = {std::max(input.first, part.first), std::max(input.last, part.last)};
    if (const double seconds = taking_of(s, o); seconds > 0) {
      begun = std::min(begun, part.begun);
      work += seconds;
    }
  }
  if (work > 0) {
    s.taken = std::max(s.taken, begun) + work;
    const double slices = empty_ ? 1 : slices_;
    input = {std::max(input.first, s.taken - work * (1 - 1 / slices)), std::max(input.last, s.taken)};
  }
  return input;
}

// How long taking one move's messages from this source keeps the rank busy, with the other channels' in between.
double Walk::taking_of(const Strand& s, const Operand& o) {
  if (o.kind != Operand::Kind::kMessage || o.open) return 0;
  const double overhead = connections_.link(o.peer, s.rank, lane_of(o, s.lane)).overhead;
  return overhead > 0 ? (empty_ ? 1 : slices_) * overhead * connections_.taking_share(s.rank) : 0;
}

// What a move gives away. Returns how long the strand rests after it.
double Walk::send(const Strand& s, const Step& step, Stream output) {
  double rest = 0;
  const double slices = empty_ ? 1 : slices_;
  for (const Operand& o : step.sources)
    if (o.kind == Operand::Kind::kMulticast)
      rest = std::max(rest, slices * connections_.link(s.rank, o, Way::kLoad, s.lane).fence);
  for (const Operand& o : step.destinations) {
    const int lane = lane_of(o, s.lane);
    if (o.kind == Operand::Kind::kAggregation) {
      const double latency = connections_.link(s.rank, o, Way::kUp, lane).latency;
      send_part(s.rank, o, lane, {output.first + latency, output.last + latency});
    } else if (o.kind == Operand::Kind::kMulticast) {
      rest = std::max(rest, slices * connections_.link(s.rank, o, Way::kStore, s.lane).fence);
    } else if (o.kind == Operand::Kind::kMessage) {
      const Connections::Link& link = connections_.link(s.rank, o.peer, lane);
      rest = std::max(rest, messages_of(s, o) * link.fence);
      mail_.put(Connections::key(s.rank, o.peer, lane),
                {output.first + link.latency, output.last + link.latency, output.begun + link.latency}, bytes(),
                !o.open);
    }
  }
  return rest;
}

// That one move fills or closes at this destination.
double Walk::messages_of(const Strand& s, const Operand& o) {
  return mail_.filled_by(Connections::key(s.rank, o.peer, lane_of(o, s.lane)), bytes(), !o.open);
}

// How long posting one move's messages keeps the strand busy, with the other channels' in between.
double Walk::posting_of(const Strand& s, const Step& step) {
  double seconds = 0;
  for (const Operand& o : step.destinations) {
    const int lane = lane_of(o, s.lane);
    if (o.kind == Operand::Kind::kMessage)
      seconds += messages_of(s, o) * connections_.link(s.rank, o.peer, lane).overhead;
    if (o.kind == Operand::Kind::kAggregation)
      seconds += (empty_ ? 1 : slices_) * connections_.link(s.rank, o, Way::kUp, lane).overhead;
  }
  return seconds > 0 ? seconds * connections_.posting_share(s.rank) : 0;
}

// How long moving one move's bytes keeps its strand busy.
double Walk::seconds_of(const Strand& s, const Step& step) {
  if (!machine_.costs().gpu()) return seconds_of_core(s, step);
  const double wire = wire_piece();
  double slowest = 0, local = 0;
  const auto account = [&](const Operand& o, bool source) {
    const int lane = lane_of(o, s.lane);
    if (o.kind == Operand::Kind::kMulticast) {
      const Way way = source ? Way::kLoad : Way::kStore;
      slowest = std::max(slowest, wire / connections_.link(s.rank, o, way, s.lane).rate);
    } else if (o.kind == Operand::Kind::kAggregation && !source) {
      slowest = std::max(slowest, wire / connections_.link(s.rank, o, Way::kUp, lane).rate);
    } else if (o.kind == Operand::Kind::kLocal || (source && comes_in(o))) {
      local += o.kind == Operand::Kind::kLocal ? piece_ : wire;
    } else {
      const double rate =
          (source ? connections_.link(o.peer, s.rank, s.lane) : connections_.link(s.rank, o.peer, lane)).rate;
      slowest = std::max(slowest, wire / rate);
    }
  };
  for (const Operand& o : step.sources) account(o, true);
  for (const Operand& o : step.destinations) account(o, false);
  return std::max(slowest, local / machine_.costs().local_channel().value());
}

// The same of a CPU rank, whose core moves all operands.
double Walk::seconds_of_core(const Strand& s, const Step& step) {
  const double wire = wire_piece(), memory = 1 / core_rate(machine_, task_).value();
  const double scratch = plan_.streams_scratch() ? std::max(memory, 1 / machine_.costs().streamed().value()) : memory;
  const auto seconds_of = [&](const Operand& o, Rank from, Rank to) {
    if (o.kind != Operand::Kind::kMessage)
      return piece_ * (o.buffer == schedule::Buffer::kScratch ? scratch : memory) * ends_of(o);
    return wire * std::max(memory, 1 / connections_.link(from, to, lane_of(o, s.lane)).rate);
  };
  double seconds = 0;
  for (const Operand& o : step.sources) seconds += seconds_of(o, o.peer, s.rank);
  for (const Operand& o : step.destinations) seconds += seconds_of(o, s.rank, o.peer);
  return seconds;
}

}  // namespace weft::cost
