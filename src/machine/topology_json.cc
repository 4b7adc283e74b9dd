#include "machine/topology_json.h"
#include "base/json_text.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

namespace weft::topology {
namespace {

using nlohmann::json;

constexpr std::string_view kSchema = "weft.topology/1";

constexpr std::array kDeviceKinds = {DeviceKind::kGpu,    DeviceKind::kCore,         DeviceKind::kCpu,
                                     DeviceKind::kMemory, DeviceKind::kPcieSwitch,   DeviceKind::kNvSwitch,
                                     DeviceKind::kNic,    DeviceKind::kNetworkSwitch};
constexpr std::array kLinkKinds = {LinkKind::kNvlink,      LinkKind::kXgmi,   LinkKind::kChipLink, LinkKind::kPcie,
                                   LinkKind::kInterSocket, LinkKind::kMemory, LinkKind::kNetwork};

template <class Kind, std::size_t kCount>
std::optional<Kind> kind_named(const std::array<Kind, kCount>& kinds, std::string_view text) {
  const auto at = std::ranges::find_if(kinds, [&](Kind k) { return name(k) == text; });
  return at == kinds.end() ? std::nullopt : std::optional(*at);
}

// Reads the members of one device or link; the first thing wrong is kept.
class Reader {
 public:
  Reader(std::string where, const json& object) : where_(std::move(where)), object_(object) {}

  std::string word(const char* key) {
    const auto at = object_.find(key);
    if (at == object_.end()) return {};
    if (at->is_string()) return at->get<std::string>();
    complain(key, "is not a text");
    return {};
  }
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high, std::int64_t fallback) {
    const auto at = object_.find(key);
    if (at == object_.end()) return fallback;
    const bool fits = at->is_number_integer() && (!at->is_number_unsigned() || at->get<std::uint64_t>() <= INT64_MAX);
    const std::int64_t value = fits ? at->get<std::int64_t>() : low - 1;
    if (fits && value >= low && value <= high) return value;
    complain(key, fmt::format("is not a whole number in {} … {}", low, high));
    return fallback;
  }
  BytesPerSecond rate(const char* key) {
    const auto at = object_.find(key);
    if (at == object_.end()) return {};
    if (at->is_number() && at->get<double>() >= 0) return BytesPerSecond(at->get<double>());
    complain(key, "is not a rate");
    return {};
  }
  void complain(std::string_view key, std::string_view what) {
    if (problem_.empty()) problem_ = fmt::format("{}: {} {}", where_, key, what);
  }
  Status status() const {
    if (!problem_.empty()) return bad_input("{}", problem_);
    return {};
  }

 private:
  std::string where_;
  const json& object_;
  std::string problem_;
};

Result<Device> read_device(std::string where, const json& object, std::int64_t most_nodes) {
  Reader reader(std::move(where), object);
  const auto kind = kind_named(kDeviceKinds, reader.word("kind"));
  if (!kind) reader.complain("kind", "is unknown");
  Device device{.kind = kind.value_or(DeviceKind::kGpu),
                .node = static_cast<std::int32_t>(reader.integer("node", -1, most_nodes, -1)),
                .index = static_cast<std::int32_t>(reader.integer("index", 0, INT32_MAX, 0)),
                .model = reader.word("model"),
                .bus_id = reader.word("bus_id"),
                .port_rate = reader.rate("port_rate")};
  if (const auto facts = object.find("facts"); facts != object.end()) {
    for (const auto& [key, value] : facts->items()) {
      if (value.is_string())
        device.facts.set(key, value.get<std::string>());
      else
        reader.complain("facts", "holds something that is not a text");
    }
  }
  if ((device.node < 0) != (device.kind == DeviceKind::kNetworkSwitch))
    reader.complain("node", "is -1 for network switches and for nothing else");
  WEFT_CHECK(reader.status());
  return device;
}

Result<Routing> read_routing(std::string_view file, const json& object) {
  Reader reader(fmt::format("{}: routing", file), object);
  const auto policy = policy_named(reader.word("policy"));
  if (!policy) reader.complain("policy", "is unknown");
  const std::int64_t seed = reader.integer("seed", 0, INT64_MAX, 0);
  WEFT_CHECK(reader.status());
  const json pxn = object.value("pxn", json(false));
  return Routing{.policy = policy.value_or(Routing::Policy::kEcmp),
                 .seed = static_cast<std::uint64_t>(seed),
                 .pxn = pxn.is_boolean() && pxn.get<bool>()};
}

Result<Link> read_link(std::string where, const json& object, std::int64_t devices) {
  Reader reader(std::move(where), object);
  const auto kind = kind_named(kLinkKinds, reader.word("kind"));
  if (!kind) reader.complain("kind", "is unknown");
  Link link{.kind = kind.value_or(LinkKind::kPcie),
            .a = static_cast<DeviceId>(reader.integer("a", 0, devices - 1, 0)),
            .b = static_cast<DeviceId>(reader.integer("b", 0, devices - 1, 0)),
            .rate_ab = reader.rate("rate_ab"),
            .rate_ba = reader.rate("rate_ba"),
            .latency = Duration::picoseconds(reader.integer("latency_ps", 0, INT64_MAX, 0)),
            .count = static_cast<std::int32_t>(reader.integer("count", 1, INT32_MAX, 1))};
  if (link.a == link.b) reader.complain("b", "is the device the link starts at");
  WEFT_CHECK(reader.status());
  return link;
}

}  // namespace

