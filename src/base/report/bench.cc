#include "base/report/bench.h"

namespace weft::report {
namespace {

double per_second(double count, Duration time) { return time > Duration() ? count / time.s() : 0; }

}  // namespace

nlohmann::json to_json(const Measured& m) {
  return {{"low_us", m.low.us()}, {"high_us", m.high.us()}, {"inside", m.inside}, {"tables", m.tables}, {"of", m.of}};
}

namespace {

nlohmann::json simulation_of(const BenchRow& r) {
  return {{"method", r.method},
          {"low_us", r.low.us()},
          {"high_us", r.high.us()},
          {"folded", r.folded},
          {"fast_forwarded", r.fast_forwarded},
          {"enlarged_bytes", r.enlarged},
          {"extrapolated_from_ranks", r.extrapolated_from},
          {"uncertainty", r.uncertainty},
          {"approximate", r.approximate},
          {"steps", r.steps},
          {"steps_in_all_runs", r.steps_in_all_runs},
          {"steps_represented", r.steps_represented},
          {"simulating_s", r.simulating.s()},
          {"steps_per_s", per_second(static_cast<double>(r.steps_in_all_runs), r.simulating)},
          {"steps_represented_per_s", per_second(r.steps_represented, r.simulating)}};
}

nlohmann::json to_json(const BenchRow& r, bool simulated) {
  const double limit_bus =
      r.limit_time.ps() > 0 ? static_cast<double>(r.bytes) / r.limit_time.s() * 1e-9 * r.bus_factor : 0;
  nlohmann::json row = {
      {"bytes", r.bytes},
      {"count", r.count},
      {"time_us", r.time.us()},
      {"algbw_GBps", r.algbw_gb()},
      {"busbw_GBps", r.busbw_gb()},
      {"algorithm", r.algorithm},
      {"protocol", r.protocol},
      {"channels", r.channels},
      {"predicted_us", r.predicted.us()},
      {"limit", {{"resource", r.limit_resource}, {"time_us", r.limit_time.us()}, {"busbw_GBps", limit_bus}}},
      {"of_limit", r.of_limit()}};
  if (r.errors >= 0) row["errors"] = r.errors;
  if (!r.busiest_link.empty()) row["busiest"] = {{"link", r.busiest_link}, {"utilisation", r.busiest_share}};
  if (!r.estimate_off.empty()) row["estimate_off"] = r.estimate_off;
  const nlohmann::json measured = r.measured ? to_json(*r.measured) : nlohmann::json("not measured");
  if (simulated) row["measured"] = r.troubled() ? nlohmann::json("not measured") : measured;
  if (r.troubled()) {
    row["healthy_us"] = r.healthy.us();
    row["healthy_measured"] = measured;
  }
  if (r.packets)
    row["packets"] = {{"sent", r.packets->sent},
                      {"retried", r.packets->retried},
                      {"lost", r.packets->lost},
                      {"discarded", r.packets->discarded},
                      {"reordered", r.packets->reordered},
                      {"timeouts", r.packets->timeouts},
                      {"marked", r.packets->marked},
                      {"pauses", r.packets->pauses},
                      {"longest_queue_bytes", r.packets->longest_queue},
                      {"longest_queue", r.packets->at}};
  if (r.computing)
    row["computing"] = {{"alone_us", r.computing->alone.us()},
                        {"beside_us", r.computing->beside.us()},
                        {"together_us", r.computing->together.us()},
                        {"overlap", r.computing->overlap}};
  if (simulated) row["simulation"] = simulation_of(r);
  if (!r.why.empty()) {
    nlohmann::json why = nlohmann::json::array();
    for (const BenchRow::Spent& s : r.why)
      why.push_back({{"cause", s.cause}, {"where", s.where}, {"time_us", s.time.us()}});
    row["critical_path"] = {{"steps", r.path_steps}, {"spent", std::move(why)}};
  }
  if (r.plans_simulated > 0) row["plans_simulated"] = r.plans_simulated;
  return row;
}

}  // namespace

nlohmann::json to_json(const BenchReport& report) {
  nlohmann::json rows = nlohmann::json::array();
  for (const BenchRow& r : report.rows) rows.push_back(to_json(r, report.world == "simulated"));
  nlohmann::json json = {{"schema", "weft.bench/3"},
                         {"world", report.world},
                         {"machine", report.machine},
                         {"transport", report.transport},
                         {"collective", report.collective},
                         {"ranks", report.ranks},
                         {"type", report.type},
                         {"op", report.op},
                         {"rates", report.rates},
                         {"rows", rows}};
  if (!report.findings.empty()) json["findings"] = report.findings;
  if (!report.faults.empty()) json["faults"] = report.faults;
  if (!report.beside.empty()) json["beside"] = report.beside;
  if (!report.loads.empty()) json["loads"] = report.loads;
  if (!report.compute.empty()) json["compute"] = report.compute;
  if (!report.tokens.empty()) json["tokens"] = report.tokens;
  return json;
}

}  // namespace weft::report
