#include "machine/cluster/cluster.h"

#include <algorithm>

#include "base/nearest_words.h"
#include "machine/catalog/switches.h"
#include "machine/cluster/adapters.h"
#include "machine/cluster/fabric.h"
#include "machine/cluster/node_options.h"

namespace weft::topology {
namespace {

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

// The NICs of one node that take part, in rail order.
Result<std::vector<DeviceId>> pick_rails(std::int32_t rails, const Topology& node) {
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

tl::unexpected<Error> unknown_network(const Catalog& catalog, std::string_view name) {
  const auto names = network_names(catalog);
  return bad_input("unknown net '{}'; {}there are {}", name, did_you_mean(name, names), fmt::join(names, ", "));
}

Result<Topology> build_cluster(const Catalog& catalog, const Topology& original, const ClusterOptions& options) {
  const Part* network = options.network.empty() ? nullptr : catalog.find(options.network);
  if (!options.network.empty() && (!network || network->kind != "network"))
    return unknown_network(catalog, options.network);
  WEFT_TRY(Topology node, with_options(catalog, original, options, network));
  if (!network) {
    if (options.sharp) return bad_input("sharp=on: there is no network");
    if (options.nodes > 1)
      return bad_input("{} nodes of '{}' need a network: net={}", options.nodes, node.title,
                       fmt::join(network_names(catalog), "|"));
    return with_gpus(node, options.gpus);
  }
  const Figure* ports = network->figure("ports");
  const Figure* fabric_latency = network->figure("fabric_latency");
  if (!ports || !fabric_latency) return bad_input("network '{}' lacks ports or fabric_latency", network->name);

  std::int32_t joined = 1;
  if (network->facts.contains("striped")) {
    JoinedAdapters adapters = join_adapters(node);
    node = std::move(adapters.node);
    joined = adapters.each;
  }
  WEFT_TRY(node, with_gpus(node, options.gpus));  // after adapters are shared out among all GPUs
  WEFT_TRY(const std::vector<DeviceId> rails, pick_rails(options.rails, node));
  WEFT_TRY(const Link edge, catalog.link(network->name, joined));
  NetworkParts parts{
      .model = network->name, .ports = static_cast<std::int32_t>(ports->value), .edge = edge, .trunk = edge};
  const std::string& switches = network->facts.at("switch");
  if (options.sharp && !part_reduces(catalog, switches))
    return bad_input("sharp=on: the switches of net '{}' ({}) do not sum", network->name, switches);
  parts.reduces = options.sharp;
  parts.trunk.latency = duration_of(*fabric_latency);

  Topology cluster;
  cluster.title = node.title;
  cluster.routing = node.routing;
  std::vector<std::vector<DeviceId>> nics(static_cast<std::size_t>(options.nodes), rails);
  for (std::int32_t n = 0; n < options.nodes; ++n) {
    const DeviceId base = copy_node(node, n, edge.rate_ab, cluster);
    for (DeviceId& nic : nics[static_cast<std::size_t>(n)]) nic += base;
  }
  WEFT_CHECK(add_fabric(parts, options, nics, cluster));
  return cluster;
}

}  // namespace weft::topology
