#include "plan/cost/machine_view.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "plan/cost/node_classes.h"

namespace weft::cost {

using topology::DeviceKind;

MachineView::MachineView(topology::Topology topology, protocol::HopCosts costs, CpuCaches caches)
    : topology_(std::make_unique<topology::Topology>(std::move(topology))),
      routes_(std::make_unique<topology::Routes>(*topology_)),
      costs_(std::move(costs)),
      caches_(caches),
      devices_(topology_->endpoints()) {
  WEFT_REQUIRE(!devices_.empty());
  look_at_nodes();
  for (const topology::Link& l : topology_->links()) {
    const DeviceKind a = topology_->device(l.a).kind, b = topology_->device(l.b).kind;
    if (a == DeviceKind::kCore || b == DeviceKind::kCore) core_rate_ = std::max(core_rate_, l.rate_ab);
    const bool channels = l.kind == topology::LinkKind::kMemory;  // not an expander or a drive below the processor
    if (channels && (a == DeviceKind::kMemory || b == DeviceKind::kMemory)) memory_rate_ = memory_rate_ + l.rate_ab;
  }
}

BytesPerSecond MachineView::rate(std::int64_t direction) const {
  if (!left_.empty()) return left_[static_cast<std::size_t>(direction)];
  const topology::Link& l = topology_->link(static_cast<topology::LinkId>(direction / 2));
  return direction % 2 == 0 ? l.rate_ab : l.rate_ba;
}

// Looked at once: choosing asks for it again and again, of up to 131,072 ranks.
void MachineView::look_at_nodes() {
  const auto node_of = [&](Rank rank) { return topology_->device(device(rank)).node; };
  while (first_node_ < endpoints() && node_of(first_node_) == node_of(0)) ++first_node_;
  alike_ = first_node_;
  while (alike_ < endpoints() && (node_of(alike_) == node_of(alike_ - 1)) == (alike_ % first_node_ != 0)) ++alike_;
  const std::vector<std::int32_t> classes = node_classes(*topology_);
  const auto class_of = [&](Rank rank) {
    return node_of(rank) < 0 ? 0 : classes[static_cast<std::size_t>(node_of(rank))];
  };
  while (of_one_class_ < endpoints() && class_of(of_one_class_) == class_of(0)) ++of_one_class_;
  if (of_one_class_ == endpoints() || alike_ < endpoints()) return;
  std::map<std::int32_t, Rank> members;
  for (Rank r = 0; r < endpoints(); r += first_node_) ++members[class_of(r)];
  const std::int32_t most = std::ranges::max_element(members, {}, [](const auto& m) { return m.second; })->first;
  for (const bool sound : {true, false})
    for (Rank r = 0; r < endpoints(); r += first_node_)
      if ((class_of(r) == most) == sound) sound_.push_back(r / first_node_);
}

Rank MachineView::ranks_per_node(Rank ranks) const {
  if (first_node_ == endpoints()) return ranks;
  const Rank first = std::min(first_node_, ranks);
  return ranks % first == 0 && std::min(ranks, endpoints()) <= alike_ ? first : 1;
}

Rank MachineView::ranks_of_node(Rank first) const {
  Rank end = first;
  while (end < endpoints() && topology_->device(device(end)).node == topology_->device(device(first)).node) ++end;
  return end - first;
}

// The innermost level that holds the bytes.
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
