#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/recorder/snapshot.h"

// The counters of ranks in the forms that monitoring systems read. Labels of every series: job, communicator,
// transport, rank, pid; of calls also collective, type, algorithm, protocol, channels.
namespace weft::recorder {

// Prometheus' text format 0.0.4: weft_calls_total, weft_failed_calls_total, weft_message_bytes_total,
// weft_call_seconds_total, weft_tagged_messages_total, weft_rank_waits, weft_in_call_seconds, weft_idle_seconds,
// weft_rank_up.
std::string to_prometheus(const std::vector<Snapshot>& snapshots);

// The same as an ExportMetricsServiceRequest of the OpenTelemetry protocol 1.x in its JSON encoding: what is posted to
// /v1/metrics. 64-bit integers are strings there.
nlohmann::json to_otlp(const std::vector<Snapshot>& snapshots);

}  // namespace weft::recorder
