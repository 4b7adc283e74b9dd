#include "schedule/lower/lower.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weft::schedule {
namespace {

constexpr Bytes kLine = 64;

Bytes round_up(Bytes value, Bytes grain) { return (value + grain - 1) / grain * grain; }

// A channel's share of a chunk: whole cache lines where elements allow it.
Bytes piece_bytes(Bytes chunk_bytes, int channels, Bytes element_bytes) {
  const Bytes grain = kLine % element_bytes == 0 ? kLine : element_bytes;
  return round_up((chunk_bytes + channels - 1) / channels, grain);
}

// Whatever the sizes.
RankContext any_size(const Task& task, const Plan& plan) {
  return {.ranks = task.ranks,
          .root = task.root,
          .ranks_per_node = task.ranks_per_node,
          .staged = plan.staged,
          .rings = plan.rings.get(),
          .nodes = plan.nodes.get(),
          .repeat_limit = plan.repeat_limit};
}

Layout layout_of(const Task& task, const Plan& plan) {
  return Layout({task.collective, task.ranks, task.root, plan.algorithm->chunks_for(any_size(task, plan))},
                task.elements, task.element_bytes, task.block_counts());
}

// What one message with all its parts may hold.
Bytes held_by_message(const Plan& plan) {
  return plan.slice_bytes * (protocol::traits(plan.protocol).slots / plan.algorithm->slots);
}

// What a message has of a chunk, where it is small: less than a line of one that is smaller still.
Bytes part_bytes(const Layout& layout, const Task& task, const Plan& plan) {
  return std::min(layout.largest_chunk(), piece_bytes(layout.largest_chunk(), plan.channels, task.element_bytes));
}

}  // namespace

Task task_of(Collective collective, Rank ranks, Rank ranks_per_node, Bytes bytes, DataType type) {
  const Bytes blocks = schedule::blocks(collective, ranks);
  const Bytes unit = message_parts(collective, ranks);
  Task task{.collective = collective,
            .ranks = ranks,
            .ranks_per_node = ranks_per_node,
            .elements = std::max<Bytes>(1, bytes / size_of(type) / unit) * unit,
            .element_bytes = size_of(type)};
  if (collective == Collective::kBarrier) task.elements = 0;
  if (uneven(collective)) {
    auto counts = std::make_shared<std::vector<Bytes>>();
    Bytes sum = 0;
    for (Bytes b = 0; b < blocks; ++b)
      sum += counts->emplace_back(std::max<Bytes>(1, task.elements / ranks / 2 * (1 + (b + b / ranks) % 3)));
    task.elements = sum / (blocks / ranks);
    task.counts = std::move(counts);
  }
  return task;
}

RankContext context_of(const Task& task, const Plan& plan) {
  RankContext context = any_size(task, plan);
  if (plan.algorithm->parts != nullptr && plan.slice_bytes > 0) {
    const Bytes part = part_bytes(layout_of(task, plan), task, plan);
    context.bundle =
        part > 0 ? static_cast<int>(std::min<Bytes>(held_by_message(plan) / part, task.ranks)) : task.ranks;
  }
  return context;
}

Layout layout_of(const Task& task) {
  return Layout({task.collective, task.ranks, task.root, blocks(task.collective, task.ranks)}, task.elements,
                task.element_bytes, task.block_counts());
}

bool fits(const Algorithm& algorithm, protocol::Protocol protocol) {
  return algorithm.needs.messages == (protocol != protocol::Protocol::kDirect);
}

Cut cut_of(const Task& task, const Plan& plan) {
  const Layout layout = layout_of(task, plan);
  const Bytes piece = piece_bytes(layout.largest_chunk(), plan.channels, task.element_bytes);
  const RankContext context = context_of(task, plan);
  const bool messages = plan.protocol != protocol::Protocol::kDirect;
  Bytes round = piece;
  if (messages) {
    const Bytes held = held_by_message(plan);
    const int parts = plan.algorithm->parts_for(context);
    // Several parts share a message: whole lines of each, so that sums stay vectorised, but where all fit anyway.
    if (parts == 1)
      round = held;
    else if (parts * part_bytes(layout, task, plan) > held)
      round = held / parts / kLine * kLine;
  }
  if (const int slots = plan.algorithm->scratch_for(context); slots > 0)
    round = std::min(round, plan.scratch_bytes / (Bytes{plan.channels} * slots) / kLine * kLine);
  if (plan.most_round > 0) round = std::min(round, plan.most_round);
  return {piece, round, messages ? plan.slice_bytes : round};
}

