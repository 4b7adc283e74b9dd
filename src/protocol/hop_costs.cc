#include "protocol/hop_costs.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/embedded.h"

namespace weft::embedded {
std::span<const File> protocol_files();
}

namespace weft::protocol {
namespace {

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

}  // namespace

HopCosts HopCosts::shipped(Endpoint endpoint) {
  const auto files = embedded::protocol_files();
  WEFT_ASSERT(files.size() == 1);
  auto costs = parse(files[0].path, files[0].text, endpoint);
  WEFT_ASSERT(costs.has_value(), "{}", costs.error().message);
  return *costs;
}

Result<HopCosts> HopCosts::parse(std::string_view file, std::string_view text, Endpoint endpoint) {
  HopCosts costs;
  costs.gpu_ = endpoint == Endpoint::kGpu;
  const auto mine = [&](const json& entry) { return entry.at("endpoint") == (costs.gpu_ ? "gpu" : "cpu"); };
  try {
    const json root = json::parse(text);
    if (root.value("schema", "") != "weft.hop_costs/1") return bad_input("{}: schema is not weft.hop_costs/1", file);
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
            BytesPerSecond::gigabytes(number(e, "channel_GBps", 1e-6)), efficiency.at(path)}});
    }
    for (const json& e : root.at("same_as")) {
      if (!mine(e)) continue;
      const std::string path = e.at("path"), as = e.at("as");
      for (std::size_t i = 0, n = costs.hops_.size(); i < n; ++i) {
        if (costs.hops_[i].path != as) continue;
        Hop copy = costs.hops_[i];
        copy.path = path;
        copy.cost.efficiency = efficiency.at(path);
        costs.hops_.push_back(std::move(copy));
      }
    }
    for (const json& e : root.at("launches"))
      if (mine(e)) costs.launches_.push_back({protocol_of(e), Duration::microseconds(number(e, "latency_us", 0))});
    for (const json& e : root.at("host_launches"))
      if (mine(e)) costs.host_launch_ = Duration::microseconds(number(e, "latency_us", 0));
    for (const json& e : root.at("local"))
      if (mine(e)) costs.local_ = BytesPerSecond::gigabytes(number(e, "channel_GBps", 0));
    for (const json& e : root.at("switches"))
      if (mine(e)) costs.switch_ = Duration::microseconds(number(e, "latency_us", 0));
  } catch (const std::exception& problem) {
    return bad_input("{}: {}", file, problem.what());
  }
  return costs;
}

HopCosts HopCosts::over_network(const HopCost& hop, Duration launch, Duration rank_switch) {
  HopCosts costs;
  costs.gpu_ = false;
  costs.network_ = true;
  costs.hops_ = {{"NET", Protocol::kSimple, hop}};
  costs.launches_ = {{Protocol::kSimple, launch}};
  costs.switch_ = rank_switch;
  return costs;
}

const HopCost* HopCosts::find(std::string_view path, Protocol protocol) const {
  if (network_) return protocol == Protocol::kSimple ? &hops_.front().cost : nullptr;
  for (const Hop& hop : hops_)
    if (hop.protocol == protocol && hop.path == path) return &hop.cost;
  return nullptr;
}

const HopCost* HopCosts::through_switch(std::string_view path, Protocol protocol) const {
  if (network_) return nullptr;
  return find(path == "NET" ? "SHARP" : "NVLS", protocol);
}

const Duration* HopCosts::launch(Protocol protocol) const {
  for (const Launch& l : launches_)
    if (l.protocol == protocol) return &l.latency;
  return nullptr;
}

}  // namespace weft::protocol
