#include "topology/machine.h"

#include <filesystem>
#include <optional>
#include <set>

#include "base/embedded.h"
#include "base/text.h"
#include "topology/catalog/catalog.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/preset.h"
#include "topology/import/nccl_xml.h"
#include "topology/import/text_file.h"
#include "topology/topology_json.h"

namespace weft::topology {
namespace {

constexpr std::int64_t kMostNodes = 131'072;
constexpr std::string_view kOptions = "nodes, net, rails, oversub";

// "dgx-h100:nodes=2" to its two sides.
struct Spec {
  std::string_view base;
  std::string_view options;
};

bool is_file(std::string_view text) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(std::filesystem::path(text), ignored);
}

// A path may contain ':' and '='; the whole text is tried as a file first.
Spec split(std::string_view machine) {
  if (is_file(machine)) return {machine, {}};
  const std::size_t equals = machine.find('=');
  const std::size_t colon = equals == std::string_view::npos ? machine.find(':') : machine.rfind(':', equals);
  if (colon == std::string_view::npos) return {machine, {}};
  return {machine.substr(0, colon), machine.substr(colon + 1)};
}

Result<ClusterOptions> parse_options(std::string_view text) {
  ClusterOptions options;
  std::set<std::string_view> seen;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    if (!seen.insert(key).second) return bad_input("option '{}' is given twice", key);
    if (key == "net") {
      options.network = value;
      if (value.empty()) return bad_input("net= names no network");
      continue;
    }
    std::int32_t* target = key == "nodes"     ? &options.nodes
                           : key == "rails"   ? &options.rails
                           : key == "oversub" ? &options.oversub
                                              : nullptr;
    if (!target) return bad_input("unknown option '{}'; there are {}", key, kOptions);
    WEFT_TRY(const std::int64_t number, parse_integer(key, value, 1, kMostNodes));
    *target = static_cast<std::int32_t>(number);
  }
  return options;
}

// The node a MACHINE names, and the network that joins several of it unless another is named.
struct Base {
  Topology node;  // its title is the preset's name or the file's, without folders
  std::string network;
};

Result<Base> load_base(const Catalog& catalog, std::string_view name) {
  std::vector<std::string> names;
  for (const embedded::File& file : preset_files(embedded::files())) {
    names.push_back(preset_name(file));
    if (names.back() != name) continue;
    WEFT_TRY(Preset preset, read_preset(catalog, file));
    return Base{std::move(preset.node), std::move(preset.network)};
  }
  if (name.find('/') != std::string_view::npos || name.ends_with(".xml") || name.ends_with(".json") || is_file(name)) {
    const std::filesystem::path file(name);
    if (name.ends_with(".json")) {
      WEFT_TRY(const std::string text, read_text_file(file));
      WEFT_TRY(Topology whole, from_json(file.filename().string(), text));
      return Base{std::move(whole), {}};
    }
    WEFT_TRY(Topology node, import_nccl_xml(catalog, file));
    return Base{std::move(node), {}};
  }
  return bad_input("unknown machine '{}'; presets are {}; or give a file", name, fmt::join(names, ", "));
}

}  // namespace

Result<Topology> load_machine(std::string_view machine) {
  const Spec spec = split(machine);
  WEFT_TRY(const Catalog catalog, Catalog::load(embedded::files()));
  WEFT_TRY(Base base, load_base(catalog, spec.base));
  auto options = parse_options(spec.options);
  if (!options) return bad_input("'{}': {}", machine, options.error().message);
  if (options->nodes > 1 && options->network.empty()) options->network = base.network;
  if (base.node.nodes() > 1 && !spec.options.empty())
    return bad_input("'{}': the file is a cluster already; it takes no options", machine);
  auto cluster = build_cluster(catalog, base.node, *options);
  if (!cluster) return bad_input("'{}': {}", machine, cluster.error().message);
  if (!spec.options.empty()) cluster->title = fmt::format("{}:{}", base.node.title, spec.options);
  WEFT_CHECK(cluster->validate());
  return cluster;
}

std::vector<PresetInfo> presets() {
  std::vector<PresetInfo> infos;
  const auto catalog = Catalog::load(embedded::files());
  if (!catalog) return infos;
  for (const embedded::File& file : preset_files(embedded::files()))
    if (const auto preset = read_preset(*catalog, file))
      infos.push_back({preset->name, preset->summary, fmt::format("{} ({})", preset->source, preset->date)});
  return infos;
}

}  // namespace weft::topology
