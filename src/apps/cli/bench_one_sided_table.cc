#include "apps/cli/bench_one_sided.h"

namespace weft::cli {

void OneSidedTable::header(const std::string& where, const std::string& bound) const {
  if (spec_.json == "-") return;
  fmt::print("# {} between {} PEs, {}; bound: {}\n# {:>10} {:>11} {:>11} {:>7} {:>9}  what\n",
             spec_.sweep.collective_name, ranks_, where, bound, "size (B)", "time (us)", "bound (us)", "ratio", "GB/s");
}

void OneSidedTable::row(OneSidedRow row) {
  if (spec_.json != "-") {
    const bool bounded = row.bound_us > 0;
    const bool comparable = bounded && row.us < 1000 * row.bound_us;  // else the bound is next to nothing
    fmt::print("{:>12} {:>11.3f} {:>11} {:>7} {:>9.2f}  {}\n", row.bytes, row.us,
               bounded ? fmt::format("{:.3f}", row.bound_us) : "-",
               comparable ? fmt::format("{:.2f}", row.us / row.bound_us) : "-",
               row.us > 0 ? static_cast<double>(row.bytes) / row.us * 1e-3 : 0, row.what);
    std::fflush(stdout);
  }
  rows_.push_back(std::move(row));
}

Status OneSidedTable::write() const {
  if (spec_.json.empty()) return {};
  nlohmann::json json{{"schema", "weft.bench_one_sided/1"},       {"world", world_}, {"machine", machine_},
                      {"operation", spec_.sweep.collective_name}, {"ranks", ranks_}, {"rows", nlohmann::json::array()}};
  if (!spec_.conditions.faults.empty()) json["faults"] = spec_.conditions.faults;
  for (const OneSidedRow& row : rows_) {
    json["rows"].push_back({{"bytes", row.bytes}, {"what", row.what}, {"time_us", row.us}, {"bound_us", nullptr}});
    if (row.bound_us > 0) json["rows"].back()["bound_us"] = row.bound_us;
  }
  return write_json(spec_.json, json);
}

}  // namespace weft::cli
