#include <set>

#include "apps/cli/commands.h"
#include "apps/cli/some_bytes.h"
#include "apps/cli/terminal.h"
#include "base/counted.h"
#include "base/embedded.h"
#include "base/text.h"
#include "machine/catalog/catalog.h"
#include "machine/detect/record.h"
#include "machine/export/switch_tree.h"
#include "machine/findings.h"
#include "machine/import/nccl_xml_write.h"
#include "machine/peer_access.h"
#include "machine/render/heat_map.h"
#include "machine/render/matrix.h"
#include "machine/render/staircase.h"
#include "machine/render/svg.h"
#include "machine/topology_json.h"
#include "model/simulate/words.h"
#include "plan/cost/translation.h"

namespace weft::cli {
namespace {

struct Spec {
  std::string on, svg, heat, stairs, xml, slurm, kubernetes, json, record;
  std::vector<std::string> path;
  std::string transfer, working_set, pages = "4K";
  bool ats = false;
  bool matrix = false, links = false;
};

constexpr const char* kExamples = R"(
Without an option: a summary. The machine is a preset (weft catalog lists them), a preset with options, a file, or,
without --on, the one at hand. Files: NCCL topology XML (system or graph dump), nvidia-smi topo -m, rocm-smi --showtopo,
hwloc XML, weft JSON, a folder of --record; Slurm topology.conf, topology.yaml and ibnetdiscover with node=PRESET.

Options after a colon, separated by commas:
  nodes=N net=NETWORK rails=N oversub=N tiers=2|3 wires=rail|fat-tree|dragonfly|torus|switch dims=AxBxC
  and=PRESET*NODES (further nodes of another kind on the same network, e.g. dgx-h100:nodes=2,and=dgx-a100*2)
  gpus=N (of each node, the first ones: gpus=1 is one rank per node) nics=N at=cpu|switch|gpu
  nvlink=GENERATION pcie=GENERATION mnnvl=RACKS mig=INSTANCES shape=AxBxC (torus and grid presets)
  gpu=MODEL (of a file that does not say it) topology=NAME (of a topology.yaml that has several)
  sharp=on (the network's switches sum) iommu=off|pt|on acs=on|off peermem=on|off
  p2p=loc|nvl|pix|pxb|phb|sys gdr=… (how far GPUs reach each other, NICs reach GPUs: NCCL_P2P_LEVEL, NCCL_NET_GDR_LEVEL)
  routing=ecmp|shortest|adaptive seed=N pxn=on|off

Examples:
  weft topo                                                this machine
  weft topo --on dgx-h100 --matrix                         who reaches whom, as nvidia-smi topo -m prints it
  weft topo --on dgx-h100:nodes=2 --links                  the links that bench --fault can slow down
  weft topo --on dgx-h100:nodes=16,net=ib-ndr --svg h100.svg
  weft topo --on node.xml --json -                         an NCCL dump as weft.topology/1
  weft topo --on dgx-h100:acs=on --path gpu0 nic0          the way between two devices, and whether GPUDirect works
  weft topo --on gb200-nvl72:nodes=8 --heat heat.svg --stairs stairs.svg
  weft topo --on dgx-h100:nodes=64,tiers=3 --slurm topology.conf --kubernetes labels.yaml
  weft topo --record here && weft topo --on here
)";

void summarise(const topology::Topology& t) {
  std::map<std::string_view, int> devices, links;
  for (const auto& d : t.devices()) ++devices[topology::name(d.kind)];
  for (const auto& l : t.links()) ++links[topology::name(l.kind)];
  fmt::print("{}: {}, {}\n", t.title, counted(t.nodes(), "node"), counted(t.endpoints().size(), "rank"));
  for (const auto& [kind, n] : devices) fmt::print("  {:>7} {}\n", n, kind);
  for (const auto& [kind, n] : links) fmt::print("  {:>7} {} {}\n", n, kind, plural(n, "link"));
  for (const std::string& finding : topology::findings(t)) fmt::print("  note: {}\n", finding);
}

using topology::DeviceId;

// Every pair of devices with a link between them once, by the names that --fault and --load take.
void print_links(const topology::Topology& t) {
  std::set<std::pair<DeviceId, DeviceId>> seen;
  fmt::print("# {:<46} {:<8} {:>14} {:>14} {:>10}\n", "link", "kind", "rate", "back", "latency");
  for (const topology::Link& l : t.links())
    if (seen.emplace(l.a, l.b).second)
      fmt::print("link:{:<43} {:<8} {:>14} {:>14} {:>10}\n", fmt::format("{}-{}", t.name_of(l.a), t.name_of(l.b)),
                 topology::name(l.kind), format_rate(l.rate_ab), format_rate(l.rate_ba), format_duration(l.latency));
}

Result<DeviceId> device_named(const topology::Topology& t, const std::string& wanted) {
  if (const auto id = simulate::device_named(t, wanted)) return *id;
  return bad_input("--path {}: no such device; they are called as {}", wanted, t.name_of(t.endpoints().back()));
}

std::string hop_text(const topology::Topology& t, const topology::Hop& hop) {
  const topology::Link& l = t.link(hop.link);
  return fmt::format("{} -> {}  {} x{}, {}, {}", t.name_of(hop.forward ? l.a : l.b), t.name_of(hop.forward ? l.b : l.a),
                     topology::name(l.kind), l.count, format_rate(hop.forward ? l.rate_ab : l.rate_ba),
                     format_duration(l.latency));
}

// The way, its bottleneck, and for devices of one node whether they reach each other without the host.
Status print_path(const topology::Topology& t, const topology::Routes& routes, const std::vector<std::string>& ends) {
  WEFT_TRY(const DeviceId from, device_named(t, ends[0]));
  WEFT_TRY(const DeviceId to, device_named(t, ends[1]));
  const topology::Path path = routes.path(from, to);
  fmt::print("{} to {}: {}", ends[0], ends[1], topology::name(path.type));
  if (path.hops.empty()) {
    fmt::print("\n");
    return {};
  }
  fmt::print(", {}, {} in {}\n", format_rate(path.rate), format_duration(path.latency),
             counted(path.hops.size(), "hop"));
  const auto rate_of = [&](const topology::Hop& h) {
    return h.forward ? t.link(h.link).rate_ab : t.link(h.link).rate_ba;
  };
  const auto slowest = std::ranges::min_element(path.hops, {}, rate_of);
  for (auto hop = path.hops.begin(); hop != path.hops.end(); ++hop)
    fmt::print("  {}{}\n", hop_text(t, *hop), hop == slowest ? "  <- bottleneck" : "");
  const topology::Device &a = t.device(from), &b = t.device(to);
  const auto moves_data = [](const topology::Device& d) {
    return d.kind == topology::DeviceKind::kGpu || d.kind == topology::DeviceKind::kNic;
  };
  if (a.node < 0 || a.node != b.node || !moves_data(a) || !moves_data(b)) return {};
  const topology::PeerAccess access = topology::peer_access(t, from, to, routes.wire_path(from, to));
  const bool nic = a.kind == topology::DeviceKind::kNic || b.kind == topology::DeviceKind::kNic;
  fmt::print("{}: {}: {}\n", nic ? "GPUDirect RDMA" : "GPUDirect P2P",
             access.possible ? "yes" : "no, staged through host memory", access.why);
  return {};
}

// How long transfers over a path take where the IOMMU of its node translates addresses: quantiles.
Result<std::string> transfer_text(const Spec& spec, const topology::Topology& t, const topology::Routes& routes) {
  WEFT_TRY(const DeviceId from, device_named(t, spec.path[0]));
  WEFT_TRY(const DeviceId to, device_named(t, spec.path[1]));
  cost::Translated what{.ats = spec.ats};
  WEFT_TRY(what.bytes, some_bytes("--transfer", spec.transfer));
  if (!spec.working_set.empty()) {
    WEFT_TRY(what.working_set, some_bytes("--working-set", spec.working_set));
  }
  WEFT_TRY(what.page, some_bytes("--pages", spec.pages));
  if (what.page < 4096 || (what.page & (what.page - 1)) != 0)
    return bad_input("--pages {}: a power of two from 4K on", spec.pages);
  bool translates = false;
  for (const DeviceId cpu : t.devices_of(topology::DeviceKind::kCpu))
    translates |= t.device(cpu).node == t.device(from).node && t.device(cpu).facts.get("iommu") == "on";
  topology::Path path = routes.path(from, to);
  translates = translates && path.type != topology::PathType::kNvl;  // scale-up links do not pass the IOMMU
  const Duration charged = path.latency;
  if (translates) {
    WEFT_TRY(path.latency, cost::latency_untranslated(t, path));
  }
  if (path.hops.empty()) return bad_input("--transfer: no links from {} to {}", spec.path[0], spec.path[1]);
  WEFT_TRY(const cost::TransferTimes times, cost::transfer_times(path, what, translates));
  std::string text = fmt::format("a transfer of {}: p50 {}, p99 {}, p99.9 {}; without translation {}\n",
                                 format_bytes(what.bytes), format_duration(times.p50), format_duration(times.p99),
                                 format_duration(times.p999), format_duration(times.untranslated));
  if (!translates) return text + "  no IOMMU translates here; iommu=on does\n";
  text +=
      fmt::format("  {}, each misses {} with {:.3g} %, {} a walk\n", counted(times.pages, "page"),
                  spec.ats ? "the device's cache (ATS)" : "the IOTLB", times.miss * 100, format_duration(times.walk));
  if (charged != path.latency)
    text += fmt::format("  the way's {} hold {} for a translation, hit or miss; here each page hits or misses\n",
                        format_duration(charged), format_duration(charged - path.latency));
  return text;
}

// Records the files that probes read of this machine, NVIDIA's GPUs included.
Status record_this_machine(const std::string& folder) {
  topology::HostFacts facts = topology::read_sysfs("/");
  facts.gpus = topology::read_nvml();
  return topology::record(topology::ThisHost(), facts, folder);
}

Result<int> run(const Spec& spec) {
  if (!spec.record.empty()) {
    if (!spec.on.empty()) return bad_input("--record stores the machine at hand; it goes without --on");
    WEFT_CHECK(record_this_machine(spec.record));
    fmt::print("recorded in {}; use it as --on {}\n", spec.record, spec.record);
    return 0;
  }
  WEFT_TRY(const Machine machine, load_machine(spec.on));
  const topology::Topology& t = machine.view->topology();
  bool shown = false;
  const auto write = [&](const std::string& file, const auto& make) -> Status {
    if (file.empty()) return {};
    shown = true;
    Result<std::string> text = make();
    if (!text) return tl::make_unexpected(text.error());
    return write_text(file, *text);
  };
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  if (spec.links) print_links(t);
  if (spec.matrix) fmt::print("{}", in_column_blocks(topology::matrix_text(t), terminal_width()));
  if (spec.transfer.empty() && (!spec.working_set.empty() || spec.pages != "4K" || spec.ats))
    return bad_input("--working-set, --pages, --ats: go with --transfer BYTES");
  if (!spec.transfer.empty() && spec.path.empty()) return bad_input("--transfer {}: goes with --path", spec.transfer);
  std::string transfer;
  if (!spec.transfer.empty()) {
    WEFT_TRY(transfer, transfer_text(spec, t, machine.view->routes()));
  }
  if (!spec.path.empty()) WEFT_CHECK(print_path(t, machine.view->routes(), spec.path));
  fmt::print("{}", transfer);
  WEFT_CHECK(write(spec.svg, [&]() -> Result<std::string> { return topology::svg(t); }));
  WEFT_CHECK(write(spec.heat, [&]() -> Result<std::string> { return topology::heat_map_svg(t); }));
  WEFT_CHECK(write(spec.stairs, [&]() -> Result<std::string> { return topology::staircase_svg(catalog, t); }));
  WEFT_CHECK(write(spec.xml, [&] { return topology::to_nccl_xml(catalog, t, 0); }));
  WEFT_CHECK(write(spec.slurm, [&] { return topology::to_slurm(t); }));
  WEFT_CHECK(write(spec.kubernetes, [&] { return topology::to_kubernetes(t); }));
  WEFT_CHECK(write(spec.json, [&]() -> Result<std::string> { return topology::to_json(t) + "\n"; }));
  if (!spec.matrix && !spec.links && spec.path.empty() && !shown) summarise(t);
  return 0;
}

Result<nlohmann::json> answer(const Spec& spec) {
  WEFT_TRY(const Machine machine, load_machine(spec.on));
  return nlohmann::json::parse(topology::to_json(machine.view->topology()));
}

Result<std::string> picture(const Spec& spec) {
  WEFT_TRY(const Machine machine, load_machine(spec.on));
  const topology::Topology& t = machine.view->topology();
  if (!spec.heat.empty()) return topology::heat_map_svg(t);
  if (spec.stairs.empty()) return topology::svg(t);
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  return topology::staircase_svg(catalog, t);
}

}  // namespace

Command add_topo(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("topo", "Show a machine: summary, matrix, picture, or file");
  sub->add_option("--on", spec->on, "a preset, a preset with options, or a file (default: this machine)");
  sub->add_flag("--links", spec->links,
                "print every link by the name that bench --fault and --load take, and its rates");
  sub->add_flag("--matrix", spec->matrix, "print the matrix of path types");
  sub->add_option("--svg", spec->svg, "draw it into this file")->check(writable);
  sub->add_option("--heat", spec->heat, "draw the rates between all devices as a heat map")->check(writable);
  sub->add_option("--stairs", spec->stairs, "draw the rates from GPU memory to the spine on a logarithmic scale")
      ->check(writable);
  sub->add_option("--path", spec->path, "print the way between two devices, e.g. --path gpu0 node1/nic3")->expected(2);
  sub->add_option("--transfer", spec->transfer, "with --path: how long transfers of this size take, p50 to p99.9");
  sub->add_option("--working-set", spec->working_set,
                  "with --transfer: all memory that the device's transfers touch (default: one buffer)");
  sub->add_option("--pages", spec->pages, "with --transfer: the page size of the IOMMU's table")->capture_default_str();
  sub->add_flag("--ats", spec->ats, "with --transfer: the device asks by ATS and caches translations itself");
  sub->add_option("--slurm", spec->slurm, "write Slurm's topology.conf of a cluster")->check(writable);
  sub->add_option("--kubernetes", spec->kubernetes, "write Kubernetes nodes with topology labels")->check(writable);
  sub->add_option("--record", spec->record, "store what was read of this machine in this folder")
      ->check(writable_folder);
  sub->add_option("--xml", spec->xml, "write NCCL topology XML of its first node")->check(writable);
  sub->add_option("--json", spec->json, "write weft.topology/1 to this file; - is stdout")->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }, [spec] { return answer(*spec); }, [spec] { return picture(*spec); }};
}

}  // namespace weft::cli