int busy_channels(const Task& task, const Plan& plan) {
  const Bytes chunk = layout_of(task, plan).largest_chunk();
  const Bytes piece = piece_bytes(chunk, plan.channels, task.element_bytes);
  return chunk > 0 ? static_cast<int>((chunk + piece - 1) / piece) : 1;
}

std::int64_t rounds_of(const Task& task, const Plan& plan) {
  if (task.collective == Collective::kBarrier) return 1;
  const Cut cut = cut_of(task, plan);
  return cut.round > 0 ? (cut.piece + cut.round - 1) / cut.round : 0;
}

Task shortened(const Task& task, const Plan& plan, std::int64_t fewer) {
  const Layout layout = layout_of(task, plan);
  const Bytes chunks =
      layout.chunks() / blocks(task.collective, task.ranks) * message_parts(task.collective, task.ranks);
  Task shorter = task;
  shorter.elements -= fewer * cut_of(task, plan).round * plan.channels * chunks / task.element_bytes;
  WEFT_REQUIRE(shorter.elements > 0, "{} of {} rounds", fewer, rounds_of(task, plan));
  return shorter;
}

Task on_fewer_ranks(const Task& task, const Plan& plan, Rank ranks) {
  Task fewer = task;
  fewer.ranks = ranks;
  fewer.root = std::min(task.root, ranks - 1);
  if (plan.algorithm->chunks_for(context_of(task, plan)) >= task.ranks)
    fewer.elements = std::max<Bytes>(1, task.elements / task.ranks) * ranks;
  return fewer;
}

Task with_equal_chunks(const Task& task, const Plan& plan) {
  const Layout layout = layout_of(task, plan);
  const Bytes per_block = layout.chunks() / blocks(task.collective, task.ranks);
  Task even = task;
  even.elements = layout.largest_chunk() * per_block / task.element_bytes * message_parts(task.collective, task.ranks);
  return even;
}

Plan make_plan(const Task& task, const Algorithm& algorithm, protocol::Protocol protocol, int channels,
               const protocol::Capabilities& can, bool registered) {
  Plan plan{.algorithm = &algorithm,
            .protocol = protocol,
            .channels = channels,
            .staged = algorithm.needs.memory() && !registered,
            .scratch_bytes = can.scratch_bytes,
            .multicast = can.multicast,
            .aggregation = can.aggregation};
  if (protocol == protocol::Protocol::kDirect) return plan;
  const Bytes most = can.slot_data(protocol) / task.element_bytes * task.element_bytes;
  // A quarter of the piece, so that hops overlap; not below 64 KiB, where per-message costs dominate on every fabric
  // that has been measured; never beyond a slot. The ranks of an all_to_all_v know different parts of it, but must cut
  // alike.
  constexpr Bytes kSmallest = Bytes{64} << 10;
  const Bytes wanted = std::max(round_up((cut_of(task, plan).piece + 3) / 4, kLine), kSmallest);
  plan.slice_bytes = task.collective == Collective::kAllToAllV ? most : std::min(wanted, most);
  return plan;
}

Cutting::Cutting(const Task& task, const Plan& with, For what)
    : plan(with),
      layout(layout_of(task, plan)),
      context(context_of(task, plan)),
      sizes(cut_of(task, plan)),
      scratch(plan.algorithm->scratch_for(context)),
      purpose(what) {
  if (task.collective == Collective::kBarrier) {
    rounds = 1;
  } else if (sizes.piece > 0) {
    WEFT_REQUIRE(sizes.slice > 0 && sizes.round > 0, "slice {}, round {} of piece {}", sizes.slice, sizes.round,
                 sizes.piece);
    rounds = static_cast<int>((sizes.piece + sizes.round - 1) / sizes.round);
  }
  if (purpose == For::kTime) tell_alike(task);
}

