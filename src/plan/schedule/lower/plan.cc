#include "plan/schedule/lower/plan.h"

#include <algorithm>

#include "base/check.h"

namespace weft::schedule {
namespace {

constexpr Bytes kLine = 64;

Bytes round_up(Bytes value, Bytes grain) { return (value + grain - 1) / grain * grain; }

// Whatever the sizes.
RankContext any_size(const Task& task, const Plan& plan) {
  return {.ranks = task.ranks,
          .root = task.root,
          .ranks_per_node = task.ranks_per_node,
          .staged = plan.staged,
          .rings = plan.rings.get(),
          .nodes = plan.nodes.get(),
          .routes = task.routes.get(),
          .repeat_limit = plan.repeat_limit};
}

// What one message with all its parts may hold.
Bytes held_by_message(const Plan& plan) {
  return plan.slice_bytes * (protocol::traits(plan.protocol).slots / plan.algorithm->slots);
}

// Bytes of the largest chunk that one message carries: at most one channel's piece.
Bytes part_bytes(const Layout& layout, const Task& task, const Plan& plan) {
  return std::min(layout.largest_chunk(), piece_bytes(layout.largest_chunk(), plan.channels, task.element_bytes));
}

}  // namespace

Bytes piece_bytes(Bytes chunk_bytes, int channels, Bytes element_bytes) {
  const Bytes grain = kLine % element_bytes == 0 ? kLine : element_bytes;
  return round_up((chunk_bytes + channels - 1) / channels, grain);
}

Task task_of(Collective collective, Rank ranks, Rank ranks_per_node, Bytes bytes, DataType type) {
  const Bytes blocks = schedule::blocks(collective, ranks);
  const Bytes unit = message_parts(collective, ranks);
  Task task{.collective = collective,
            .ranks = ranks,
            .ranks_per_node = ranks_per_node,
            .elements = std::max<Bytes>(1, bytes / size_of(type) / unit) * unit,
            .element_bytes = size_of(type)};
  if (collective == Collective::kBarrier) task.elements = 0;
  if (routed(collective)) {
    task.routes = shown_routes(ranks);
    const Bytes tokens = task.routes->tokens();
    task.elements = std::max<Bytes>(1, task.elements / tokens) * tokens;
  }
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

Layout layout_of(const Task& task, const Plan& plan) {
  return Layout(
      {task.collective, task.ranks, task.root, plan.algorithm->chunks_for(any_size(task, plan)), task.routes.get()},
      task.elements, task.element_bytes, task.block_counts());
}

Layout layout_of(const Task& task) {
  Shape shape{task.collective, task.ranks, task.root, blocks(task.collective, task.ranks), task.routes.get()};
  if (routed(task.collective)) shape.chunks = routes_of(shape).tokens();
  return Layout(shape, task.elements, task.element_bytes, task.block_counts());
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

}  // namespace weft::schedule
