#include "report/transfer.h"

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
  }
  return {{"schema", "weft.transfer/1"}, {"world", "real"},       {"operation", report.operation},
          {"path", report.path},         {"plain", report.plain}, {"verified", report.verified},
          {"rows", std::move(rows)}};
}

}  // namespace weft::report