// Where all ranks' chunks are equally large, and there is not too much of it to be kept.
void Cutting::tell_alike(const Task& task) {
  constexpr std::size_t kMost = std::size_t{1} << 19;  // operations, 100 MB
  const Algorithm& algorithm = *plan.algorithm;
  const Rank turn = algorithm.turn_for(context);
  const bool even = !schedule::uneven(task.collective) && with_equal_chunks(task, plan).elements == task.elements;
  const bool groups = algorithm.needs.multicast || algorithm.needs.aggregation;
  if (turn <= 0 || turn >= context.ranks || context.ranks % turn != 0 || !even || groups || plan.first != 0) return;
  std::vector<Program> programs;
  std::size_t operations = 0;
  for (Rank rank = 0; rank < turn; ++rank) {
    Program& program = programs.emplace_back(static_cast<std::size_t>(plan.channels * algorithm.lanes));
    for (std::size_t strand = 0; strand < program.size(); ++strand) {
      StrandStream stream(*this, rank, static_cast<int>(strand));
      while (const auto* operation = stream.next()) {
        if (++operations > kMost) return;
        program[strand].push_back(*operation);
      }
    }
  }
  alike = std::move(programs);
}

StrandStream::StrandStream(const Cutting& cutting, Rank rank, int strand)
    : cutting_(&cutting),
      rank_(rank),
      channel_(strand / cutting.plan.algorithm->lanes),
      lane_(strand % cutting.plan.algorithm->lanes) {
  if (!cutting.alike.empty()) {
    const auto like = static_cast<std::size_t>(rank) % cutting.alike.size();
    alike_ = &cutting.alike[like][static_cast<std::size_t>(strand)];
    rank_ -= static_cast<Rank>(like);
  } else if (cutting.rounds > 0) {
    steps_ = cutting.plan.algorithm->steps(context());
  }
}

RankContext StrandStream::context() const {
  RankContext s = cutting_->context;
  s.rank = rank_;
  s.channel = channel_;
  s.lane = lane_;
  return s;
}

// The first of such ranks' next operation, whose peers are as far from it as this rank's are from this rank.
const protocol::Operation* StrandStream::next_alike() {
  if (next_ == alike_->size()) return nullptr;
  turned_ = (*alike_)[next_++];
  const Rank ranks = cutting_->context.ranks;
  const auto turn = [&](Rank& peer) {
    if (peer >= 0) peer = peer + rank_ < ranks ? peer + rank_ : peer + rank_ - ranks;
  };
  turn(turned_.peer);
  for (protocol::End& end : turned_.sources) turn(end.peer);
  for (protocol::End& end : turned_.destinations) turn(end.peer);
  return &turned_;
}

// Does the next operation only go on with the message that this one is about? Then it has become a part of it.
bool StrandStream::joined(protocol::Operation& operation, const protocol::Operation& next) const {
  if (operation.kind != protocol::Operation::Kind::kMove) return joined_signals(operation, next);
  using Ends = SmallList<protocol::End, 2>;
  const auto like = [](const protocol::End& a, const protocol::End& b) {
    const bool message = a.kind == protocol::End::Kind::kMessage;
    return a.kind == b.kind && a.peer == b.peer && a.strand == b.strand && (message ? !a.last : a.count == 0);
  };
  const auto goes_on = [&](const Ends& a, const Ends& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), like);
  };
  const auto has_message = [](const Ends& ends) {
    return std::any_of(ends.begin(), ends.end(), [](auto& end) { return end.kind == protocol::End::Kind::kMessage; });
  };
  if (next.kind != operation.kind || !(has_message(operation.sources) || has_message(operation.destinations)) ||
      !goes_on(operation.sources, next.sources) || !goes_on(operation.destinations, next.destinations))
    return false;
  operation.bytes += next.bytes;
  for (std::size_t i = 0; i < next.sources.size(); ++i) operation.sources[i].last = next.sources[i].last;
  for (std::size_t i = 0; i < next.destinations.size(); ++i) operation.destinations[i].last = next.destinations[i].last;
  return true;
}

