#include "base/report/watch.h"

namespace weft::report {

nlohmann::json to_json(const WatchReport& r) {
  nlohmann::json jobs = nlohmann::json::array(), nics = jobs, gpus = jobs, findings = jobs;
  for (const auto& j : r.jobs)
    jobs.push_back({{"job", j.job},
                    {"communicator", j.communicator},
                    {"transport", j.transport},
                    {"ranks", j.ranks},
                    {"here", j.here},
                    {"calls_per_s", j.calls},
                    {"message_Bps", j.message_bytes},
                    {"leaves_host_at_least_Bps", j.leaves},
                    {"share_of_time_in_calls", j.in_calls},
                    {"late", j.late}});
  for (const auto& n : r.nics)
    nics.push_back({{"name", n.name},
                    {"line_rate_Bps", n.line_rate},
                    {"sent_Bps", n.sent},
                    {"received_Bps", n.received},
                    {"share", n.share},
                    {"fair_share", n.fair_share},
                    {"rising", n.rising}});
  for (const auto& g : r.gpus)
    gpus.push_back({{"index", g.index},
                    {"busy", g.busy},
                    {"memory_used", g.memory},
                    {"clock_MHz", g.clock_mhz},
                    {"power_W", g.watts},
                    {"nvlink_sent_Bps", g.nvlink_sent},
                    {"nvlink_received_Bps", g.nvlink_received}});
  for (const auto& f : r.findings) findings.push_back({{"finding", f.what}, {"part", f.part}, {"text", f.text}});
  return {{"schema", "weft.watch/1"},
          {"seconds", r.seconds},
          {"jobs", jobs},
          {"nics", nics},
          {"gpus", gpus},
          {"cpu", {{"cores", r.cores}, {"busy", r.cpu_busy}}},
          {"memory_used", r.memory_used},
          {"leaves_host_at_least_Bps", r.leaves},
          {"sent_Bps", r.sent},
          {"received_Bps", r.received},
          {"loopback_Bps", r.loopback},
          {"findings", findings}};
}

}  // namespace weft::report
