#include "apps/doctor/fault.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/doctor/line.h"

namespace weft::doctor {
namespace {

// "mlx5_3", "bnxt_re0", "rdmap16s27": the number behind the name of a driver's devices; -1: the text names none.
int nic_in(std::string_view text) {
  for (const std::string_view driver : {"mlx5_", "bnxt_re", "irdma", "rdmap", "efa_", "efa"})
    if (const int nic = number_behind(text, driver); nic >= 0) return nic;
  return -1;
}

}  // namespace

std::string fault_of(const Rule& rule, const report::DoctorFinding& finding, const topology::Topology& machine,
                     std::int64_t ranks_per_node) {
  constexpr std::string_view kFirst = "nic:0=";
  if (!rule.fault.starts_with(kFirst)) return rule.fault;
  const auto nics = std::ranges::count_if(
      machine.devices(), [](const auto& d) { return d.kind == topology::DeviceKind::kNic && d.node == 0; });
  for (const auto& line : finding.evidence) {
    const int nic = nic_in(line.text);
    if (nic < 0 || nic >= nics) continue;
    const std::int64_t node =
        finding.ranks.empty() ? 0 : finding.ranks.front() / std::max<std::int64_t>(1, ranks_per_node);
    return fmt::format("nic:{}/{}={}", node < machine.nodes() ? node : 0, nic, rule.fault.substr(kFirst.size()));
  }
  return rule.fault;
}

}  // namespace weft::doctor