// A signal to one more rank of the node, or the wait for one, where ranks do so before and after they use a switch that
// multicasts: NCCL's add to a counter in all of them at once. Peers follow each other, but for one gap.
bool StrandStream::joined_signals(protocol::Operation& operation, const protocol::Operation& next) const {
  const Rank per_node = cutting_->context.ranks_per_node;
  const auto in_node = [&](const protocol::Operation& o) {
    return !o.own() && (o.peer - cutting_->plan.first) / per_node == rank_ / per_node;
  };
  if (next.kind != operation.kind || !cutting_->plan.algorithm->needs.multicast || !in_node(operation) ||
      !in_node(next))
    return false;
  auto& runs = operation.destinations;
  if (runs.empty()) runs.push_back({.peer = operation.peer, .count = 1});
  if (protocol::End& last = runs[runs.size() - 1]; next.peer == last.peer + last.count) {
    ++last.count;
    return true;
  }
  if (runs.size() == 2) return false;
  runs.push_back({.peer = next.peer, .count = 1});
  return true;
}

void StrandStream::read_ahead() {
  const bool joins = cutting_->purpose == Cutting::For::kTime;
  if (ahead_ == nullptr) ahead_ = std::make_unique<protocol::Operation[]>(kAhead + 1);
  if (kept_) ahead_[0] = std::move(ahead_[kAhead]);
  next_ = 0;
  read_ = std::exchange(kept_, false) ? 1 : 0;
  while (read_ <= kAhead && next_operation(ahead_[read_]))
    if (!joins || read_ == 0 || !joined(ahead_[read_ - 1], ahead_[read_])) ++read_;
  if (read_ > kAhead) --read_, kept_ = true;
}

// The next operation; false at the end.
bool StrandStream::next_operation(protocol::Operation& operation) {
  while (round_ < cutting_->rounds) {
    if (step_ != nullptr && step_->kind == Step::Kind::kMove && cut(operation)) return true;
    if (!next_step()) continue;
    if (step_->kind == Step::Kind::kMove) continue;
    operation.kind =
        step_->kind == Step::Kind::kSignal ? protocol::Operation::Kind::kSignal : protocol::Operation::Kind::kWait;
    operation.peer = step_->peer + cutting_->plan.first;
    operation.strand = step_->lane == Operand::kSameLane
                           ? std::int16_t{-1}
                           : static_cast<std::int16_t>(channel_ * cutting_->plan.algorithm->lanes + step_->lane);
    operation.bytes = 0;
    operation.sources.clear();
    operation.destinations.clear();
    return true;
  }
  return false;
}

// Goes to the next step, or to the next round (false).
bool StrandStream::next_step() {
  step_ = steps_.next();
  if (step_ == nullptr) {
    if (++round_ < cutting_->rounds) steps_ = cutting_->plan.algorithm->steps(context());
    return false;
  }
  if (step_->kind == Step::Kind::kMove) {
    const Bytes chunk = cutting_->layout.chunk_bytes(step_->chunk);
    const Bytes piece = piece_bytes(chunk, cutting_->plan.channels, cutting_->layout.element_bytes());
    round_begin_ = channel_ * piece + round_ * cutting_->sizes.round;
    end_ = std::min({chunk, (channel_ + 1) * piece, round_begin_ + cutting_->sizes.round});
    at_ = std::min(round_begin_, end_);
    parts_ = closes_ = false;
    for (const auto* side : {&step_->sources, &step_->destinations})
      for (const Operand& o : *side)
        if (o.message() && (o.open || !open_.empty())) parts_ = closes_ = true;
  }
  return true;
}

// How much of the connection's current message there is.
Bytes& StrandStream::filled(const Operand& o, bool destination) {
  const int lane = o.lane == Operand::kSameLane ? lane_ : o.lane;
  for (Open& open : open_)
    if (open.peer == o.peer && open.lane == lane && open.destination == destination) return open.filled;
  open_.push_back({o.peer, lane, destination, 0});
  return open_.back().filled;
}

void StrandStream::forget_closed() {
  std::erase_if(open_, [](const Open& open) { return open.filled == 0; });
}

