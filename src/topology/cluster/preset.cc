#include "topology/cluster/preset.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace weft::topology {
namespace {

using nlohmann::json;

constexpr std::string_view kFolder = "data/presets/";
constexpr std::string_view kSuffix = ".json";
constexpr std::int64_t kMostDevices = 100'000;

std::string word(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

Result<std::int32_t> count_of(std::string_view file, const json& object) {
  const auto at = object.find("count");
  if (at == object.end() || !at->is_number_integer() || at->get<std::int64_t>() < 1 ||
      at->get<std::int64_t>() > kMostDevices)
    return bad_input("{}: {} has no count of 1 or more", file, object.dump());
  return at->get<std::int32_t>();
}

std::optional<DeviceKind> device_kind(std::string_view text) {
  using enum DeviceKind;
  for (const DeviceKind kind : {kGpu, kCore, kCpu, kMemory, kPcieSwitch, kNvSwitch, kNic})
    if (name(kind) == text) return kind;
  return std::nullopt;
}

Status add_devices(std::string_view file, const Catalog& catalog, const json& entry, Topology& node) {
  const auto kind = device_kind(word(entry, "kind"));
  if (!kind) return bad_input("{}: unknown device kind '{}'", file, word(entry, "kind"));
  WEFT_TRY(const std::int32_t count, count_of(file, entry));
  const std::string model = word(entry, "part");
  BytesPerSecond port_rate;
  if (*kind == DeviceKind::kNic) {
    const Part* part = catalog.find(model);
    const Figure* rate = part ? part->figure("rate") : nullptr;
    if (!rate) return bad_input("{}: the catalogue has no NIC '{}'", file, model);
    port_rate = rate_of(*rate);
  }
  for (std::int32_t i = 0; i < count; ++i)
    node.add({.kind = *kind, .node = 0, .index = i, .model = model, .bus_id = {}, .port_rate = port_rate});
  return {};
}

// "gpu*" or "gpu3" to devices.
Result<std::vector<DeviceId>> select(std::string_view file, const Topology& node, std::string_view text) {
  std::vector<DeviceId> found;
  for (DeviceId id = 0; id < static_cast<DeviceId>(node.devices().size()); ++id)
    if (node.name_of(id) == text || fmt::format("{}*", name(node.device(id).kind)) == text) found.push_back(id);
  if (found.empty()) return bad_input("{}: '{}' selects no device", file, text);
  return found;
}

Status connect(const Catalog& catalog, const json& entry, std::int32_t count, DeviceId a, DeviceId b, Topology& node) {
  const bool at_host = node.device(a).kind == DeviceKind::kCpu || node.device(b).kind == DeviceKind::kCpu;
  WEFT_TRY(Link link, catalog.link(word(entry, "part"), count, at_host));
  link.a = a;
  link.b = b;
  node.connect(link);
  return {};
}

Status add_links(std::string_view file, const Catalog& catalog, const json& entry, Topology& node) {
  WEFT_TRY(const std::int32_t count, count_of(file, entry));
  if (entry.contains("mesh")) {
    WEFT_TRY(const auto all, select(file, node, word(entry, "mesh")));
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = i + 1; j < all.size(); ++j) WEFT_CHECK(connect(catalog, entry, count, all[i], all[j], node));
    return {};
  }
  WEFT_TRY(const auto from, select(file, node, word(entry, "from")));
  WEFT_TRY(const auto to, select(file, node, word(entry, "to")));
  for (std::size_t i = 0; i < from.size(); ++i) {
    const DeviceId target = to[i * to.size() / from.size()];
    if (target == from[i]) return bad_input("{}: {} links a device to itself", file, entry.dump());
    WEFT_CHECK(connect(catalog, entry, count, from[i], target, node));
  }
  return {};
}

}  // namespace

std::vector<embedded::File> preset_files(std::span<const embedded::File> files) {
  std::vector<embedded::File> found;
  for (const embedded::File& file : files)
    if (file.path.starts_with(kFolder) && file.path.ends_with(kSuffix)) found.push_back(file);
  std::ranges::sort(found, {}, &embedded::File::path);
  return found;
}

std::string preset_name(const embedded::File& file) {
  std::string_view name = file.path;
  name.remove_prefix(kFolder.size());
  name.remove_suffix(kSuffix.size());
  return std::string(name);
}

Result<Preset> read_preset(const Catalog& catalog, const embedded::File& file) {
  const json root = json::parse(file.text, nullptr, false);
  if (!root.is_object() || word(root, "schema") != "weft.preset/1")
    return bad_input("{}: not a JSON object of schema weft.preset/1", file.path);
  Preset preset{word(root, "name"), word(root, "summary"), word(root, "source"),
                word(root, "date"), word(root, "network"), {}};
  if (preset.name != preset_name(file)) return bad_input("{}: its name is '{}'", file.path, preset.name);
  if (preset.summary.empty() || preset.source.empty() || preset.date.empty())
    return bad_input("{}: summary, source or date is missing", file.path);
  const Part* network = catalog.find(preset.network);
  if (!network || network->kind != "network") return bad_input("{}: unknown network '{}'", file.path, preset.network);
  for (const json& entry : root.value("devices", json::array()))
    WEFT_CHECK(add_devices(file.path, catalog, entry, preset.node));
  for (const json& entry : root.value("links", json::array()))
    WEFT_CHECK(add_links(file.path, catalog, entry, preset.node));
  preset.node.title = preset.name;
  return preset;
}

}  // namespace weft::topology
