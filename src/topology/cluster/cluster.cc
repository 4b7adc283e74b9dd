#include "topology/cluster/cluster.h"

#include <algorithm>

namespace weft::topology {
namespace {

// How many switches of each level, and what a leaf is wired to.
struct Fabric {
  std::int32_t group = 0;  // nodes whose NICs share leaves
  std::int32_t leaves = 0;
  std::int32_t spines = 0;
  std::int32_t uplinks = 0;  // ports of one leaf towards one spine
};

std::int32_t divide_up(std::int32_t a, std::int32_t b) { return (a + b - 1) / b; }

Fabric plan_fabric(std::int32_t nodes, std::int32_t rails, std::int32_t ports, std::int32_t oversub) {
  if (static_cast<std::int64_t>(nodes) * rails <= ports) return {nodes, 1, 0, 0};
  const std::int32_t down = std::clamp(ports * oversub / (oversub + 1), 1, nodes);
  const std::int32_t leaves = divide_up(nodes, down) * rails;
  const std::int32_t up = divide_up(down, oversub);
  // The fewest spines that have the ports, such that each leaf spreads its uplinks evenly over them.
  auto spines = static_cast<std::int32_t>((static_cast<std::int64_t>(leaves) * up + ports - 1) / ports);
  while (spines < up && up % spines != 0) ++spines;
  spines = std::min(spines, up);
  return {down, leaves, spines, up / spines};
}

// Copies the node's devices and links, its NICs with this port rate; returns the id of its first device.
DeviceId copy_node(const Topology& node, std::int32_t index, BytesPerSecond port_rate, Topology& cluster) {
  const auto base = static_cast<DeviceId>(cluster.devices().size());
  for (Device device : node.devices()) {
    device.node = index;
    if (device.kind == DeviceKind::kNic) device.port_rate = port_rate;
    cluster.add(std::move(device));
  }
  for (Link link : node.links()) {
    link.a += base;
    link.b += base;
    cluster.connect(link);
  }
  return base;
}

std::vector<DeviceId> of_kind(const Topology& topology, DeviceKind kind) {
  std::vector<DeviceId> found;
  for (DeviceId id = 0; id < static_cast<DeviceId>(topology.devices().size()); ++id)
    if (topology.device(id).kind == kind) found.push_back(id);
  return found;
}

// Gives a node without NICs `count` of the network's usual ones, spread over its CPUs.
Status add_nics(const Catalog& catalog, const Part& network, std::int32_t count, Topology& node) {
  const auto model = network.facts.find("nic");
  const Part* part = model == network.facts.end() ? nullptr : catalog.find(model->second);
  const Figure* lanes = part ? part->figure("lanes") : nullptr;
  if (!lanes || !part->facts.contains("pcie")) return bad_input("the catalogue has no NIC for '{}'", network.name);
  const std::vector<DeviceId> cpus = of_kind(node, DeviceKind::kCpu);
  if (cpus.empty()) return bad_input("'{}' has no NIC, and no CPU to plug one into", node.title);
  for (std::int32_t i = 0; i < count; ++i) {
    const DeviceId nic =
        node.add({.kind = DeviceKind::kNic, .node = 0, .index = i, .model = part->name, .bus_id = {}, .port_rate = {}});
    WEFT_TRY(Link link, catalog.link(part->facts.at("pcie"), static_cast<std::int32_t>(lanes->value), true));
    link.a = nic;
    link.b = cpus[static_cast<std::size_t>(i) * cpus.size() / static_cast<std::size_t>(count)];
    node.connect(link);
  }
  return {};
}

// The NICs of one node that take part, in rail order.
Result<std::vector<DeviceId>> pick_rails(const Catalog& catalog, const Part& network, std::int32_t rails,
                                         Topology& node) {
  if (of_kind(node, DeviceKind::kNic).empty()) WEFT_CHECK(add_nics(catalog, network, std::max(rails, 1), node));
  const std::vector<DeviceId> nics = of_kind(node, DeviceKind::kNic);
  const auto have = static_cast<std::int32_t>(nics.size());
  if (rails > have)
    return bad_input("rails={}: a node of '{}' has {} NIC{}", rails, node.title, have, have == 1 ? "" : "s");
  const std::int32_t used = rails > 0 ? rails : have;
  std::vector<DeviceId> picked;
  for (std::int32_t r = 0; r < used; ++r) picked.push_back(nics[static_cast<std::size_t>(r * have / used)]);
  return picked;
}

}  // namespace

std::vector<std::string> network_names(const Catalog& catalog) {
  std::vector<std::string> names;
  for (const Part& part : catalog.parts())
    if (part.kind == "network") names.push_back(part.name);
  return names;
}

Result<Topology> build_cluster(const Catalog& catalog, const Topology& node_template, const ClusterOptions& options) {
  Topology node = node_template;
  if (options.network.empty()) {
    if (options.nodes > 1)
      return bad_input("{} nodes of '{}' need a network: net={}", options.nodes, node.title,
                       fmt::join(network_names(catalog), "|"));
    return node;
  }
  const Part* network = catalog.find(options.network);
  if (!network || network->kind != "network")
    return bad_input("unknown net '{}'; there are {}", options.network, fmt::join(network_names(catalog), ", "));
  const Figure* ports = network->figure("ports");
  const Figure* fabric_latency = network->figure("fabric_latency");
  if (!ports || !fabric_latency) return bad_input("network '{}' lacks ports or fabric_latency", network->name);

  WEFT_TRY(const std::vector<DeviceId> rails, pick_rails(catalog, *network, options.rails, node));
  WEFT_TRY(Link edge, catalog.link(network->name, 1));
  const auto rail_count = static_cast<std::int32_t>(rails.size());
  const Fabric fabric =
      plan_fabric(options.nodes, rail_count, static_cast<std::int32_t>(ports->value), options.oversub);

  Topology cluster;
  cluster.title = node.title;
  std::vector<DeviceId> bases;
  for (std::int32_t n = 0; n < options.nodes; ++n) bases.push_back(copy_node(node, n, edge.rate_ab, cluster));
  const auto first_switch = static_cast<DeviceId>(cluster.devices().size());
  for (std::int32_t s = 0; s < fabric.leaves + fabric.spines; ++s)
    cluster.add({.kind = DeviceKind::kNetworkSwitch,
                 .node = -1,
                 .index = s,
                 .model = network->name,
                 .bus_id = {},
                 .port_rate = {}});

  for (std::int32_t n = 0; n < options.nodes; ++n) {
    for (std::int32_t r = 0; r < rail_count; ++r) {
      edge.a = bases[static_cast<std::size_t>(n)] + rails[static_cast<std::size_t>(r)];
      edge.b = first_switch + (fabric.spines == 0 ? 0 : n / fabric.group * rail_count + r);
      cluster.connect(edge);
    }
  }
  if (fabric.spines > 0) {
    WEFT_TRY(Link up, catalog.link(network->name, fabric.uplinks));
    up.latency = duration_of(*fabric_latency);
    for (up.a = first_switch; up.a < first_switch + fabric.leaves; ++up.a)
      for (std::int32_t s = 0; s < fabric.spines; ++s) {
        up.b = first_switch + fabric.leaves + s;
        cluster.connect(up);
      }
  }
  return cluster;
}

}  // namespace weft::topology
