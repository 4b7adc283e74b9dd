#include "plan/protocol/hop_costs.h"

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/embedded.h"

namespace weft::embedded {
std::span<const File> protocol_files();
}

namespace weft::protocol {
namespace {

constexpr const char* kNetworkPath = "NET";

// Is it crossed by what a carrier of messages does, not by loads and stores?
bool carried(std::string_view path) { return path == kNetworkPath || path.starts_with("UCX"); }

using nlohmann::json;

// A number with where it comes from. Throws std::runtime_error with the reason; caught in parse.
double number(const json& entry, const char* field, double least) {
  if (!entry.contains("source") || !entry.contains("date"))
    throw std::runtime_error(fmt::format("entry without source and date: {}", entry.dump()));
  const double value = entry.at(field).get<double>();
  if (!(value >= least)) throw std::runtime_error(fmt::format("{} of {} is too small: {}", field, value, entry.dump()));
  return value;
}

Protocol protocol_of(const json& entry) {
  auto p = parse_protocol(entry.at("protocol").get<std::string>());
  if (!p) throw std::runtime_error(p.error().message);
  return *p;
}

constexpr const char* kLists[] = {"paths",    "hops",          "same_as", "launches",
                                  "switches", "host_launches", "local",   "factors"};

// An entry under a condition that does not hold.
bool elsewhere(const json& entry, const HopCosts::Conditions& conditions) {
  if (!entry.contains("on")) return false;
  const json& on = entry.at("on");
  const json any = on.is_array() ? on : json::array({on});
  return std::ranges::none_of(any, [&](const json& condition) {
    return std::ranges::find(conditions, condition.get<std::string>()) != conditions.end();
  });
}

// The entries that count, later ones for the same thing laid over earlier ones.
json layered(const json& entries, const HopCosts::Conditions& conditions) {
  json result = json::array();
  for (const json& entry : entries) {
    if (elsewhere(entry, conditions)) continue;
    const auto same = std::ranges::find_if(result, [&](const json& other) {
      return std::ranges::all_of(std::array{"endpoint", "path", "protocol"},
                                 [&](const char* key) { return other.value(key, "") == entry.value(key, ""); });
    });
    if (same == result.end())
      result.push_back(entry);
    else
      same->update(entry);
  }
  return result;
}

const embedded::File& shipped_file() {
  const auto files = embedded::protocol_files();
  WEFT_ASSERT(files.size() == 1);
  return files[0];
}

}  // namespace

HopCosts HopCosts::shipped(Endpoint endpoint, const Conditions& conditions) {
  auto costs = parse(shipped_file().path, shipped_file().text, endpoint, conditions);
  WEFT_ASSERT(costs.has_value(), "{}", costs.error().message);
  return *costs;
}

Result<HopCosts> HopCosts::calibrated(Endpoint endpoint, const Conditions& conditions, std::string_view file,
                                      std::string_view calibration) {
  try {
    const json over = json::parse(calibration);
    if (!over.is_object() || over.value("schema", "") != "weft.calibration/1")
      return bad_input("{}: schema is not weft.calibration/1", file);
    json root = json::parse(shipped_file().text);
    for (const char* list : kLists)
      for (const json& entry : over.value(list, json::array())) root[list].push_back(entry);
    return parse(file, root.dump(), endpoint, conditions);
  } catch (const json::exception& problem) {
    return bad_input("{}: {}", file, problem.what());
  }
}

Result<HopCosts> HopCosts::parse(std::string_view file, std::string_view text, Endpoint endpoint,
                                 const Conditions& conditions) {
  HopCosts costs;
  costs.gpu_ = endpoint == Endpoint::kGpu;
  const auto mine = [&](const json& entry) { return entry.at("endpoint") == (costs.gpu_ ? "gpu" : "cpu"); };
  try {
    json root = json::parse(text);
    if (root.value("schema", "") != "weft.hop_costs/1") return bad_input("{}: schema is not weft.hop_costs/1", file);
    for (const char* list : kLists) root[list] = layered(root.at(list), conditions);
    std::map<std::string, double> efficiency;
    for (const json& e : root.at("paths"))
      if (mine(e)) efficiency[e.at("path")] = number(e, "efficiency", 1e-6);
    for (const json& e : root.at("hops")) {
      if (!mine(e)) continue;
      const std::string path = e.at("path");
      costs.hops_.push_back(
          {path,
           protocol_of(e),
           {Duration::microseconds(number(e, "latency_us", 0)), e.contains("trips") ? number(e, "trips", 1) : 1,
            Duration::microseconds(e.contains("added_us") ? number(e, "added_us", 0) : 0),
            Duration::microseconds(e.contains("overhead_us") ? number(e, "overhead_us", 0) : 0),
            Duration::microseconds(e.contains("fence_us") ? number(e, "fence_us", 0) : 0),
            BytesPerSecond::gigabytes(number(e, "channel_GBps", 1e-6)),
            BytesPerSecond::gigabytes(e.contains("crowded_GBps") ? number(e, "crowded_GBps", 1e-6) : 0),
            e.contains("efficiency") ? number(e, "efficiency", 1e-6) : efficiency.at(path),
            e.contains("lines") ? number(e, "lines", 1) : 0,
            BytesPerSecond::gigabytes(e.contains("node_GBps") ? number(e, "node_GBps", 1e-6) : 0),
            BytesPerSecond::gigabytes(e.contains("node_of_two_GBps") ? number(e, "node_of_two_GBps", 1e-6) : 0),
            e.contains("messages") ? static_cast<int>(number(e, "messages", 1)) : 0}});
    }
    for (const json& e : root.at("same_as")) {
      if (!mine(e)) continue;
      const std::string path = e.at("path"), as = e.at("as");
      for (std::size_t i = 0, n = costs.hops_.size(); i < n; ++i) {
        if (costs.hops_[i].path != as) continue;
        Hop copy = costs.hops_[i];
        copy.path = path;
        copy.cost.efficiency *= efficiency.at(path) / efficiency.at(as);
        costs.hops_.push_back(std::move(copy));
      }
    }
    for (const json& e : root.at("launches"))
      if (mine(e)) costs.launches_.push_back({protocol_of(e), Duration::microseconds(number(e, "latency_us", 0))});
    for (const json& e : root.at("host_launches"))
      if (mine(e)) {
        costs.host_launch_ = Duration::microseconds(number(e, "latency_us", 0));
        costs.host_channel_ = Duration::microseconds(number(e, "channel_us", 0));
      }
    for (const json& e : root.at("local"))
      if (mine(e)) costs.local_ = BytesPerSecond::gigabytes(number(e, "channel_GBps", 0));
    for (const json& e : root.at("switches"))
      if (mine(e)) costs.switch_ = Duration::microseconds(number(e, "latency_us", 0));
    const std::map<std::string, double Factors::*> factors{{"receive", &Factors::receive},
                                                           {"poll", &Factors::poll},
                                                           {"scheduling_round", &Factors::scheduling_round},
                                                           {"exposed_hop", &Factors::exposed_hop},
                                                           {"fused_store", &Factors::fused_store}};
    for (const json& e : root.at("factors"))
      if (mine(e)) costs.factors_.*factors.at(e.at("path")) = number(e, "value", 0);
  } catch (const std::exception& problem) {
    return bad_input("{}: {}", file, problem.what());
  }
  return costs;
}

HopCosts HopCosts::over_network(const HopCost& hop, Duration launch, Duration rank_switch, const HopCost* within,
                                bool streams) {
  HopCosts costs;
  costs.gpu_ = false;
  costs.network_ = true;
  costs.hops_ = {{kNetworkPath, Protocol::kSimple, hop}, {"", Protocol::kSimple, within != nullptr ? *within : hop}};
  costs.launches_ = {{Protocol::kSimple, launch}};
  costs.switch_ = rank_switch;
  costs.streams_ = streams;
  return costs;
}

HopCosts HopCosts::with_factors(const Factors& factors) const {
  HopCosts costs = *this;
  costs.factors_ = factors;
  return costs;
}

HopCosts HopCosts::between_cores(Duration trip) const {
  constexpr double kLine = 64;  // bytes
  HopCosts costs = *this;
  for (Hop& hop : costs.hops_)
    if (hop.cost.lines > 0)
      hop.cost.channel = std::min(hop.cost.channel, BytesPerSecond(hop.cost.lines * kLine / trip.s()));
  return costs;
}

HopCosts HopCosts::with_launches(Duration each) const {
  HopCosts costs = *this;
  for (Launch& launch : costs.launches_) launch.latency = each;
  costs.host_launch_ = costs.host_channel_ = Duration();
  return costs;
}

HopCosts HopCosts::with_slots(BytesPerSecond plain, BytesPerSecond streamed) const {
  HopCosts costs = *this;
  costs.streams_ = streamed > plain;
  costs.streams_crowded_ = streamed > plain * 2;  // half of what such ranks send stays in a core's caches
  for (Hop& hop : costs.hops_)
    if (hop.protocol == Protocol::kSimple && !carried(hop.path)) hop.cost.channel = std::max(plain, streamed);
  return costs;
}

BytesPerSecond HopCosts::handed_over() const {
  BytesPerSecond most;
  for (const Hop& h : hops_)
    if (h.protocol == Protocol::kSimple && !carried(h.path)) most = std::max(most, h.cost.channel);
  return most;
}

const HopCost* HopCosts::find(std::string_view path, Protocol protocol) const {
  if (network_) return protocol == Protocol::kSimple ? &hops_[path == kNetworkPath ? 0 : 1].cost : nullptr;
  for (const Hop& hop : hops_)
    if (hop.protocol == protocol && hop.path == path) return &hop.cost;
  return nullptr;
}

const HopCost* HopCosts::through_switch(std::string_view path, Protocol protocol) const {
  constexpr std::string_view kNoPath = "DIS";
  if (network_ || path == kNoPath) return nullptr;
  return find(path == kNetworkPath ? "SHARP" : "NVLS", protocol);
}

const Duration* HopCosts::launch(Protocol protocol) const {
  for (const Launch& l : launches_)
    if (l.protocol == protocol) return &l.latency;
  return nullptr;
}

}  // namespace weft::protocol
