#include "apps/cli/tiers.h"

#include "apps/cli/bench_machine.h"
#include "base/counted.h"
#include "base/report/transfer.h"
#include "base/text.h"
#include "model/replay/hand_over.h"

namespace weft::cli {

Result<Fetched> fetch_from(const cost::MachineView& machine, const std::string& from, const std::string& stack,
                           Rank ranks, Bytes rank_bytes, cost::TierWay way) {
  if (way.bounce && (from == "gpu" || from == "node" || from == "dram"))
    return bad_input("--bounce: goes with parts below the processors, e.g. --from nvme-gen5*8, not with --from {}",
                     from);
  if (way.write && (from == "gpu" || from == "node")) return bad_input("--from {}: is read, not written", from);
  if (from == "gpu" || from == "node") {
    WEFT_TRY(auto over, replay::hand_over(machine, {.ranks = ranks,
                                                    .within_node = from == "gpu",
                                                    .rank_bytes = rank_bytes,
                                                    .stack = stack.empty() ? "weft" : stack}));
    return Fetched{over.time, std::move(over.busiest_link)};
  }
  if (!stack.empty()) return bad_input("--stack {}: goes with --from gpu or node", stack);
  WEFT_TRY(const cost::Tier tier, cost::parse_tier(from));
  WEFT_TRY(auto reloaded, cost::reload(machine, tier, ranks, rank_bytes, way));
  return Fetched{reloaded.time, std::move(reloaded.bound)};
}

Result<int> bench_tier(const BenchSpec& spec, const TransferSpec& asked) {
  const cost::TierWay way{.write = spec.sweep.op_name == "write", .bounce = asked.bounce};
  WEFT_TRY(const Machine machine, machine_to_replay_on(spec));
  const std::string ranks_text = spec.sweep.ranks_text.empty() ? "1" : spec.sweep.ranks_text;
  WEFT_TRY(const std::int64_t ranks, parse_integer("--ranks", ranks_text, 1, 1 << 20));
  WEFT_TRY(const auto sizes, sizes_of(spec.sweep));
  report::TierReport r{.machine = machine.name,
                       .from = asked.from,
                       .stack = asked.stack,
                       .faults = spec.conditions.faults,
                       .write = way.write,
                       .bounce = way.bounce,
                       .ranks = static_cast<Rank>(ranks)};
  for (const Bytes bytes : sizes) {
    WEFT_TRY(auto fetched, fetch_from(*machine.view, asked.from, asked.stack, r.ranks, bytes, way));
    r.rows.push_back({bytes, fetched.time, std::move(fetched.bound)});
  }
  if (spec.json != "-") {
    for (const std::string& fault : spec.conditions.faults) fmt::print("# fault {}\n", fault);
    fmt::print("# {} (simulated), {} {} {}{}{}\n", r.machine, counted(r.ranks, "rank"), way.write ? "to" : "from",
               r.from, r.stack.empty() ? "" : " by " + r.stack, way.bounce ? " through the host's memory" : "");
    fmt::print("# {:>12} {:>14} {:>12} {:>9}  {}\n", "a rank (B)", "all (B)", "time (us)", "GB/s", "bound by");
    for (const auto& row : r.rows)
      fmt::print("{:>14} {:>14} {:>12.1f} {:>9.1f}  {}\n", row.rank_bytes, r.bytes(row), row.time.us(),
                 r.gb_per_second(row), row.bound);
  }
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(r)));
  return 0;
}

}  // namespace weft::cli