// Makes the next slice of the current move; false if it is used up (or empty from the start). A slice never crosses
// from one message into the next, at either end.
bool StrandStream::cut(protocol::Operation& operation) {
  operation.kind = protocol::Operation::Kind::kMove;
  operation.peer = -1;
  operation.strand = -1;
  operation.bytes = std::min(cutting_->sizes.slice, end_ - at_);
  if (parts_) {
    bool pending = false;  // an open message that this step closes
    for (const auto* side : {&step_->sources, &step_->destinations})
      for (const Operand& o : *side)
        if (o.message()) {
          const Bytes have = filled(o, side == &step_->destinations);
          operation.bytes = std::min(operation.bytes, cutting_->sizes.slice - have);
          pending |= have > 0 && !o.open;
        }
    operation.bytes = std::max<Bytes>(operation.bytes, 0);
    if (at_ >= end_ && !(closes_ && pending)) {
      forget_closed();
      return false;
    }
  } else if (at_ >= end_) {
    return false;
  }
  at_ += operation.bytes;
  address(step_->sources, operation.bytes, operation.sources, false);
  address(step_->destinations, operation.bytes, operation.destinations, true);
  if (cutting_->plan.first > 0) shift(operation);
  if (at_ >= end_) closes_ = false;
  if (parts_) forget_closed();
  return true;
}

// From the task's ranks to the fabric's.
void StrandStream::shift(protocol::Operation& operation) const {
  for (auto* ends : {&operation.sources, &operation.destinations})
    for (protocol::End& end : *ends)
      if (end.kind != protocol::End::Kind::kLocal) end.peer += cutting_->plan.first;
}

// Requires: at_ is the slice's end.
void StrandStream::address(const SmallList<Operand, 2>& operands, Bytes bytes, SmallList<protocol::End, 2>& ends,
                           bool destination) {
  ends.clear();
  const Bytes begin = at_ - bytes;
  const auto group_member = [&](const Operand& o, Rank i, protocol::End end) {
    end.peer = o.group().member(i);
    if (o.kind == Operand::Kind::kMulticast)
      end.kind = end.peer == rank_ ? protocol::End::Kind::kLocal : protocol::End::Kind::kRemote;
    else
      end.kind = protocol::End::Kind::kMessage;
    if (end.kind == protocol::End::Kind::kLocal) end.peer = -1;
    ends.push_back(end);
  };
  for (const Operand& o : operands) {
    protocol::End end{.kind = static_cast<protocol::End::Kind>(o.kind),
                      .memory = static_cast<protocol::Memory>(o.buffer)};
    end.peer = o.peer;
    end.count = o.count;
    end.stride = o.stride;
    if (!o.memory()) {
      const int lane = o.lane == Operand::kSameLane ? lane_ : o.lane;
      end.strand = static_cast<std::int16_t>(channel_ * cutting_->plan.algorithm->connections_of_channel() + lane);
    } else if (o.buffer == Buffer::kScratch) {  // one round of a slot after the other
      const Bytes in_round = std::max<Bytes>(0, begin - round_begin_);
      end.offset = (channel_ * cutting_->scratch + o.chunk) * cutting_->sizes.round + in_round;
    } else {
      end.offset = cutting_->layout.offset(o.buffer, o.chunk) + begin;
    }
    if (parts_ && o.message()) {
      Bytes& have = filled(o, destination);
      end.offset = have;
      have += bytes;
      end.last = have == cutting_->sizes.slice || (at_ >= end_ && !o.open);
      if (end.last) have = 0;
    }
    if (o.kind == Operand::Kind::kMulticast || o.kind == Operand::Kind::kAggregation) {
      const bool by_switch =
          o.kind == Operand::Kind::kMulticast ? cutting_->plan.multicast : cutting_->plan.aggregation;
      if (by_switch && o.count > 1) {
        ends.push_back(end);
        continue;
      }
      end.count = end.stride = 0;
      for (Rank i = 0; i < o.count; ++i) group_member(o, i, end);
    } else {
      ends.push_back(end);
    }
  }
}

Program lower(const Task& task, const Plan& plan, Rank rank) {
  const Cutting cutting(task, plan);
  Program program(static_cast<std::size_t>(plan.channels * plan.algorithm->lanes));
  for (std::size_t strand = 0; strand < program.size(); ++strand) {
    StrandStream stream(cutting, rank, static_cast<int>(strand));
    while (const auto* operation = stream.next()) program[strand].push_back(*operation);
  }
  return program;
}

}  // namespace weft::schedule
