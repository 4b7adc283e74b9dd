#include "plan/cost/shipped.h"

#include <algorithm>

#include "base/text_file.h"
#include "machine/catalog/catalog.h"

namespace weft::cost {

using topology::DeviceKind;

Result<CalibrationText> read_calibration(const std::string& file) {
  CalibrationText calibration{file, ""};
  if (!file.empty()) {
    WEFT_TRY(calibration.text, read_text_file(file));
  }
  return calibration;
}

Result<Rank> ranks_on(const MachineView& machine, std::string_view name, std::int64_t asked) {
  const Rank there = machine.endpoints();
  if (asked < 0) return there;
  if (asked == 0) return bad_input("--ranks 0: at least one rank is needed");
  if (asked > there)
    return bad_input("--ranks {}: {} has {} {}s", asked, name, there, machine.costs().gpu() ? "GPU" : "core");
  return static_cast<Rank>(asked);
}

Result<std::vector<std::string>> conditions_of(const topology::Topology& topology) {
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  std::vector<std::string> conditions;
  const topology::Device& endpoint = topology.device(topology.endpoints().front());
  const topology::Part* part = catalog.find(endpoint.model);
  for (const char* key : {"sm", "gcn"}) {
    std::string value(endpoint.facts.get(key));
    if (value.empty() && part != nullptr && part->facts.contains(key)) value = part->facts.at(key);
    if (value == "103") conditions.emplace_back("sm100");  // Blackwell Ultra has Blackwell's links and kernels
    if (!value.empty()) conditions.push_back(key + value);
  }
  for (const topology::DeviceId id : topology.devices_of(DeviceKind::kNetworkSwitch)) {
    if (topology.device(id).model.empty()) continue;
    conditions.push_back(topology.device(id).model);
    break;
  }
  return conditions;
}

namespace {

Result<protocol::HopCosts> shipped_costs(bool gpus, const protocol::HopCosts::Conditions& conditions,
                                         const CalibrationText& calibration) {
  const auto kind = gpus ? protocol::HopCosts::Endpoint::kGpu : protocol::HopCosts::Endpoint::kCpu;
  if (calibration.file.empty()) return protocol::HopCosts::shipped(kind, conditions);
  return protocol::HopCosts::calibrated(kind, conditions, calibration.file, calibration.text);
}

}  // namespace

Result<MachineView> shipped_view(topology::Topology topology, const CalibrationText& calibration) {
  const bool gpus = !topology.devices_of(DeviceKind::kGpu).empty();
  WEFT_TRY(const auto conditions, conditions_of(topology));
  WEFT_TRY(protocol::HopCosts costs, shipped_costs(gpus, conditions, calibration));
  return MachineView(std::move(topology), std::move(costs));
}

Result<protocol::HopCosts> costs_with_windows(const MachineView& machine, const CalibrationText& calibration) {
  WEFT_TRY(auto conditions, conditions_of(machine.topology()));
  const bool blackwell = std::ranges::find(conditions, "sm100") != conditions.end();
  conditions.emplace_back("windows");
  if (blackwell) conditions.emplace_back("windows-sm100");
  return shipped_costs(machine.costs().gpu(), conditions, calibration);
}

}  // namespace weft::cost
