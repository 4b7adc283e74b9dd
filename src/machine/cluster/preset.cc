#include "machine/cluster/preset.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "machine/cluster/wiring.h"
#include "machine/json_word.h"

namespace weft::topology {
namespace {

using nlohmann::json;

constexpr std::string_view kFolder = "data/presets/";
constexpr std::string_view kSuffix = ".json";
constexpr std::int64_t kMostDevices = 100'000;

std::optional<DeviceKind> device_kind(std::string_view text) {
  using enum DeviceKind;
  for (const DeviceKind kind : {kGpu, kCore, kCpu, kMemory, kPcieSwitch, kNvSwitch, kNic})
    if (name(kind) == text) return kind;
  return std::nullopt;
}

std::int64_t product(std::span<const std::int32_t> shape) {
  std::int64_t all = 1;
  for (const std::int32_t length : shape) all *= length;
  return all;
}

// How many times larger than the file says, as a fraction.
struct Scale {
  std::int64_t to = 1, from = 1;
};

Result<std::int32_t> count_of(std::string_view file, const json& entry, Scale scale) {
  const auto at = entry.find("count");
  if (at == entry.end() || !at->is_number_integer() || at->get<std::int64_t>() < 1 ||
      at->get<std::int64_t>() > kMostDevices)
    return bad_input("{}: {} has no count of 1 or more", file, entry.dump());
  // One switch of a domain stays one.
  const std::int64_t count = at->get<std::int64_t>();
  if (word(entry, "kind") == "nvswitch" || scale.to == scale.from) return static_cast<std::int32_t>(count);
  if (count * scale.to % scale.from != 0)
    return bad_input("{}: {} for every {} accelerators cannot be divided among {}", file, entry.dump(), scale.from,
                     scale.to);
  return static_cast<std::int32_t>(count * scale.to / scale.from);
}

Status add_devices(std::string_view file, const Catalog& catalog, const json& entry, Scale scale, Topology& node) {
  const auto kind = device_kind(word(entry, "kind"));
  if (!kind) return bad_input("{}: unknown device kind '{}'", file, word(entry, "kind"));
  WEFT_TRY(const std::int32_t count, count_of(file, entry, scale));
  const std::string model = word(entry, "part");
  const Part* part = catalog.find(model);
  if (*kind == DeviceKind::kGpu && (!part || part->kind != "accelerator"))
    return bad_input("{}: the catalogue has no accelerator '{}'", file, model);
  BytesPerSecond port_rate;
  if (*kind == DeviceKind::kNic) {
    const Figure* rate = part ? part->figure("rate") : nullptr;
    if (!rate) return bad_input("{}: the catalogue has no NIC '{}'", file, model);
    port_rate = rate_of(*rate);
  }
  Device device{.kind = *kind, .node = 0, .index = 0, .model = model, .bus_id = {}, .port_rate = port_rate};
  if (part && part->facts.contains("direct")) device.facts.set("direct", part->facts.at("direct"));
  for (; device.index < count; ++device.index) node.add(device);
  return {};
}

Result<std::vector<std::int32_t>> read_shape(std::string_view file, const json& root) {
  std::vector<std::int32_t> shape;
  for (const json& length : root.value("shape", json::array())) {
    if (!length.is_number_integer() || length.get<std::int64_t>() < 1 || length.get<std::int64_t>() > kMostDevices)
      return bad_input("{}: shape {} is not a list of lengths", file, root.at("shape").dump());
    shape.push_back(length.get<std::int32_t>());
  }
  return shape;
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

std::vector<std::string> other_names(const embedded::File& file) {
  const json root = json::parse(file.text, nullptr, false);
  std::vector<std::string> found;
  if (const auto names = root.find("names"); names != root.end() && names->is_array())
    for (const json& name : *names)
      if (name.is_string()) found.push_back(name);
  return found;
}

bool preset_is_called(const embedded::File& file, std::string_view name) {
  if (preset_name(file) == name) return true;
  const std::vector<std::string> names = other_names(file);
  return std::ranges::find(names, name) != names.end();
}

Result<Preset> read_preset(const Catalog& catalog, const embedded::File& file, std::span<const std::int32_t> shape) {
  const json root = json::parse(file.text, nullptr, false);
  if (!root.is_object() || word(root, "schema") != "weft.preset/1")
    return bad_input("{}: not a JSON object of schema weft.preset/1", file.path);
  Preset preset{.name = word(root, "name"),
                .summary = word(root, "summary"),
                .source = word(root, "source"),
                .date = word(root, "date"),
                .note = word(root, "note"),
                .network = word(root, "network"),
                .shape = {},
                .node = {}};
  if (preset.name != preset_name(file)) return bad_input("{}: its name is '{}'", file.path, preset.name);
  if (preset.summary.empty() || preset.source.empty() || preset.date.empty())
    return bad_input("{}: summary, source or date is missing", file.path);
  const Part* network = catalog.find(preset.network);
  if (!network || network->kind != "network") return bad_input("{}: unknown network '{}'", file.path, preset.network);

  WEFT_TRY(preset.shape, read_shape(file.path, root));
  Scale scale;
  if (!shape.empty()) {
    if (preset.shape.empty()) return bad_input("'{}' is no torus, grid or star: it takes no shape", preset.name);
    if (shape.size() != preset.shape.size())
      return bad_input("a shape of '{}' has {} numbers, as in {}", preset.name, preset.shape.size(),
                       fmt::join(preset.shape, "x"));
    scale = {product(shape), product(preset.shape)};
    if (scale.to > kMostDevices)
      return bad_input("shape={}: more than {} accelerators", fmt::join(shape, "x"), kMostDevices);
    preset.shape.assign(shape.begin(), shape.end());
  }
  for (const json& entry : root.value("devices", json::array()))
    WEFT_CHECK(add_devices(file.path, catalog, entry, scale, preset.node));
  for (const json& entry : root.value("links", json::array()))
    WEFT_CHECK(add_links(file.path, catalog, entry, preset.shape, preset.node));
  preset.node.title = preset.name;
  return preset;
}

}  // namespace weft::topology