std::string to_json(const Topology& topology) {
  json devices = json::array(), links = json::array();
  for (const Device& d : topology.devices()) {
    json object = {{"kind", name(d.kind)}, {"node", d.node}, {"index", d.index}};
    if (!d.model.empty()) object["model"] = d.model;
    if (!d.bus_id.empty()) object["bus_id"] = d.bus_id;
    if (d.port_rate.value() > 0) object["port_rate"] = d.port_rate.value();
    for (const auto& [key, value] : d.facts) object["facts"][key] = value;
    devices.push_back(std::move(object));
  }
  for (const Link& l : topology.links())
    links.push_back({{"kind", name(l.kind)},
                     {"a", l.a},
                     {"b", l.b},
                     {"rate_ab", l.rate_ab.value()},
                     {"rate_ba", l.rate_ba.value()},
                     {"latency_ps", l.latency.ps()},
                     {"count", l.count}});
  json root = {
      {"schema", kSchema}, {"title", topology.title}, {"devices", std::move(devices)}, {"links", std::move(links)}};
  if (topology.routing != Routing{})
    root["routing"] = {
        {"policy", name(topology.routing.policy)}, {"seed", topology.routing.seed}, {"pxn", topology.routing.pxn}};
  // Titles and models may come from files in any encoding.
  return root.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Topology> from_json(std::string_view name, std::string_view text) {
  WEFT_TRY(const json root, parse_json(name, text));
  if (!root.is_object() || root.value("schema", json()) != kSchema)
    return bad_input("{}: schema is not {}", name, kSchema);
  const json devices = root.value("devices", json()), links = root.value("links", json());
  if (!devices.is_array() || !links.is_array()) return bad_input("{}: devices or links is not a list", name);
  Topology topology;
  topology.title = Reader(std::string(name), root).word("title");
  if (const auto routing = root.find("routing"); routing != root.end()) {
    WEFT_TRY(topology.routing, read_routing(name, *routing));
  }
  std::set<std::tuple<DeviceKind, std::int32_t, std::int32_t>> seen;
  for (const json& object : devices) {
    WEFT_TRY(Device device, read_device(fmt::format("{}: device {}", name, topology.devices().size()), object,
                                        static_cast<std::int64_t>(devices.size()) - 1));
    if (!seen.emplace(device.kind, device.node, device.index).second)
      return bad_input("{}: device {}: {}{} of node {} is there twice", name, topology.devices().size(),
                       weft::topology::name(device.kind), device.index, device.node);
    topology.add(std::move(device));
  }
  for (const json& object : links) {
    WEFT_TRY(const Link link, read_link(fmt::format("{}: link {}", name, topology.links().size()), object,
                                        static_cast<std::int64_t>(devices.size())));
    topology.connect(link);
  }
  if (const Status valid = topology.validate(); !valid) return bad_input("{}: {}", name, valid.error().message);
  return topology;
}

}  // namespace weft::topology
