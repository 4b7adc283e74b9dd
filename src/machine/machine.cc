#include "machine/machine.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>

#include "base/embedded.h"
#include "base/nearest_words.h"
#include "base/text.h"
#include "base/text_file.h"
#include "machine/catalog/catalog.h"
#include "machine/catalog/switches.h"
#include "machine/cluster/cluster.h"
#include "machine/cluster/node_options.h"
#include "machine/cluster/preset.h"
#include "machine/import/machine_file.h"
#include "machine/import/text_lines.h"

namespace weft::topology {
namespace {

constexpr std::int64_t kMostNodes = 131'072;
constexpr std::string_view kOptions =
    "nodes, net, rails, oversub, tiers, wires, dims, nics, at, gpus, nvlink, pcie, mnnvl, shape, sharp, memory, iommu, "
    "tlb, "
    "acs, peermem, p2p, gdr, routing, seed, pxn, and, node, gpu, topology";

// "dgx-h100:nodes=2" to its two sides.
struct Spec {
  std::string_view base;
  std::string_view options;
};

// A path may contain ':' and '='; the whole text is tried as a file first.
Spec split(std::string_view machine) {
  if (file_exists(std::filesystem::path(machine))) return {machine, {}};
  const std::size_t equals = machine.find('=');
  const std::size_t colon = equals == std::string_view::npos ? machine.find(':') : machine.rfind(':', equals);
  if (colon == std::string_view::npos) return {machine, {}};
  return {machine.substr(0, colon), machine.substr(colon + 1)};
}

// The options behind the colon of a MACHINE.
struct Options {
  ClusterOptions cluster;
  std::vector<std::int32_t> shape;
  Routing routing;
  std::string node;   // preset of every host in a file that names hosts only
  std::string gpu;    // model of the GPUs in a file that does not say it
  std::string other;  // preset of further nodes
  std::int32_t others = 0;
  std::string topology;   // of a Slurm topology.yaml, which may have several
  bool only_gpu = false;  // there is no other option
};

template <class T>
Result<T> one_of(std::string_view key, std::string_view value, std::span<const std::pair<std::string_view, T>> words) {
  std::string all;
  for (const auto& [word, meaning] : words) {
    if (word == value) return meaning;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", word);
  }
  return bad_input("{}={}: there are {}", key, value, all);
}

// "4x4x2".
Result<std::vector<std::int32_t>> parse_lengths(std::string_view key, std::string_view value) {
  std::vector<std::int32_t> lengths;
  while (true) {
    const std::size_t x = value.find('x');
    WEFT_TRY(const std::int64_t length, parse_integer(key, value.substr(0, x), 1, kMostNodes));
    lengths.push_back(static_cast<std::int32_t>(length));
    if (x == std::string_view::npos) return lengths;
    value.remove_prefix(x + 1);
  }
}

Status set_option(std::string_view key, std::string_view value, Options& options) {
  ClusterOptions& c = options.cluster;
  using Switch = std::pair<std::string_view, bool>;
  static constexpr Switch kSwitch[] = {{"on", true}, {"off", false}};
  static constexpr std::pair<std::string_view, Wires> kWires[] = {
      {"switch", Wires::kSwitch},       {"rail", Wires::kRails},  {"fat-tree", Wires::kFatTree},
      {"dragonfly", Wires::kDragonfly}, {"torus", Wires::kTorus}, {"auto", Wires::kAuto}};
  static constexpr std::pair<std::string_view, NicPlace> kPlaces[] = {
      {"cpu", NicPlace::kCpu}, {"switch", NicPlace::kSwitch}, {"gpu", NicPlace::kGpu}};
  static constexpr std::pair<std::string_view, Routing::Policy> kPolicies[] = {
      {"ecmp", Routing::Policy::kEcmp},
      {"shortest", Routing::Policy::kShortest},
      {"adaptive", Routing::Policy::kAdaptive}};
  for (const auto& [name, text] :
       {std::pair("net", &c.network), std::pair("nvlink", &c.nvlink), std::pair("pcie", &c.pcie),
        std::pair("memory", &c.memory), std::pair("iommu", &c.iommu), std::pair("tlb", &c.tlb),
        std::pair("node", &options.node), std::pair("gpu", &options.gpu), std::pair("topology", &options.topology)})
    if (key == name) {
      if (value.empty()) return bad_input("{}= names nothing", key);
      *text = key == "net" ? lower(value) : std::string(value);
      return {};
    }
  for (const auto& [name, number, most] :
       {std::tuple("nodes", &c.nodes, kMostNodes), std::tuple("rails", &c.rails, kMostNodes),
        std::tuple("nics", &c.nics, std::int64_t{1024}), std::tuple("gpus", &c.gpus, std::int64_t{1024}),
        std::tuple("mig", &c.mig, std::int64_t{7}), std::tuple("mnnvl", &c.mnnvl, std::int64_t{64})})
    if (key == name) {
      WEFT_TRY(const std::int64_t parsed, parse_integer(key, value, 1, most));
      *number = static_cast<std::int32_t>(parsed);
      return {};
    }
  if (key == "oversub") {
    WEFT_TRY(const std::vector<std::int32_t> ratios, parse_lengths(key, value));
    if (ratios.size() > 2) return bad_input("oversub={}: of leaves and of spines, e.g. 2 or 2x4", value);
    c.oversub = ratios[0];
    if (ratios.size() == 2) c.spine_oversub = ratios[1];
  } else if (key == "tiers") {
    WEFT_TRY(const std::int64_t tiers, parse_integer(key, value, 2, 3));
    c.tiers = static_cast<std::int32_t>(tiers);
  } else if (key == "wires") {
    WEFT_TRY(c.wires, one_of<Wires>(key, value, kWires));
  } else if (key == "at") {
    WEFT_TRY(c.nic_place, one_of<NicPlace>(key, value, kPlaces));
  } else if (key == "dims") {
    WEFT_TRY(c.dims, parse_lengths(key, value));
  } else if (key == "shape") {
    WEFT_TRY(options.shape, parse_lengths(key, value));
  } else if (key == "acs" || key == "peermem") {
    WEFT_CHECK(one_of<bool>(key, value, kSwitch));
    (key == "acs" ? c.acs : c.peermem) = value;
  } else if (key == "p2p" || key == "gdr") {
    static constexpr std::pair<std::string_view, std::string_view> kLevels[] = {
        {"loc", "loc"}, {"nvl", "nvl"}, {"pix", "pix"}, {"pxb", "pxb"}, {"phb", "phb"}, {"sys", "sys"}};
    WEFT_TRY((key == "p2p" ? c.p2p : c.gdr), one_of<std::string_view>(key, lower(value), kLevels));
  } else if (key == "sharp") {
    WEFT_TRY(c.sharp, one_of<bool>(key, value, kSwitch));
  } else if (key == "routing") {
    WEFT_TRY(options.routing.policy, one_of<Routing::Policy>(key, value, kPolicies));
  } else if (key == "seed") {
    WEFT_TRY(const std::int64_t seed, parse_integer(key, value, 0, INT64_MAX));
    options.routing.seed = static_cast<std::uint64_t>(seed);
  } else if (key == "and") {
    const std::size_t star = value.find('*');
    options.other = value.substr(0, star);
    if (options.other.empty()) return bad_input("and=PRESET*NODES: further nodes, e.g. and=dgx-a100*2");
    WEFT_TRY(const std::int64_t count,
             parse_integer("the nodes of and=", star == value.npos ? "1" : value.substr(star + 1), 1, kMostNodes));
    options.others = static_cast<std::int32_t>(count);
  } else if (key == "pxn") {
    WEFT_TRY(options.routing.pxn, one_of<bool>(key, value, kSwitch));
  } else {
    return bad_input("unknown option '{}'; there are {}", key, kOptions);
  }
  return {};
}

Result<Options> parse_options(std::string_view text) {
  Options options;
  std::set<std::string_view> seen;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    if (!seen.insert(key).second) return bad_input("option '{}' is given twice", key);
    WEFT_CHECK(
        set_option(key, equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1), options));
  }
  // Options that a file of hosts and switches states itself, and those of one node, would be ignored.
  static constexpr std::array<std::string_view, 8> kWithNode = {"node",     "net",     "oversub", "gpus",
                                                                "topology", "routing", "seed",    "pxn"};
  for (const std::string_view key : seen)
    if (!options.node.empty() && std::ranges::find(kWithNode, key) == kWithNode.end())
      return bad_input("'{}' is not taken beside node=; there are {}", key, fmt::join(kWithNode, ", "));
  if (options.cluster.spine_oversub > 1 && options.cluster.tiers != 3)
    return bad_input("oversub={}x{}: spines have links up with tiers=3 only", options.cluster.oversub,
                     options.cluster.spine_oversub);
  options.only_gpu = seen.size() == 1 && !options.gpu.empty();
  return options;
}

