#include "machine/cluster/node_options.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/text.h"

namespace weft::topology {
namespace {

// A copy without the devices that `drop` names and without their links. Node and index numbers stay.
template <class Drop>
Topology without(const Topology& topology, const Drop& drop) {
  Topology rest;
  rest.title = topology.title;
  rest.routing = topology.routing;
  std::map<DeviceId, DeviceId> kept;
  for (DeviceId id = 0; id < static_cast<DeviceId>(topology.devices().size()); ++id)
    if (!drop(topology.device(id))) kept[id] = rest.add(topology.device(id));
  for (Link link : topology.links()) {
    if (!kept.contains(link.a) || !kept.contains(link.b)) continue;
    link.a = kept[link.a];
    link.b = kept[link.b];
    rest.connect(link);
  }
  return rest;
}

DeviceKind kind_of(NicPlace place) {
  return place == NicPlace::kGpu      ? DeviceKind::kGpu
         : place == NicPlace::kSwitch ? DeviceKind::kPcieSwitch
                                      : DeviceKind::kCpu;
}

// Adds `count` of the network's usual NICs, spread over the node's CPUs, PCIe switches or GPUs.
Status add_nics(const Catalog& catalog, const Part* network, std::int32_t count, NicPlace place, Topology& node) {
  if (!network) return bad_input("nics={}: NICs need a network: net=…", count);
  const auto model = network->facts.find("nic");
  const Part* part = model == network->facts.end() ? nullptr : catalog.find(model->second);
  const Figure* lanes = part ? part->figure("lanes") : nullptr;
  if (!lanes || !part->facts.contains("pcie")) return bad_input("the catalogue has no NIC for '{}'", network->name);
  const std::vector<DeviceId> hosts = of_kind(node, kind_of(place));
  if (hosts.empty()) return bad_input("'{}' has no NIC, and no {} to plug one into", node.title, name(kind_of(place)));
  for (std::int32_t i = 0; i < count; ++i) {
    const DeviceId nic = node.add({.kind = DeviceKind::kNic,
                                   .node = 0,
                                   .index = i,
                                   .model = part->name,
                                   .bus_id = {},
                                   .port_rate = rate_of(*network->figure("rate"))});
    WEFT_TRY(Link link,
             catalog.link(part->facts.at("pcie"), static_cast<std::int32_t>(lanes->value), place == NicPlace::kCpu));
    link.a = nic;
    link.b = hosts[static_cast<std::size_t>(i) * hosts.size() / static_cast<std::size_t>(count)];
    node.connect(link);
  }
  return {};
}

// A copy whose links are what `change` makes of them.
template <class Change>
Topology with_links(const Topology& topology, const Change& change) {
  Topology copy;
  copy.title = topology.title;
  copy.routing = topology.routing;
  for (const Device& d : topology.devices()) copy.add(d);
  for (const Link& link : topology.links()) copy.connect(change(link));
  return copy;
}

// The node with every link of `kind` of another generation, its count kept.
Result<Topology> regenerate(const Catalog& catalog, const Topology& node, LinkKind kind, std::string_view part) {
  WEFT_TRY(const Link sample, catalog.link(part, 1));
  if (sample.kind != kind) return bad_input("'{}' is no {}", part, name(kind));
  bool any = false;
  Topology changed = with_links(node, [&](Link link) {
    const bool at_host = node.device(link.a).kind == DeviceKind::kCpu || node.device(link.b).kind == DeviceKind::kCpu;
    // An NVLink at a CPU is chip to chip, which is a generation of its own.
    if (link.kind != kind || (kind == LinkKind::kNvlink && at_host)) return link;
    const auto other = catalog.link(part, link.count, at_host);
    if (!other) return link;
    link.rate_ab = other->rate_ab;
    link.rate_ba = other->rate_ba;
    link.latency = other->latency;
    any = true;
    return link;
  });
  if (!any) return bad_input("'{}' has no {} link to replace by '{}'", node.title, name(kind), part);
  return changed;
}

// Copies of the node as one: their NVSwitches are joined by one more, with as many links as their GPUs have.
Result<Topology> join_domains(const Topology& node, std::int32_t copies) {
  const std::vector<DeviceId> switches = of_kind(node, DeviceKind::kNvSwitch);
  if (switches.empty()) return bad_input("mnnvl={}: '{}' has no NVSwitch", copies, node.title);
  Topology all;
  all.title = node.title;
  all.routing = node.routing;
  std::map<DeviceKind, std::int32_t> per_node;
  for (const Device& d : node.devices()) per_node[d.kind] = std::max(per_node[d.kind], d.index + 1);
  for (std::int32_t c = 0; c < copies; ++c) {
    const auto base = static_cast<DeviceId>(all.devices().size());
    for (Device d : node.devices()) {
      d.index += c * per_node[d.kind];
      all.add(std::move(d));
    }
    for (Link link : node.links()) {
      link.a += base;
      link.b += base;
      all.connect(link);
    }
  }
  const DeviceId top = all.add({.kind = DeviceKind::kNvSwitch,
                                .node = 0,
                                .index = copies * per_node[DeviceKind::kNvSwitch],
                                .model = node.device(switches[0]).model,
                                .bus_id = {},
                                .port_rate = {}});
  for (const DeviceId s : switches) {
    Link up{.kind = LinkKind::kNvlink, .a = 0, .b = top, .rate_ab = {}, .rate_ba = {}, .latency = {}, .count = 0};
    for (const LinkId l : node.links_of(s)) {
      const Link& down = node.link(l);
      if (node.device(node.other_end(l, s)).kind != DeviceKind::kGpu) continue;
      up.rate_ab = up.rate_ba = up.rate_ab + down.rate_ab;
      up.latency = down.latency;
      up.count += down.count;
    }
    for (std::int32_t c = 0; c < copies; ++c) {
      up.a = s + c * static_cast<DeviceId>(node.devices().size());
      all.connect(up);
    }
  }
  return all;
}

// "nvme-gen5*8": that many parts below the node's processors, spread evenly; links with the rates at which the part
// reads (from it) and writes, its latency in them.
Status add_memory(const Catalog& catalog, std::string_view text, Topology& node) {
  const std::size_t star = text.find('*');
  const Part* part = catalog.find(text.substr(0, star));
  const Figure* lanes = part != nullptr ? part->figure("lanes") : nullptr;
  if (lanes == nullptr || part->kind != "memory" || !part->facts.contains("pcie"))
    return bad_input("memory={}: a CXL expander or an NVMe drive of `weft catalog`, e.g. cxl2-x8*4+nvme-gen5*8", text);
  std::int64_t count = 1;
  if (star != std::string_view::npos) {
    WEFT_TRY(count, parse_integer("memory=" + std::string(text) + ": count", text.substr(star + 1), 1, 1024));
  }
  const std::vector<DeviceId> cpus = of_kind(node, DeviceKind::kCpu);
  if (cpus.empty()) return bad_input("memory={}: '{}' has no processors", text, node.title);
  WEFT_TRY(Link link, catalog.link(part->facts.at("pcie"), static_cast<std::int32_t>(lanes->value), true));
  const Figure *read = part->figure("rate"), *write = part->figure("write_rate");
  link.rate_ab = std::min(link.rate_ab, rate_of(*read));
  link.rate_ba = std::min(link.rate_ba, rate_of(write != nullptr ? *write : *read));
  link.latency += duration_of(*part->figure("latency"));
  for (std::int64_t i = 0; i < count; ++i) {
    link.a = node.add({.kind = DeviceKind::kMemory,
                       .node = 0,
                       .index = static_cast<std::int32_t>(of_kind(node, DeviceKind::kMemory).size()),
                       .model = part->name,
                       .bus_id = {},
                       .port_rate = {}});
    link.b = cpus[static_cast<std::size_t>(i * static_cast<std::int64_t>(cpus.size()) / count)];
    node.connect(link);
  }
  return {};
}

// The node with links at a device of this kind slower by `latency`.
Topology delayed(const Topology& node, DeviceKind at, Duration latency, bool pcie_only) {
  return with_links(node, [&](Link link) {
    const bool there = node.device(link.a).kind == at || node.device(link.b).kind == at;
    if (there && (link.kind == LinkKind::kPcie || !pcie_only)) link.latency += latency;
    return link;
  });
}

Status apply_host_settings(const Catalog& catalog, const ClusterOptions& options, Topology& node) {
  const std::vector<DeviceId> cpus = of_kind(node, DeviceKind::kCpu);
  if (!options.iommu.empty()) {
    const Part* part = catalog.find("iommu-" + options.iommu);
    if (!part || !part->figure("latency")) return bad_input("iommu={}: there are off, pt, on", options.iommu);
    // Every DMA that crosses a root port is translated there; a path crosses two.
    node = delayed(node, DeviceKind::kCpu, duration_of(*part->figure("latency")) * 0.5, true);
  }
  if (!options.tlb.empty()) {
    const Part *part = catalog.find("gpu-tlb-" + options.tlb), *hit = catalog.find("gpu-tlb-hit");
    if (!part || !hit || !part->figure("latency") || !hit->figure("latency"))
      return bad_input("tlb={}: there are hit, miss", options.tlb);
    // Latencies of links were measured with hits. Whatever enters or leaves a GPU's memory is translated there.
    node = delayed(node, DeviceKind::kGpu, duration_of(*part->figure("latency")) - duration_of(*hit->figure("latency")),
                   false);
  }
  for (const DeviceId cpu : cpus) {
    if (!options.iommu.empty()) node.set_fact(cpu, "iommu", options.iommu);
    if (!options.acs.empty()) node.set_fact(cpu, "acs", options.acs);
    if (!options.p2p.empty()) node.set_fact(cpu, "p2p", options.p2p);
    if (!options.gdr.empty()) node.set_fact(cpu, "gdr", options.gdr);
    if (!options.peermem.empty()) node.set_fact(cpu, "peermem", options.peermem);
  }
  return {};
}

Status divisible(const Catalog& catalog, const Topology& node, std::int32_t instances) {
  bool any = false;
  for (const Device& d : node.devices()) {
    if (d.kind != DeviceKind::kGpu) continue;
    any = true;
    const Part* part = catalog.find(d.model);
    const Figure* most = part != nullptr ? part->figure("mig") : nullptr;
    if (most == nullptr) return bad_input("mig={}: {} has no MIG, as far as the catalogue knows", instances, d.model);
    if (instances > static_cast<std::int32_t>(most->value))
      return bad_input("mig={}: {} has at most {} instances", instances, d.model, most->value);
  }
  if (!any) return bad_input("mig={}: '{}' has no GPUs", instances, node.title);
  return {};
}

// The node with `instances` MIG instances instead of each GPU, each a device of its own: an instance has its GPU's PCIe
// link, which all instances of the GPU share, and no NVLink; instances do not reach each other's memory, neither over
// NVLink nor over PCIe nor within one GPU, so that messages between them cross host memory; NICs reach them as they
// reach the GPU. Their models name the slice, "1/7 of H100-SXM5", which no table of compute times has.
// Source: NVIDIA, Multi-Instance GPU User Guide, deployment considerations (2024-08): no P2P over NVLink or PCIe, no
// CUDA IPC across GPU instances, GPUDirect RDMA with them; RAPIDS, deployment guide, MIG (2024): through host memory.
// Errors (bad input): a GPU of the node cannot be divided into as many (figure "mig").
Result<Topology> with_mig(const Catalog& catalog, const Topology& node, std::int32_t instances) {
  WEFT_CHECK(divisible(catalog, node, instances));
  Topology shared;
  shared.title = node.title;
  shared.routing = node.routing;
  std::int32_t switches = 0;
  for (const Device& d : node.devices()) switches += d.kind == DeviceKind::kPcieSwitch ? 1 : 0;
  // The device where the links of an old one end: of a GPU a switch that stands for its PCIe port.
  std::vector<DeviceId> end(node.devices().size(), -1);
  std::vector<std::pair<DeviceId, DeviceId>> ports;  // the old GPU, its port
  for (DeviceId id = 0; id < static_cast<DeviceId>(node.devices().size()); ++id) {
    const Device& d = node.device(id);
    if (d.kind == DeviceKind::kNvSwitch) continue;
    if (d.kind != DeviceKind::kGpu) {
      end[static_cast<std::size_t>(id)] = shared.add(d);
      continue;
    }
    Device port{.kind = DeviceKind::kPcieSwitch,
                .node = d.node,
                .index = switches++,
                .model = {},
                .bus_id = {},
                .port_rate = {}};
    ports.emplace_back(id, end[static_cast<std::size_t>(id)] = shared.add(port));
  }
  for (const auto& [gpu, port] : ports) {
    Link inside{.kind = LinkKind::kPcie, .a = port, .b = 0, .rate_ab = {}, .rate_ba = {}, .latency = {}, .count = 1};
    for (const LinkId l : node.links_of(gpu))
      if (const Link& link = node.link(l); link.kind == LinkKind::kPcie)
        inside.rate_ab = inside.rate_ba = link.rate_ab, inside.count = link.count;
    if (!(inside.rate_ab > BytesPerSecond{}))
      return bad_input("mig={}: {} of '{}' has no PCIe link", instances, node.name_of(gpu), node.title);
    for (std::int32_t i = 0; i < instances; ++i) {
      Device share = node.device(gpu);
      share.index = share.index * instances + i;
      share.model = fmt::format("1/{} of {}", instances, share.model);
      inside.b = shared.add(share);
      shared.connect(inside);
    }
  }
  for (Link link : node.links()) {
    const bool scale_up = is_scale_up(link.kind) && (node.device(link.a).kind == DeviceKind::kGpu ||
                                                     node.device(link.b).kind == DeviceKind::kGpu);
    link.a = end[static_cast<std::size_t>(link.a)];
    link.b = end[static_cast<std::size_t>(link.b)];
    if (!scale_up && link.a >= 0 && link.b >= 0) shared.connect(link);
  }
  for (DeviceId id = 0; id < static_cast<DeviceId>(shared.devices().size()); ++id)
    if (shared.device(id).kind == DeviceKind::kCpu) shared.set_fact(id, "p2p", "loc");
  return shared;
}

}  // namespace

std::vector<DeviceId> of_kind(const Topology& topology, DeviceKind kind) {
  std::vector<DeviceId> found;
  for (DeviceId id = 0; id < static_cast<DeviceId>(topology.devices().size()); ++id)
    if (topology.device(id).kind == kind) found.push_back(id);
  return found;
}

Result<Topology> with_gpus(const Topology& node, std::int32_t gpus) {
  const std::vector<DeviceId> all = of_kind(node, DeviceKind::kGpu);
  const auto have = static_cast<std::int32_t>(all.size());
  if (gpus == 0 || gpus == have) return node;
  if (gpus > have) return bad_input("gpus={}: '{}' has {}", gpus, node.title, have);
  for (const Link& link : node.links())
    if (link.kind == LinkKind::kChipLink)
      return bad_input("gpus={}: the chips of '{}' pass traffic on for each other; shape=… makes fewer of them", gpus,
                       node.title);
  std::vector<bool> idle(node.devices().size());
  for (std::int32_t i = gpus; i < have; ++i) idle[static_cast<std::size_t>(all[static_cast<std::size_t>(i)])] = true;
  for (const DeviceId nic : of_kind(node, DeviceKind::kNic)) {
    const std::span<const LinkId> links = node.links_of(nic);
    idle[static_cast<std::size_t>(nic)] = !links.empty() && std::ranges::all_of(links, [&](LinkId l) {
      return idle[static_cast<std::size_t>(node.other_end(l, nic))];
    });
  }
  DeviceId id = 0;
  return without(node, [&](const Device&) { return idle[static_cast<std::size_t>(id++)]; });
}

Result<Topology> with_options(const Catalog& catalog, const Topology& original, const ClusterOptions& options,
                              const Part* network) {
  Topology node = original;
  if (options.nics > 0) {
    node = without(node, [](const Device& d) { return d.kind == DeviceKind::kNic; });
    WEFT_CHECK(add_nics(catalog, network, options.nics, options.nic_place, node));
  } else if (network && of_kind(node, DeviceKind::kNic).empty()) {
    WEFT_CHECK(add_nics(catalog, network, std::max(options.rails, 1), options.nic_place, node));
  }
  if (!options.nvlink.empty()) {
    WEFT_TRY(node, regenerate(catalog, node, LinkKind::kNvlink, options.nvlink));
  }
  if (!options.pcie.empty()) {
    WEFT_TRY(node, regenerate(catalog, node, LinkKind::kPcie, options.pcie));
  }
  WEFT_CHECK(apply_host_settings(catalog, options, node));
  for (std::string_view rest = options.memory; !rest.empty();) {
    const std::size_t plus = std::min(rest.find('+'), rest.size());
    WEFT_CHECK(add_memory(catalog, rest.substr(0, plus), node));
    rest.remove_prefix(std::min(rest.size(), plus + 1));
  }
  if (options.mig > 1) {
    if (options.mnnvl > 1)
      return bad_input("mig={}: instances have no NVLink for mnnvl={}", options.mig, options.mnnvl);
    if (!options.p2p.empty()) return bad_input("mig={}: instances have no P2P, whatever p2p= says", options.mig);
    WEFT_TRY(node, with_mig(catalog, node, options.mig));
  }
  if (options.mnnvl > 1) {
    WEFT_TRY(node, join_domains(node, options.mnnvl));
  }
  return node;
}

}  // namespace weft::topology
