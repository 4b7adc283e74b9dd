#include "apps/cli/check_pair.h"

#include <algorithm>

#include "apps/cli/commands.h"
#include "base/text.h"

namespace weft::cli {
namespace {

// A reliable connection carries 93 to 98 % of its port's rate: headers of 4 KiB packets, acknowledgements.
constexpr double kGoodShare = 0.88;
constexpr std::int64_t kLarge = 64 << 10;  // from which one queue pair fills a port
constexpr double kGoodLatency = 4;         // us of small messages through two NICs and a switch

// NICs of a node.
std::int64_t ports(const topology::Topology& machine) {
  const auto nics = static_cast<std::int64_t>(machine.devices_of(topology::DeviceKind::kNic).size());
  return std::max<std::int64_t>(1, nics / std::max<std::int64_t>(1, machine.nodes()));
}

double port_rate(const topology::Topology& machine) {
  double rate = 0;
  for (const topology::DeviceId nic : machine.devices_of(topology::DeviceKind::kNic))
    rate = std::max(rate, machine.device(nic).port_rate.value() * 1e-9);
  return rate;
}

nlohmann::json row_json(const doctor::PairTable::Row& row, double most) {
  nlohmann::json one{{"bytes", row.bytes}};
  if (row.gigabytes > 0) one["GBps"] = row.gigabytes, one["share"] = row.gigabytes / most;
  if (row.microseconds > 0) one["us"] = row.microseconds;
  return one;
}

void print_rows(const doctor::PairTable& table, double most) {
  fmt::print("\n{:>12} {:>10} {:>8}\n", "size", table.rows[0].gigabytes > 0 ? "GB/s" : "us",
             table.rows[0].gigabytes > 0 ? "of port" : "");
  for (const auto& row : table.rows)
    fmt::print("{:>12} {:>10.2f} {:>8}\n", format_bytes(row.bytes),
               row.gigabytes > 0 ? row.gigabytes : row.microseconds,
               row.gigabytes > 0 ? fmt::format("{:.0f} %", 100 * row.gigabytes / most) : "");
}

std::string causes(const doctor::PairTable& table) {
  if (table.pairs > 1)
    return "pairs that share a port where there are more (UCX_NET_DEVICES, ranks bound to a NIC each; weft ps "
           "--rails), "
           "or what slows one pair: osu_bw of one pair says which";
  return table.gpu
             ? "a GPU and a NIC of different sockets or root complexes (weft topo), ACS, an IOMMU that translates, "
               "no peermem or DMA-BUF; the same without --use_cuda says which side is slow"
             : "a link that trained lower (ibstat), PCIe width or speed (lspci LnkSta), small MTU, one queue pair "
               "(-q 4), a CPU on another NUMA node (numactl)";
}

}  // namespace

Result<int> check_pair(const std::string& file, const std::string& on, const std::string& json,
                       const doctor::PairTable& table) {
  if (table.rows.empty()) return bad_input("{}: a table of '{}' without a row", file, shown(table.test));
  if (on.empty())
    return bad_input(
        "{}: '{}' measures one pair of NICs, and the table does not name their rate: which "
        "machine is it? Say --on, e.g. --on dgx-h100",
        file, shown(table.test));
  WEFT_TRY(const Machine machine, load_machine(on));
  const double rate = port_rate(machine.view->topology());
  if (rate <= 0) return bad_input("{}: no rate is known of the NICs of {}", file, machine.name);
  const std::int64_t used = std::min<std::int64_t>(table.pairs, ports(machine.view->topology()));
  const double most = (table.both_ways ? 2 * rate : rate) * static_cast<double>(used);
  const auto& last = *std::ranges::max_element(table.rows, {}, &doctor::PairTable::Row::bytes);
  const auto& first = *std::ranges::min_element(table.rows, {}, &doctor::PairTable::Row::bytes);
  const bool bandwidth = last.gigabytes > 0;
  const bool small = bandwidth && last.bytes < kLarge;
  const bool faster = bandwidth && last.gigabytes > 1.02 * most;
  const bool slow = bandwidth ? !small && last.gigabytes < kGoodShare * most : first.microseconds > kGoodLatency;
  const std::string port = table.pairs == 1 ? "a port" : fmt::format("{} ports of {} pairs", used, table.pairs);
  const std::string what = bandwidth
                               ? fmt::format("{:.2f} GB/s at {} are {:.0f} % of the {:.3g} GB/s of {}{}",
                                             last.gigabytes, format_bytes(last.bytes), 100 * last.gigabytes / most,
                                             most, port, table.both_ways ? ", both ways" : "")
                               : fmt::format("{:.2f} us at {}", first.microseconds, format_bytes(first.bytes));
  const std::string verdict =
      faster ? "is faster than a port of this machine: another machine, several ports, or NVLink between GPUs of a node"
      : small           ? "has no message that is large enough to judge a port by"
      : slow            ? "is slow: " + causes(table)
      : table.pairs > 1 ? "is what the ports of a node should deliver"
                        : "is what a port should deliver";
  if (json != "-") {
    fmt::print("This table of {} ({}{}) {}: {}, {}.\n", table.pairs == 1 ? "a pair" : "pairs", shown(table.test),
               table.gpu ? ", a GPU's memory" : "", verdict, what, machine.name);
    print_rows(table, most);
  }
  if (!json.empty()) {
    nlohmann::json rows = nlohmann::json::array();
    for (const auto& row : table.rows) rows.push_back(row_json(row, most));
    WEFT_CHECK(write_json(json, {{"schema", "weft.check_pair/1"},
                                 {"machine", machine.name},
                                 {"test", table.test},
                                 {"device", table.device},
                                 {"port_GBps", rate},
                                 {"pairs", table.pairs},
                                 {"verdict", verdict},
                                 {"slow", slow},
                                 {"rows", rows}}));
  }
  return slow || faster ? kBadAnswer : 0;
}

}  // namespace weft::cli