// Errors (bad input): no such model; GPUs that have another.
Status name_gpus(const Catalog& catalog, Topology& machine, const std::string& model) {
  if (model.empty()) return {};
  const Part* part = catalog.find(model);
  if (part == nullptr || part->kind != "accelerator") {
    std::vector<std::string> models;
    for (const Part& p : catalog.parts())
      if (p.kind == "accelerator") models.push_back(p.name);
    return bad_input("gpu={}: there are {}", model, fmt::join(models, ", "));
  }
  for (const DeviceId gpu : machine.devices_of(DeviceKind::kGpu)) {
    const std::string& known = machine.device(gpu).model;
    if (!known.empty() && known != model) return bad_input("gpu={}: {} is {}", model, machine.name_of(gpu), known);
    machine.set_model(gpu, model);
  }
  return {};
}

// The node a MACHINE names, and the network that joins several of it unless another is named.
struct Base {
  Topology node;  // its title is the preset's name or the file's, without folders
  std::string network;
};

// "dgx_h100" to "dgx-h100".
std::string dashed(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

Result<Base> load_preset(const Catalog& catalog, std::string_view name, std::span<const std::int32_t> shape) {
  std::vector<std::string> names;
  for (const embedded::File& file : preset_files(embedded::files())) {
    names.push_back(preset_name(file));
    if (!preset_is_called(file, lower(name)) && !preset_is_called(file, dashed(lower(name)))) continue;
    WEFT_TRY(Preset preset, read_preset(catalog, file, shape));
    return Base{std::move(preset.node), std::move(preset.network)};
  }
  std::vector<std::string> longer;  // a name that is only begun, such as "dgx"
  std::ranges::copy_if(names, std::back_inserter(longer),
                       [begin = dashed(lower(name))](const std::string& n) { return n.starts_with(begin); });
  if (!name.empty() && longer.size() > 1)
    return bad_input("unknown machine '{}'; there are {}; or give a file", name, fmt::join(longer, ", "));
  if (const std::string near = did_you_mean(name, names); !near.empty())
    return bad_input("unknown machine '{}'; {}weft catalog lists the presets; or give a file", name, near);
  return bad_input("unknown machine '{}'; presets are {}; or give a file", name, fmt::join(names, ", "));
}

// A preset's name means the preset, whatever lies in the working directory. Capitals do not matter: DGX-H100.
bool looks_like_file(std::string_view name) {
  for (const embedded::File& file : preset_files(embedded::files()))
    if (preset_name(file) == lower(name) ||
        (preset_is_called(file, lower(name)) && !file_exists(std::filesystem::path(name))))
      return false;
  return name.find('/') != std::string_view::npos || name.find('.') != std::string_view::npos ||
         file_exists(std::filesystem::path(name));
}

Result<Base> load_base(const Catalog& catalog, std::string_view name, const Options& options,
                       const FileReader& reader) {
  if (!looks_like_file(name)) {
    if (!options.node.empty())
      return bad_input("node={}: only a file of switches and hosts takes it; a preset has nodes=2", options.node);
    if (!options.gpu.empty()) return bad_input("gpu={}: only a file takes it; a preset knows its GPUs", options.gpu);
    if (!options.topology.empty())
      return bad_input("topology={}: only Slurm's topology.yaml has several topologies", options.topology);
    return load_preset(catalog, name, options.shape);
  }
  if (!options.shape.empty()) return bad_input("'{}' is a file: it takes no shape", name);
  if (reader) {
    WEFT_TRY(std::optional<Topology> known, reader(std::filesystem::path(name)));
    if (known) {
      WEFT_CHECK(name_gpus(catalog, *known, options.gpu));
      return Base{*std::move(known), {}};
    }
  }
  WEFT_TRY(MachineFile file, read_machine_file(catalog, std::filesystem::path(name), options.topology));
  if (file.machine) {
    if (!options.node.empty())
      return bad_input("node={}: only a file of switches and hosts takes it; this one has GPUs", options.node);
    WEFT_CHECK(name_gpus(catalog, *file.machine, options.gpu));
    return Base{*std::move(file.machine), {}};
  }
  const std::string title = std::filesystem::path(name).filename().string();
  if (options.node.empty())
    return bad_input("'{}' names hosts and switches; say what a host is: {}:node=PRESET", title, title);
  WEFT_TRY(Base host, load_preset(catalog, options.node, {}));
  WEFT_TRY(host.node, with_gpus(host.node, options.cluster.gpus));
  const std::string& wanted = options.cluster.network;
  const std::string network = !wanted.empty() ? wanted : !file.network.empty() ? file.network : host.network;
  WEFT_TRY(Topology cluster, cluster_of(catalog, *file.tree, host.node, network, options.cluster.oversub));
  cluster.title = title;
  return Base{std::move(cluster), {}};
}

}  // namespace

