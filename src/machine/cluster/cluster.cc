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

namespace {

// One kind of node, ready to be copied.
struct Kind {
  Topology node;
  std::vector<DeviceId> rails;
  Link edge;  // NIC to switch
  std::int32_t count = 1;
};

Result<Kind> kind_of(const Catalog& catalog, const Topology& original, std::int32_t count,
                     const ClusterOptions& options, const Part& network) {
  WEFT_TRY(Topology node, with_options(catalog, original, options, &network));
  std::int32_t joined = 1;
  if (network.facts.contains("striped")) {
    JoinedAdapters adapters = join_adapters(node);
    node = std::move(adapters.node);
    joined = adapters.each;
  }
  WEFT_TRY(node, with_gpus(node, options.gpus));  // after adapters are shared out among all GPUs
  WEFT_TRY(std::vector<DeviceId> rails, pick_rails(options.rails, node));
  WEFT_TRY(const Link edge, catalog.link(network.name, joined));
  return Kind{.node = std::move(node), .rails = std::move(rails), .edge = edge, .count = count};
}

// All kinds, with equally many rails and GPUs.
Result<std::vector<Kind>> kinds_of(const Catalog& catalog, const Topology& original, const ClusterOptions& options,
                                   const std::vector<OtherNodes>& others, const Part& network) {
  std::vector<Kind> kinds;
  WEFT_TRY(Kind first, kind_of(catalog, original, options.nodes, options, network));
  kinds.push_back(std::move(first));
  if (!others.empty() && options.mnnvl > 1) return bad_input("mnnvl={}: all nodes of it are alike", options.mnnvl);
  for (const OtherNodes& other : others) {
    WEFT_TRY(Kind kind, kind_of(catalog, other.node, other.count, options, network));
    const std::size_t here = of_kind(kinds[0].node, DeviceKind::kGpu).size(),
                      there = of_kind(kind.node, DeviceKind::kGpu).size();
    if (here != there)
      return bad_input("nodes of '{}' have {} GPUs and those of '{}' {}; gpus={} takes as many of each",
                       kinds[0].node.title, here, kind.node.title, there, std::min(here, there));
    kinds.push_back(std::move(kind));
  }
  std::size_t rails = kinds[0].rails.size();
  for (const Kind& kind : kinds) rails = std::min(rails, kind.rails.size());
  for (Kind& kind : kinds)
    if (kind.rails.size() != rails) {
      WEFT_TRY(kind.rails, pick_rails(static_cast<std::int32_t>(rails), kind.node));
    }
  return kinds;
}

}  // namespace

Result<Topology> build_cluster(const Catalog& catalog, const Topology& original, const ClusterOptions& options,
                               const std::vector<OtherNodes>& others) {
  const Part* network = options.network.empty() ? nullptr : catalog.find(options.network);
  if (!options.network.empty() && (!network || network->kind != "network"))
    return unknown_network(catalog, options.network);
  if (!network) {
    WEFT_TRY(const Topology node, with_options(catalog, original, options, network));
    if (options.sharp) return bad_input("sharp=on: there is no network");
    if (options.nodes > 1 || !others.empty())
      return bad_input("{} nodes of '{}' need a network: net={}", options.nodes, node.title,
                       fmt::join(network_names(catalog), "|"));
    return with_gpus(node, options.gpus);
  }
  const Figure* ports = network->figure("ports");
  const Figure* fabric_latency = network->figure("fabric_latency");
  if (!ports || !fabric_latency) return bad_input("network '{}' lacks ports or fabric_latency", network->name);

  WEFT_TRY(const std::vector<Kind> kinds, kinds_of(catalog, original, options, others, *network));
  const auto rate = [](const Kind& kind) { return kind.edge.rate_ab; };
  const Link edge = std::ranges::min_element(kinds, {}, rate)->edge;
  NetworkParts parts{
      .model = network->name, .ports = static_cast<std::int32_t>(ports->value), .edge = edge, .trunk = edge};
  const std::string& switches = network->facts.at("switch");
  if (options.sharp && !part_reduces(catalog, switches))
    return bad_input("sharp=on: the switches of net '{}' ({}) do not sum", network->name, switches);
  parts.reduces = options.sharp;
  parts.trunk.latency = duration_of(*fabric_latency);

  Topology cluster;
  cluster.title = kinds[0].node.title;
  cluster.routing = kinds[0].node.routing;
  std::vector<std::vector<DeviceId>> nics;  // by node
  for (const Kind& kind : kinds)
    for (std::int32_t n = 0; n < kind.count; ++n) {
      const DeviceId base = copy_node(kind.node, static_cast<std::int32_t>(nics.size()), kind.edge.rate_ab, cluster);
      nics.push_back(kind.rails);
      for (DeviceId& nic : nics.back()) nic += base;
    }
  WEFT_CHECK(add_fabric(parts, options, nics, cluster));
  return cluster;
}

}  // namespace weft::topology
