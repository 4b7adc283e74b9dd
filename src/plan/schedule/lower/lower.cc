#include "plan/schedule/lower/lower.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weft::schedule {

LoweringContext::LoweringContext(const Task& task, const Plan& with, For what)
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
  if (purpose == For::kTime) cache_symmetric(task);
}

// Programs are cached where all ranks' chunks are equally large and the programs not too long.
void LoweringContext::cache_symmetric(const Task& task) {
  constexpr std::size_t kMost = std::size_t{1} << 19;  // operations, 100 MB
  const Algorithm& algorithm = *plan.algorithm;
  const Rank rotation = algorithm.rotation_for(context);
  const bool even = !schedule::uneven(task.collective) && with_equal_chunks(task, plan).elements == task.elements;
  const bool groups = algorithm.needs.multicast || algorithm.needs.aggregation;
  if (rotation <= 0 || rotation >= context.ranks || context.ranks % rotation != 0 || !even || groups || plan.first != 0)
    return;
  std::vector<Program> programs;
  std::size_t operations = 0;
  for (Rank rank = 0; rank < rotation; ++rank) {
    Program& program = programs.emplace_back(static_cast<std::size_t>(plan.channels * algorithm.lanes));
    for (std::size_t strand = 0; strand < program.size(); ++strand) {
      StrandStream stream(*this, rank, static_cast<int>(strand));
      while (const auto* operation = stream.next()) {
        if (++operations > kMost) return;
        program[strand].push_back(*operation);
      }
    }
  }
  symmetric = std::move(programs);
}

StrandStream::StrandStream(const LoweringContext& lowering, Rank rank, int strand)
    : lowering_(&lowering),
      rank_(rank),
      channel_(strand / lowering.plan.algorithm->lanes),
      lane_(strand % lowering.plan.algorithm->lanes) {
  if (!lowering.symmetric.empty()) {
    const auto like = static_cast<std::size_t>(rank) % lowering.symmetric.size();
    symmetric_ = &lowering.symmetric[like][static_cast<std::size_t>(strand)];
    rank_ -= static_cast<Rank>(like);
  } else if (lowering.rounds > 0) {
    steps_ = lowering.plan.algorithm->steps(context());
  }
}

RankContext StrandStream::context() const {
  RankContext s = lowering_->context;
  s.rank = rank_;
  s.channel = channel_;
  s.lane = lane_;
  return s;
}

// The first of such ranks' next operation, whose peers are as far from it as this rank's are from this rank.
const protocol::Operation* StrandStream::next_symmetric() {
  if (next_ == symmetric_->size()) return nullptr;
  rotated_ = (*symmetric_)[next_++];
  const Rank ranks = lowering_->context.ranks;
  const auto rotation = [&](Rank& peer) {
    if (peer >= 0) peer = peer + rank_ < ranks ? peer + rank_ : peer + rank_ - ranks;
  };
  rotation(rotated_.peer);
  for (protocol::End& end : rotated_.sources) rotation(end.peer);
  for (protocol::End& end : rotated_.destinations) rotation(end.peer);
  return &rotated_;
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
  const Rank per_node = lowering_->context.ranks_per_node;
  const auto in_node = [&](const protocol::Operation& o) {
    return !o.own() && (o.peer - lowering_->plan.first) / per_node == rank_ / per_node;
  };
  if (next.kind != operation.kind || !lowering_->plan.algorithm->needs.multicast || !in_node(operation) ||
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
  const bool joins = lowering_->purpose == LoweringContext::For::kTime;
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
  while (round_ < lowering_->rounds) {
    if (step_ != nullptr && step_->kind == Step::Kind::kMove && cut(operation)) return true;
    if (!next_step()) continue;
    if (step_->kind == Step::Kind::kMove) continue;
    operation.kind =
        step_->kind == Step::Kind::kSignal ? protocol::Operation::Kind::kSignal : protocol::Operation::Kind::kWait;
    operation.peer = step_->peer + lowering_->plan.first;
    operation.strand = step_->lane == Operand::kSameLane
                           ? std::int16_t{-1}
                           : static_cast<std::int16_t>(channel_ * lowering_->plan.algorithm->lanes + step_->lane);
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
    if (++round_ < lowering_->rounds) steps_ = lowering_->plan.algorithm->steps(context());
    return false;
  }
  if (step_->kind == Step::Kind::kMove) {
    const Bytes chunk = lowering_->layout.chunk_bytes(step_->chunk);
    const Bytes piece = piece_bytes(chunk, lowering_->plan.channels, lowering_->layout.element_bytes());
    round_begin_ = channel_ * piece + round_ * lowering_->sizes.round;
    end_ = std::min({chunk, (channel_ + 1) * piece, round_begin_ + lowering_->sizes.round});
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
  operation.bytes = std::min(lowering_->sizes.slice, end_ - at_);
  if (parts_) {
    bool pending = false;  // an open message that this step closes
    for (const auto* side : {&step_->sources, &step_->destinations})
      for (const Operand& o : *side)
        if (o.message()) {
          const Bytes have = filled(o, side == &step_->destinations);
          operation.bytes = std::min(operation.bytes, lowering_->sizes.slice - have);
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
  if (lowering_->plan.first > 0) shift(operation);
  if (at_ >= end_) closes_ = false;
  if (parts_) forget_closed();
  return true;
}

// Shifts the task's ranks to the fabric's.
void StrandStream::shift(protocol::Operation& operation) const {
  for (auto* ends : {&operation.sources, &operation.destinations})
    for (protocol::End& end : *ends)
      if (end.kind != protocol::End::Kind::kLocal) end.peer += lowering_->plan.first;
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
      end.strand = static_cast<std::int16_t>(channel_ * lowering_->plan.algorithm->connections_of_channel() + lane);
    } else if (o.buffer == Buffer::kScratch) {  // one round of a slot after the other
      const Bytes in_round = std::max<Bytes>(0, begin - round_begin_);
      end.offset = (channel_ * lowering_->scratch + o.chunk) * lowering_->sizes.round + in_round;
    } else {
      end.offset = lowering_->layout.offset(o.buffer, o.chunk) + begin;
    }
    if (parts_ && o.message()) {
      Bytes& have = filled(o, destination);
      end.offset = have;
      have += bytes;
      end.last = have == lowering_->sizes.slice || (at_ >= end_ && !o.open);
      if (end.last) have = 0;
    }
    if (o.kind == Operand::Kind::kMulticast || o.kind == Operand::Kind::kAggregation) {
      const bool by_switch =
          o.kind == Operand::Kind::kMulticast ? lowering_->plan.multicast : lowering_->plan.aggregation;
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
  const LoweringContext lowering(task, plan);
  Program program(static_cast<std::size_t>(plan.channels * plan.algorithm->lanes));
  for (std::size_t strand = 0; strand < program.size(); ++strand) {
    StrandStream stream(lowering, rank, static_cast<int>(strand));
    while (const auto* operation = stream.next()) program[strand].push_back(*operation);
  }
  return program;
}

}  // namespace weft::schedule