Result<Topology> load_machine(std::string_view machine, const FileReader& reader) {
  const Spec spec = split(machine);
  WEFT_TRY(const Catalog catalog, Catalog::shipped());
  auto options = parse_options(spec.options);
  if (!options) return bad_input("'{}': {}", machine, options.error().message);
  WEFT_TRY(Base base, load_base(catalog, spec.base, *options, reader));
  base.node.title = shown(base.node.title);
  describe_scale_up_switches(catalog, base.node);
  ClusterOptions& wanted = options->cluster;
  if ((wanted.nodes > 1 || wanted.nics > 0) && wanted.network.empty()) wanted.network = base.network;
  if (base.node.nodes() > 1 && !spec.options.empty() && !options->only_gpu && options->node.empty())
    return bad_input("'{}': the file is a cluster already; it takes no options", machine);
  if (spec.options.empty() || options->only_gpu || !options->node.empty()) {
    base.node.routing = options->routing;
    WEFT_CHECK(base.node.validate());
    return std::move(base.node);
  }
  std::vector<OtherNodes> others;
  if (options->others > 0) {
    WEFT_TRY(Base other, load_preset(catalog, options->other, {}));
    others.push_back({std::move(other.node), options->others});
    describe_scale_up_switches(catalog, others[0].node);
    if (wanted.network.empty()) wanted.network = base.network;
  }
  auto cluster = build_cluster(catalog, base.node, wanted, others);
  if (!cluster) return bad_input("'{}': {}", machine, cluster.error().message);
  describe_scale_up_switches(catalog, *cluster);  // a second level of them may be new
  cluster->routing = options->routing;
  cluster->title = fmt::format("{}:{}", base.node.title, spec.options);
  WEFT_CHECK(cluster->validate());
  return cluster;
}

std::vector<PresetInfo> presets() {
  std::vector<PresetInfo> infos;
  const auto& catalog = Catalog::shipped();
  if (!catalog) return infos;
  for (const embedded::File& file : preset_files(embedded::files()))
    if (const auto preset = read_preset(*catalog, file))
      infos.push_back(
          {preset->name, preset->summary, fmt::format("{} ({})", preset->source, preset->date), preset->note});
  return infos;
}

}  // namespace weft::topology
