#include "base/report/kv.h"

namespace weft::report {

nlohmann::json to_json(const KvSizeReport& r) {
  nlohmann::json windows = nlohmann::json::array();
  for (const auto& w : r.windows)
    windows.push_back({{"tokens", w.tokens}, {"layers", w.layers}, {"token_bytes", w.token_bytes}});
  return {{"schema", "weft.kv_size/1"},
          {"config", r.config},
          {"type", r.type},
          {"latent", r.latent},
          {"layers", r.layers},
          {"tokens", r.tokens},
          {"block_tokens", r.block_tokens},
          {"blocks", r.blocks()},
          {"tp", r.tp},
          {"copies", r.copies},
          {"token_bytes", r.token_bytes},
          {"rank_token_bytes", r.rank_token_bytes},
          {"growing_layers", r.growing_layers},
          {"recurrent_layers", r.recurrent_layers},
          {"windows", std::move(windows)},
          {"parameters", r.parameters},
          {"left_out", r.left_out},
          {"active_parameters", r.active_parameters},
          {"index_token_bytes", r.index_token_bytes},
          {"state_bytes", r.state_bytes},
          {"store_bytes", r.store_bytes},
          {"total_bytes", r.total_bytes}};
}

nlohmann::json to_json(const KvBenchReport& r) {
  nlohmann::json rows = nlohmann::json::array();
  for (const KvBenchRow& row : r.rows) {
    nlohmann::json one = {
        {"tokens", row.tokens}, {"bytes", row.bytes}, {"put_us", row.put.us()}, {"get_us", row.get.us()}};
    if (!r.redis.empty()) {
      one["redis_put_us"] = row.redis_put.us();
      one["redis_get_us"] = row.redis_get.us();
    }
    if (row.errors >= 0) one["wrong"] = row.errors;
    rows.push_back(std::move(one));
  }
  nlohmann::json json = {{"schema", "weft.bench_kv/1"},
                         {"block_bytes", r.block_bytes},
                         {"block_tokens", r.block_tokens},
                         {"path", r.path},
                         {"rows", std::move(rows)}};
  if (!r.redis.empty()) json["redis"] = r.redis;
  return json;
}

nlohmann::json to_json(const KvReplayReport& r) {
  nlohmann::json rows = nlohmann::json::array();
  for (const KvReplayRow& row : r.rows)
    rows.push_back({{"policy", row.policy},
                    {"hit_rate", r.rate(row)},
                    {"hit_blocks", row.hit_blocks},
                    {"hit_requests", row.hit_requests},
                    {"replay_s", row.seconds}});
  return {{"schema", "weft.kv_replay/1"},
          {"trace", r.trace},
          {"capacity_blocks", r.capacity},
          {"requests", r.requests},
          {"blocks", r.blocks},
          {"distinct", r.distinct},
          {"form", r.form},
          {"rows", std::move(rows)}};
}

nlohmann::json to_json(const KvFetchReport& report) {
  nlohmann::json rows = nlohmann::json::array();
  for (const KvFetchRow& r : report.rows) {
    rows.push_back({{"tokens", r.tokens}, {"bytes", r.bytes}, {"fetch_us", r.fetch.us()}, {"bound", r.bound}});
    if (report.prefill.empty()) continue;
    rows.back().update({{"recompute_us", r.recompute.us()},
                        {"both_us", r.both.us()},
                        {"computed_tokens", r.computed},
                        {"choice", r.choice}});
  }
  nlohmann::json json = {{"schema", "weft.kv_fetch/1"},
                         {"world", "simulated"},
                         {"config", report.config},
                         {"machine", report.machine},
                         {"from", report.from},
                         {"tp", report.tp},
                         {"rank_token_bytes", report.rank_token_bytes},
                         {"rows", std::move(rows)}};
  if (!report.stack.empty()) json["stack"] = report.stack;
  if (!report.prefill.empty()) json["prefill"] = {{"times", report.prefill}, {"error", report.prefill_error}};
  return json;
}

}  // namespace weft::report
