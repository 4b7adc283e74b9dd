#include "machine/import/network_tree.h"

#include <algorithm>

#include "machine/cluster/cluster.h"
#include "machine/cluster/node_options.h"

namespace weft::topology {
namespace {

// Adapters below every switch, counted up the tree.
std::vector<std::int64_t> adapters_below(const NetworkTree& tree, std::int64_t per_host) {
  std::vector<std::int64_t> below(tree.switches.size());
  for (const NetworkTree::Host& host : tree.hosts)
    for (const std::int32_t s : host.ports) below[static_cast<std::size_t>(s)] += host.ports.size() == 1 ? per_host : 1;
  // Children come before parents in no particular order: as many rounds as there are levels.
  std::vector<std::int64_t> total = below;
  for (std::size_t round = 0; round < tree.switches.size(); ++round) {
    std::vector<std::int64_t> next = below;
    for (const NetworkTree::Trunk& t : tree.trunks)
      next[static_cast<std::size_t>(t.b)] += total[static_cast<std::size_t>(t.a)];
    if (next == total) break;
    total = std::move(next);
  }
  return total;
}

}  // namespace

Result<Topology> cluster_of(const Catalog& catalog, const NetworkTree& tree, const Topology& original,
                            std::string_view network, std::int32_t oversub) {
  const Part* part = catalog.find(network);
  if (!part || part->kind != "network") return unknown_network(catalog, network);
  ClusterOptions options;
  WEFT_TRY(const Topology node, with_options(catalog, original, options, part));
  WEFT_TRY(const Link edge, catalog.link(network, 1));
  const std::vector<DeviceId> nics = of_kind(node, DeviceKind::kNic);
  Topology cluster;
  std::vector<DeviceId> bases;
  for (const NetworkTree::Host& host : tree.hosts) {
    const auto index = static_cast<std::int32_t>(bases.size());
    bases.push_back(static_cast<DeviceId>(cluster.devices().size()));
    for (Device d : node.devices()) {
      d.node = index;
      if (d.kind == DeviceKind::kNic) d.port_rate = edge.rate_ab;
      if (d.kind == DeviceKind::kCpu) d.facts.set("name", host.name);
      if (d.kind == DeviceKind::kCpu && index == 0 && !tree.assumed.empty()) d.facts.set("assumed", tree.assumed);
      cluster.add(std::move(d));
    }
    for (Link link : node.links()) {
      link.a += bases.back();
      link.b += bases.back();
      cluster.connect(link);
    }
  }
  const auto first = static_cast<DeviceId>(cluster.devices().size());
  for (std::size_t s = 0; s < tree.switches.size(); ++s) {
    Device device{.kind = DeviceKind::kNetworkSwitch,
                  .node = -1,
                  .index = static_cast<std::int32_t>(s),
                  .model = std::string(network),
                  .bus_id = {},
                  .port_rate = {}};
    device.facts.set("name", tree.switches[s]);
    cluster.add(std::move(device));
  }
  for (std::size_t h = 0; h < tree.hosts.size(); ++h) {
    const std::vector<std::int32_t>& ports = tree.hosts[h].ports;
    for (std::size_t n = 0; n < nics.size(); ++n) {
      if (ports.size() > 1 && n >= ports.size()) break;
      Link link = edge;
      link.a = bases[h] + nics[n];
      link.b = first + ports[ports.size() == 1 ? 0 : n];
      cluster.connect(link);
    }
  }
  const std::vector<std::int64_t> below = adapters_below(tree, static_cast<std::int64_t>(nics.size()));
  for (const NetworkTree::Trunk& t : tree.trunks) {
    const std::int64_t guess = below[static_cast<std::size_t>(t.a)] / std::max(oversub, 1);
    Link link = edge;
    link.a = first + t.a;
    link.b = first + t.b;
    link.count = t.count > 0 ? t.count : static_cast<std::int32_t>(std::clamp<std::int64_t>(guess, 1, 1'000'000));
    link.rate_ab = link.rate_ba = edge.rate_ab * link.count;
    link.latency = duration_of(*part->figure("fabric_latency"));
    cluster.connect(link);
  }
  return cluster;
}

std::vector<std::string> host_names(const Topology& topology) {
  std::vector<std::string> names(static_cast<std::size_t>(topology.nodes()));
  for (const Device& d : topology.devices())
    if (d.kind == DeviceKind::kCpu && d.node >= 0)
      if (const std::string_view name = d.facts.get("name"); !name.empty())
        names[static_cast<std::size_t>(d.node)] = name;
  for (std::size_t n = 0; n < names.size(); ++n)
    if (names[n].empty()) names[n] = fmt::format("node{}", n);
  return names;
}

}  // namespace weft::topology
