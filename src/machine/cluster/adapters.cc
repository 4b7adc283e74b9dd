#include "machine/cluster/adapters.h"

#include <map>

#include "machine/cluster/node_options.h"

namespace weft::topology {

JoinedAdapters join_adapters(const Topology& node) {
  const auto nics = static_cast<std::int32_t>(of_kind(node, DeviceKind::kNic).size());
  const auto gpus = static_cast<std::int32_t>(of_kind(node, DeviceKind::kGpu).size());
  if (gpus == 0 || nics <= gpus || nics % gpus != 0) return {node, 1};
  JoinedAdapters joined{{}, nics / gpus};
  joined.node.title = node.title;
  joined.node.routing = node.routing;

  // The first NICs at a switch stay, one of `each`.
  std::map<DeviceId, std::int32_t> seen;  // at this neighbour
  std::vector<DeviceId> kept(node.devices().size(), -1);
  std::int32_t index = 0;
  for (std::size_t d = 0; d < node.devices().size(); ++d) {
    Device device = node.devices()[d];
    if (device.kind == DeviceKind::kNic) {
      const auto id = static_cast<DeviceId>(d);
      const std::span<const LinkId> links = node.links_of(id);
      if (!links.empty() && seen[node.other_end(links[0], id)]++ % joined.each != 0) continue;
      device.index = index++;
    }
    kept[d] = joined.node.add(std::move(device));
  }
  for (Link link : node.links()) {
    const bool nic = node.device(link.a).kind == DeviceKind::kNic || node.device(link.b).kind == DeviceKind::kNic;
    link.a = kept[static_cast<std::size_t>(link.a)];
    link.b = kept[static_cast<std::size_t>(link.b)];
    if (link.a < 0 || link.b < 0) continue;
    if (nic) {
      link.rate_ab = link.rate_ab * joined.each;
      link.rate_ba = link.rate_ba * joined.each;
      link.count *= joined.each;
    }
    joined.node.connect(link);
  }
  return joined;
}

}  // namespace weft::topology
