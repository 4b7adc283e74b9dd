#include "cost/machine_view.h"

#include <algorithm>

#include "base/check.h"

namespace weft::cost {

using topology::DeviceKind;

MachineView::MachineView(topology::Topology topology, protocol::HopCosts costs, CpuCaches caches)
    : topology_(std::make_unique<topology::Topology>(std::move(topology))),
      routes_(std::make_unique<topology::Routes>(*topology_)),
      costs_(std::move(costs)),
      caches_(caches),
      devices_(topology_->endpoints()) {
  WEFT_REQUIRE(!devices_.empty());
  for (const topology::Link& l : topology_->links()) {
    const DeviceKind a = topology_->device(l.a).kind, b = topology_->device(l.b).kind;
    if (a == DeviceKind::kCore || b == DeviceKind::kCore) core_rate_ = std::max(core_rate_, l.rate_ab);
    if (a == DeviceKind::kMemory || b == DeviceKind::kMemory) memory_rate_ = memory_rate_ + l.rate_ab;
  }
}

BytesPerSecond MachineView::rate(std::int64_t direction) const {
  if (!left_.empty()) return left_[static_cast<std::size_t>(direction)];
  const topology::Link& l = topology_->link(static_cast<topology::LinkId>(direction / 2));
  return direction % 2 == 0 ? l.rate_ab : l.rate_ba;
}

Rank MachineView::ranks_per_node(Rank ranks) const {
  const auto node_of = [&](Rank rank) { return topology_->device(device(rank)).node; };
  Rank first_node = 0;
  while (first_node < ranks && node_of(first_node) == node_of(0)) ++first_node;
  if (ranks % first_node != 0) return 1;
  for (Rank r = first_node; r < std::min(ranks, endpoints()); ++r)
    if ((node_of(r) == node_of(r - 1)) != (r % first_node != 0)) return 1;
  return first_node;
}

// What fits stays in a cache, the rest goes one level further out.
MachineView::Level MachineView::level_of(Bytes touched, Rank ranks) const {
  const BytesPerSecond cores = core_rate_ * std::min(ranks, endpoints());
  if (touched <= caches_.own || memory_rate_.value() <= 0) return {"own caches", cores};
  const BytesPerSecond shared = std::min(cores, caches_.rate), memory = std::min(cores, memory_rate_);
  const Bytes in_shared = std::min(touched, std::max(caches_.shared, caches_.own)) - caches_.own;
  const Bytes in_memory = touched - caches_.own - in_shared;
  const Duration time = caches_.own / cores + in_shared / shared + in_memory / memory;
  return {in_memory > 0 ? "memory" : "shared cache", BytesPerSecond(static_cast<double>(touched) / time.s())};
}

}  // namespace weft::cost
