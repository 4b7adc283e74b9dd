#include "base/report/transfer.h"

namespace weft::report {

nlohmann::json to_json(const TransferReport& report) {
  nlohmann::json rows = nlohmann::json::array();
  for (const TransferRow& r : report.rows) {
    rows.push_back({{"block_bytes", r.block},
                    {"blocks", r.blocks},
                    {"bytes", r.bytes()},
                    {"post_us", r.post.us()},
                    {"time_us", r.time.us()},
                    {"GBps", r.gb_per_second()},
                    {"memcpy_us", r.copy.us()},
                    {"of_memcpy", r.of_copy()}});
    if (r.errors >= 0) rows.back()["errors"] = r.errors;
    if (r.predicted > Duration()) rows.back()["predicted_us"] = r.predicted.us();
  }
  return {{"schema", "weft.transfer/1"}, {"world", "real"},       {"operation", report.operation},
          {"path", report.path},         {"plain", report.plain}, {"verified", report.verified},
          {"rows", std::move(rows)}};
}

nlohmann::json to_json(const TierReport& report) {
  nlohmann::json rows = nlohmann::json::array();
  for (const TierRow& r : report.rows)
    rows.push_back({{"rank_bytes", r.rank_bytes},
                    {"bytes", report.bytes(r)},
                    {"time_us", r.time.us()},
                    {"GBps", report.gb_per_second(r)},
                    {"bound", r.bound}});
  nlohmann::json json = {{"schema", "weft.transfer_tier/1"},
                         {"world", "simulated"},
                         {"machine", report.machine},
                         {"from", report.from},
                         {"operation", report.write ? "write" : "read"},
                         {"bounce", report.bounce},
                         {"faults", report.faults},
                         {"ranks", report.ranks},
                         {"rows", std::move(rows)}};
  if (!report.stack.empty()) json["stack"] = report.stack;
  return json;
}

}  // namespace weft::report
