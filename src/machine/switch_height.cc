#include "machine/switch_height.h"

namespace weft::topology {

std::vector<std::int32_t> switch_heights(const Topology& topology) {
  std::vector<std::int32_t> height(topology.devices().size(), -1);
  std::vector<DeviceId> open;
  const auto reach = [&](DeviceId id, std::int32_t h) {
    if (topology.device(id).node >= 0 || height[static_cast<std::size_t>(id)] >= 0) return;
    height[static_cast<std::size_t>(id)] = h;
    open.push_back(id);
  };
  for (const Link& l : topology.links()) {
    if (l.kind != LinkKind::kNetwork) continue;
    if (topology.device(l.a).node >= 0) reach(l.b, 0);
    if (topology.device(l.b).node >= 0) reach(l.a, 0);
  }
  for (std::size_t head = 0; head < open.size(); ++head)
    for (const LinkId l : topology.links_of(open[head]))
      reach(topology.other_end(l, open[head]), height[static_cast<std::size_t>(open[head])] + 1);
  return height;
}

}  // namespace weft::topology
