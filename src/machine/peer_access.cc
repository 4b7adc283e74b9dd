#include "machine/peer_access.h"

#include <algorithm>
#include <optional>

namespace weft::topology {
namespace {

// The CPU that a device hangs at, directly or over switches; -1 when there is none.
DeviceId cpu_above(const Topology& topology, DeviceId from) {
  std::vector<DeviceId> open = {from};
  for (std::size_t head = 0; head < open.size(); ++head) {
    for (const LinkId l : topology.links_of(open[head])) {
      const DeviceId to = topology.other_end(l, open[head]);
      const DeviceKind kind = topology.device(to).kind;
      if (kind == DeviceKind::kCpu) return to;
      if (kind == DeviceKind::kPcieSwitch && std::ranges::find(open, to) == open.end()) open.push_back(to);
    }
  }
  return -1;
}

// The farthest path that a level of the host allows ("loc" … "sys"); nothing: the host says none.
std::optional<PathType> farthest(std::string_view level) {
  for (const auto& [word, type] :
       {std::pair("loc", PathType::kLoc), std::pair("nvl", PathType::kNvl), std::pair("pix", PathType::kPix),
        std::pair("pxb", PathType::kPxb), std::pair("phb", PathType::kPhb), std::pair("sys", PathType::kSys)})
    if (level == word) return type;
  return std::nullopt;
}

bool coherent(const Topology& topology, DeviceId a, const Path& path) {
  if (path.hops.empty()) return false;
  const auto at_cpu = [&](const Hop& hop) {
    const Link& l = topology.link(hop.link);
    return is_scale_up(l.kind) &&
           (topology.device(l.a).kind == DeviceKind::kCpu || topology.device(l.b).kind == DeviceKind::kCpu);
  };
  return topology.device(a).kind == DeviceKind::kGpu && (at_cpu(path.hops.front()) || at_cpu(path.hops.back()));
}

}  // namespace

std::string_view host_fact(const Topology& topology, std::span<const DeviceId> node, std::string_view key) {
  for (const DeviceId id : node)
    if (topology.device(id).kind == DeviceKind::kCpu)
      if (const std::string_view value = topology.device(id).facts.get(key); !value.empty()) return value;
  return {};
}

PeerAccess peer_access(const Topology& topology, DeviceId a, DeviceId b, const Path& path) {
  const Device &one = topology.device(a), &other = topology.device(b);
  const bool rdma = one.kind == DeviceKind::kNic || other.kind == DeviceKind::kNic;
  if (path.type == PathType::kDis) return {false, "there is no path inside the node"};
  const DeviceId cpu = cpu_above(topology, a);
  const Facts none;
  const Facts& host = cpu < 0 ? none : topology.device(cpu).facts;
  const std::string_view key = rdma ? "gdr" : "p2p";
  const std::optional<PathType> level = farthest(host.get(key));
  if (level && path.type > *level)
    return {false, fmt::format("{}={} forbids a path as far as this", key, host.get(key))};
  if (path.type == PathType::kNvl) return {true, "scale-up links only"};
  const Device& gpu = one.kind == DeviceKind::kGpu ? one : other;
  const std::string_view direct = gpu.facts.get("direct");
  if (direct == "no" || direct == "nvlink")
    return {false, fmt::format("{} does not open its memory to PCIe peers", gpu.model)};
  if (one.facts.get("gdr") == "0" || other.facts.get("gdr") == "0")
    return {false, "the dump says gdr=0: NIC driver or GPU kernel module lacks peer memory"};
  if (rdma && host.get("peermem") == "off") return {false, "kernel module nvidia_peermem (or dma-buf) is not loaded"};
  if (host.get("iommu") == "on") return {false, "the IOMMU translates DMA addresses"};
  if (host.get("acs") == "on") return {false, "ACS sends peer-to-peer traffic up to the root complex"};
  if (path.type == PathType::kPix) return {true, "the same PCIe switch"};
  if (path.type == PathType::kPxb) return {true, "PCIe switches only"};
  if (coherent(topology, one.kind == DeviceKind::kGpu ? a : b, path) && path.type == PathType::kPhb)
    return {true, "a coherent link to the CPU that the NIC hangs at"};
  if (path.type == PathType::kPhb && direct == "phb")
    return {true, "the same root complex, which this accelerator uses"};
  if (level) return {true, fmt::format("{}={} allows it", key, host.get(key))};
  if (path.type == PathType::kPhb) return {false, "the root complex of a CPU lies between"};
  return {false, "the link between two sockets lies between"};
}

}  // namespace weft::topology
