#include "plan/tune/nccl/search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "machine/catalog/catalog.h"
#include "machine/switched_paths.h"
#include "plan/cost/node_classes.h"
#include "plan/tune/nccl/constants.h"
#include "plan/tune/nccl/node.h"

namespace weft::tune::nccl {
namespace {

using topology::Catalog;
using topology::DeviceId;
using topology::DeviceKind;
using topology::LinkKind;
using topology::PathType;
using topology::Topology;

struct Nic {
  double rate = 0;  // GB/s
  PathType near = PathType::kDis;
};

// Compute capability, or 0.
int sm_of(const Catalog& catalog, const topology::Device& gpu) {
  std::string sm(gpu.facts.get("sm"));
  if (const topology::Part* part = catalog.find(gpu.model); sm.empty() && part != nullptr)
    if (const auto fact = part->facts.find("sm"); fact != part->facts.end()) sm = fact->second;
  return std::atoi(sm.c_str());
}

std::span<const double> intra_speeds(int sm) {
  if (sm >= 100) return kIntraSpeeds100;
  return sm >= 90 ? std::span<const double>(kIntraSpeeds90) : kIntraSpeeds;
}
std::span<const double> inter_speeds(int sm) {
  if (sm >= 100) return kInterSpeeds100;
  return sm >= 90 ? std::span<const double>(kInterSpeeds90) : kInterSpeeds;
}

double network_rate(const Topology& topology, DeviceId nic) {
  BytesPerSecond rate;
  for (const topology::LinkId id : topology.links_of(nic))
    if (const topology::Link& l = topology.link(id); l.kind == LinkKind::kNetwork)
      rate = rate + (l.a == nic ? l.rate_ab : l.rate_ba);
  return rate.gb();
}

// The NICs that GPUs of a node use: each no faster than its way to the nearest of them. Several NICs per GPU
// are one to NCCL, because the plugins of such networks join them (aws-ofi-nccl).
std::vector<Nic> nics_of(const cost::MachineView& machine, const Node& node, std::span<const DeviceId> gpus) {
  const Topology& topology = machine.topology();
  std::vector<std::pair<DeviceId, Nic>> found;  // with the nearest GPU
  for (std::size_t d = 0; d < topology.devices().size(); ++d) {
    const auto id = static_cast<DeviceId>(d);
    if (topology.device(id).kind != DeviceKind::kNic || topology.device(id).node != topology.device(gpus[0]).node)
      continue;
    Nic nic{network_rate(topology, id), PathType::kDis};
    if (nic.rate <= 0) continue;
    DeviceId nearest = gpus[0];
    double way = 0;
    for (const DeviceId gpu : gpus) {
      const topology::Path path = machine.routes().wire_path(gpu, id);
      if (path.type >= nic.near) continue;
      nic.near = path.type;
      nearest = gpu;
      way = nic.rate;
      for (const topology::Hop& h : path.hops) way = std::min(way, node.rate(h.link));
    }
    nic.rate = way;
    found.emplace_back(nearest, nic);
  }
  std::vector<Nic> nics;
  std::map<DeviceId, Nic> joined;
  for (const auto& [gpu, nic] : found) {
    nics.push_back(nic);
    joined[gpu].rate += nic.rate;
    joined[gpu].near = nic.near;
  }
  if (nics.size() <= gpus.size()) return nics;
  nics.clear();
  for (const auto& [gpu, nic] : joined) nics.push_back(nic);
  return nics;
}

int fit(std::span<const Nic> nics, double speed) {
  int channels = 0;
  for (const Nic& nic : nics) channels += static_cast<int>(std::floor(nic.rate / speed + 1e-6));
  return std::min(channels, kMostSearched);
}

// The channels with the most bandwidth together; the fastest of equals.
Graph find_rings(const Node& node, std::span<const Nic> nics, int nodes, int sm) {
  constexpr double kSlowest = 0.49;  // of the first speed at which anything was found
  Graph best;
  double first = 0;
  for (const double speed : nodes > 1 ? inter_speeds(sm) : intra_speeds(sm)) {
    if (first > 0 && speed < kSlowest * first) break;
    for (const bool nvlink : {true, false}) {
      if (nvlink && !(node.port() >= speed)) continue;
      const int channels = node.rings(speed, nodes > 1 ? fit(nics, speed) : kMostSearched, nvlink);
      if (channels > 0 && first == 0) first = speed;
      if (channels * speed > best.channels * best.intra + 1e-6) best = {channels, speed, speed, nvlink, true};
      if (channels > 0) break;
    }
  }
  if (best.channels == 0) best = {1, 0.1, 0.1, false, true};
  if (best.intra >= 25 && !(sm > 80 && best.intra < 50 && best.channels > 4))
    best = {best.channels * 2, best.intra / 2, best.inter / 2, best.nvlink, true};
  return best;
}

// Trees have the rings' channels; inside the nodes they may be faster than between them.
Graph find_trees(const Node& node, const Graph& rings, int nodes, int sm) {
  Graph trees = rings;
  if (nodes == 1) return trees;
  for (const double speed : intra_speeds(sm)) {
    if (speed <= trees.intra) break;
    if (speed >= 2 * trees.inter || node.rings(speed, trees.channels, trees.nvlink) < trees.channels) continue;
    trees.intra = speed;
    break;
  }
  return trees;
}

// A channel per GPU that reduces; all of them go through every GPU's port.
Graph find_nvls(const Node& node, std::span<const Nic> nics, int gpus, int nodes, int sm) {
  const int heads = std::min(gpus, kMostSearched);
  const std::span<const double> speeds = nodes > 1 ? inter_speeds(sm) : intra_speeds(sm);
  const auto first = std::ranges::find_if(
      speeds, [&](double s) { return heads * s <= node.port() && (nodes == 1 || fit(nics, s) >= heads); });
  if (first == speeds.end()) return {};
  const auto between = std::ranges::find_if(speeds, [&](double s) { return nodes == 1 || fit(nics, s) >= heads; });
  return {heads, *first, *between, true, true};
}

// Reads the settings of the network's plugin, or those that its provider publishes.
void ask_network(const Catalog& catalog, const Topology& topology, System& system) {
  for (const topology::Device& d : topology.devices()) {
    if (d.kind != DeviceKind::kNic) continue;
    const topology::Part* part = catalog.find(d.model);
    if (part == nullptr) return;
    if (const topology::Figure* latency = part->figure("plugin_latency"))
      system.net_latency = topology::duration_of(*latency).us();
    system.only_simple = part->facts.contains("only_simple");
    if (part->facts.contains("no_nvls")) system.nvls = {};
    return;
  }
}

bool has_amd_cpu(const Topology& topology) {
  return std::ranges::any_of(topology.devices(), [](const topology::Device& d) {
    return d.kind == DeviceKind::kCpu && (d.model.starts_with("EPYC") || d.model.starts_with("Threadripper"));
  });
}

// All ranks exchange what they found, and each pattern is as narrow as the narrowest node makes it: NCCL 2.30.7,
// src/init.cc, initTransportsRank, takes the minimum of channels and bandwidths over all ranks (2026-06-11).
Graph narrowest(const Graph& a, const Graph& b) {
  return {std::min(a.channels, b.channels), std::min(a.intra, b.intra), std::min(a.inter, b.inter),
          a.nvlink && b.nvlink, a.same_channels && b.same_channels};
}

// The GPUs of one node of every class: nodes of a class find the same.
std::vector<std::vector<DeviceId>> different_nodes(const cost::MachineView& machine, Rank ranks) {
  const std::vector<std::int32_t> classes = cost::node_classes(machine.topology());
  std::map<std::int32_t, std::int32_t> node_of_class;
  std::map<std::int32_t, std::vector<DeviceId>> gpus;  // by class
  for (Rank r = 0; r < ranks; ++r) {
    const std::int32_t node = machine.topology().device(machine.device(r)).node;
    const std::int32_t its_class = node < 0 ? 0 : classes[static_cast<std::size_t>(node)];
    if (node_of_class.try_emplace(its_class, node).first->second == node) gpus[its_class].push_back(machine.device(r));
  }
  std::vector<std::vector<DeviceId>> nodes;
  for (auto& [its_class, of_node] : gpus) nodes.push_back(std::move(of_node));
  return nodes;
}

int channels_of(const System& s) {
  int channels = std::min(kMostChannels, 2 * std::min(s.ring.channels, s.tree.channels));
  if (s.nodes > 1 && s.compute_capability >= 90 && s.ring.intra > 45 && channels < 16) channels *= 2;
  return channels;
}

}  // namespace

Result<System> system_of(const cost::MachineView& machine, Rank ranks) {
  const Topology& topology = machine.topology();
  WEFT_TRY(const Catalog catalog, Catalog::shipped());
  System system{.ranks = ranks};
  std::vector<DeviceId> gpus;
  for (Rank r = 0; r < ranks; ++r) {
    const topology::Device& gpu = topology.device(machine.device(r));
    const int sm = gpu.kind == DeviceKind::kGpu ? sm_of(catalog, gpu) : 0;
    if (sm == 0)
      return failure(Code::kUnsupported, Blame::kInput, "NCCL runs on NVIDIA GPUs; {} is '{}'",
                     topology.name_of(machine.device(r)), gpu.model);
    system.compute_capability = r == 0 ? sm : std::min(sm, system.compute_capability);
    if (gpu.node == topology.device(machine.device(0)).node) gpus.push_back(machine.device(r));
  }
  if (ranks % static_cast<Rank>(gpus.size()) != 0)
    return failure(Code::kUnsupported, Blame::kInput, "NCCL's model wants nodes with equally many ranks, not {} on {}s",
                   ranks, gpus.size());
  system.nodes = ranks / static_cast<Rank>(gpus.size());
  system.amd_cpu = has_amd_cpu(topology);
  system.net_overhead = system.amd_cpu ? 2.0 : 1.0;
  for (const topology::LinkId id : topology.links_of(gpus.front()))
    system.nvswitch |= topology.device(topology.other_end(id, gpus.front())).kind == DeviceKind::kNvSwitch;

  const int sm = system.compute_capability;
  std::vector<Nic> nics;  // of the node whose first NIC is slowest
  bool first = true;
  for (const std::vector<DeviceId>& of_node : different_nodes(machine, ranks)) {
    const Node node(topology, machine.routes(), of_node, sm);
    const std::vector<Nic> own = nics_of(machine, node, of_node);
    const Graph ring = find_rings(node, own, system.nodes, sm), tree = find_trees(node, ring, system.nodes, sm);
    const Graph nvls = system.nvswitch && sm >= 90 && topology::switches_sum(topology, DeviceKind::kNvSwitch)
                           ? find_nvls(node, own, static_cast<int>(of_node.size()), system.nodes, sm)
                           : Graph();
    // src/graph/paths.cc, ncclTopoGetNchannels; two over PCIe and, at the least, over the network.
    const int to_peer = system.nodes > 1 ? 2 : 2 * std::max(1, node.fewest_nvlinks(sm));
    system.peer_channels = first ? to_peer : std::min(system.peer_channels, to_peer);
    system.ring = first ? ring : narrowest(system.ring, ring);
    system.tree = first ? tree : narrowest(system.tree, tree);
    system.nvls = first ? nvls : narrowest(system.nvls, nvls);
    if (first || (!own.empty() && own.front().rate < nics.front().rate)) nics = own;
    first = false;
  }
  system.channels = channels_of(system);
  if (system.nodes > 1) {
    if (!nics.empty()) system.nic = nics.front().rate;
    ask_network(catalog, topology, system);
  }
  const bool near = nics.empty() || sm >= 90 || nics.front().near <= PathType::kPxb;
  system.ll128 = system.ring.nvlink && (system.nodes == 1 || near);
  return system;
}

}  // namespace weft::tune::nccl
