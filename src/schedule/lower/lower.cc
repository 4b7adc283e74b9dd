#include "schedule/lower/lower.h"

#include <algorithm>

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

Layout layout_of(const Task& task, const Plan& plan) {
  return Layout(task.collective, task.ranks, plan.algorithm->chunks(task.ranks), task.elements, task.element_bytes);
}

}  // namespace

Cut cut_of(const Task& task, const Plan& plan) {
  const Layout layout = layout_of(task, plan);
  const Bytes piece = piece_bytes(layout.largest_chunk(), plan.channels, task.element_bytes);
  if (!plan.algorithm->load_store)
    return {piece, plan.slice_bytes * (protocol::traits(plan.protocol).slots / 2), plan.slice_bytes};
  Bytes round = piece;
  if (plan.staged) round = std::min(piece, plan.scratch_bytes / (plan.channels * layout.chunks()) / kLine * kLine);
  return {piece, round, round};
}

Bytes default_slice(const Task& task, const Plan& plan) {
  const auto& traits = protocol::traits(plan.protocol);
  const Bytes piece = cut_of(task, plan).piece;
  // A quarter of the piece, so that hops overlap; not below 64 KiB, where per-message costs dominate on every fabric
  // that has been measured; never beyond a slot.
  constexpr Bytes kSmallest = Bytes{64} << 10;
  const Bytes wanted = std::max(round_up((piece + 3) / 4, kLine), kSmallest);
  const Bytes whole_elements = traits.slice_bytes / task.element_bytes * task.element_bytes;
  return std::min(wanted, whole_elements);
}

StrandStream::StrandStream(const Task& task, const Plan& plan, Rank rank, int strand)
    : plan_(plan),
      layout_(layout_of(task, plan)),
      channel_(strand / plan.algorithm->lanes),
      cut_sizes_(cut_of(task, plan)) {
  story_ = {.rank = rank,
            .ranks = task.ranks,
            .root = task.root,
            .ranks_per_node = task.ranks_per_node,
            .channel = channel_,
            .lane = strand % plan.algorithm->lanes,
            .staged = plan.staged};
  if (cut_sizes_.piece == 0) return;
  WEFT_REQUIRE(cut_sizes_.slice > 0, "slice {} of piece {}", cut_sizes_.slice, cut_sizes_.piece);
  rounds_ = static_cast<int>((cut_sizes_.piece + cut_sizes_.round - 1) / cut_sizes_.round);
  steps_ = plan.algorithm->steps(story_);
}

const protocol::Operation* StrandStream::next() {
  while (round_ < rounds_) {
    if (step_ != nullptr && step_->kind == Step::Kind::kMove && cut()) return &operation_;
    if (!next_step()) continue;
    if (step_->kind == Step::Kind::kMove) continue;
    operation_.kind =
        step_->kind == Step::Kind::kSignal ? protocol::Operation::Kind::kSignal : protocol::Operation::Kind::kWait;
    operation_.peer = step_->peer;
    operation_.bytes = 0;
    operation_.sources.clear();
    operation_.destinations.clear();
    return &operation_;
  }
  return nullptr;
}

// Goes to the next step, or to the next round (false).
bool StrandStream::next_step() {
  step_ = steps_.next();
  if (step_ == nullptr) {
    if (++round_ < rounds_) steps_ = plan_.algorithm->steps(story_);
    return false;
  }
  if (step_->kind == Step::Kind::kMove) {
    const Bytes chunk = layout_.chunk_bytes(step_->chunk);
    const Bytes piece = piece_bytes(chunk, plan_.channels, layout_.element_bytes());
    const Bytes begin = channel_ * piece + round_ * cut_sizes_.round;
    at_ = begin;
    end_ = std::min({chunk, (channel_ + 1) * piece, begin + cut_sizes_.round});
  }
  return true;
}

// Makes the next slice of the current move; false if it is used up (or empty from the start).
bool StrandStream::cut() {
  if (at_ >= end_) return false;
  operation_.kind = protocol::Operation::Kind::kMove;
  operation_.peer = -1;
  operation_.bytes = std::min(cut_sizes_.slice, end_ - at_);
  address(step_->sources, operation_.sources);
  address(step_->destinations, operation_.destinations);
  at_ += operation_.bytes;
  return true;
}

void StrandStream::address(const SmallList<Operand, 2>& operands, SmallList<protocol::End, 2>& ends) const {
  ends.clear();
  for (const Operand& o : operands) {
    protocol::End end{.kind = static_cast<protocol::End::Kind>(o.kind), .memory = static_cast<protocol::Memory>(o.buffer)};
    end.peer = o.peer;
    if (o.kind == Operand::Kind::kMessage) {
      const int lane = o.lane == Operand::kSameLane ? story_.lane : o.lane;
      end.strand = static_cast<std::int16_t>(channel_ * plan_.algorithm->lanes + lane);
    } else if (o.buffer == Buffer::kScratch) {
      end.offset = (Bytes{channel_} * layout_.chunks() + o.chunk) * cut_sizes_.round;  // one slice per round
    } else {
      end.offset = layout_.offset(o.buffer, o.chunk) + at_;
    }
    ends.push_back(end);
  }
}

Program lower(const Task& task, const Plan& plan, Rank rank) {
  Program program(static_cast<std::size_t>(plan.channels * plan.algorithm->lanes));
  for (std::size_t strand = 0; strand < program.size(); ++strand) {
    StrandStream stream(task, plan, rank, static_cast<int>(strand));
    while (const auto* operation = stream.next()) program[strand].push_back(*operation);
  }
  return program;
}

}  // namespace weft::schedule
