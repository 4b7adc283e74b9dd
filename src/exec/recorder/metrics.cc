#include "exec/recorder/metrics.h"

#include <fmt/format.h>

#include <utility>

namespace weft::recorder {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Point {
  Labels labels;
  double value = 0;
  std::int64_t since = 0, at = 0;  // nanoseconds since 1970
};

struct Metric {
  const char* name;  // as in Prometheus, without _total
  const char* unit;  // of UCUM
  const char* help;
  bool counts;  // only grows
  std::vector<Point> points;
};

Labels labels_of(const Snapshot& s) {
  return {{"job", s.job},
          {"communicator", s.group},
          {"transport", s.transport},
          {"rank", std::to_string(s.rank)},
          {"pid", std::to_string(s.pid)}};
}

Labels labels_of(const Snapshot& s, const Sum& sum) {
  Labels labels = labels_of(s);
  labels.insert(labels.end(), {{"collective", sum.collective},
                               {"type", sum.type},
                               {"algorithm", sum.algorithm},
                               {"protocol", sum.protocol},
                               {"channels", std::to_string(sum.channels)}});
  return labels;
}

std::vector<Metric> metrics_of(const std::vector<Snapshot>& snapshots) {
  std::vector<Metric> all{
      {"weft_calls", "{call}", "Operations that have ended.", true, {}},
      {"weft_failed_calls", "{call}", "Operations that have ended with an error.", true, {}},
      {"weft_message_bytes", "By", "Bytes of the messages of these operations, as nccl-tests counts them.", true, {}},
      {"weft_call_seconds", "s", "Time within these operations.", true, {}},
      {"weft_tagged_messages", "{message}", "Sends and receives with tags that were begun.", true, {}},
      {"weft_rank_waits", "1", "1 while the rank waits for a peer in its call.", false, {}},
      {"weft_in_call_seconds", "s", "Since when the rank is within its call; 0 between calls.", false, {}},
      {"weft_idle_seconds", "s", "Since when the rank's last call has ended; 0 within a call.", false, {}},
      {"weft_rank_up", "1", "1 while the rank's process runs, 0 if it is stopped or has ended.", false, {}},
  };
  for (const Snapshot& s : snapshots) {
    const auto add = [&](std::size_t metric, Labels labels, double value) {
      all[metric].points.push_back({.labels = std::move(labels), .value = value, .since = s.opened, .at = s.taken});
    };
    for (const Sum& sum : s.sums) {
      const Labels labels = labels_of(s, sum);
      add(0, labels, static_cast<double>(sum.calls));
      add(1, labels, static_cast<double>(sum.failed));
      add(2, labels, sum.bytes);
      add(3, labels, sum.seconds);
    }
    for (const auto& [direction, count] : {std::pair{"send", s.sends}, {"receive", s.receives}}) {
      Labels labels = labels_of(s);
      labels.emplace_back("direction", direction);
      add(4, std::move(labels), static_cast<double>(count));
    }
    add(5, labels_of(s), s.waits() ? 1 : 0);
    const Operation* const last = s.last();
    const auto since = [&](std::int64_t then) { return static_cast<double>(s.taken - then) * 1e-9; };
    add(6, labels_of(s), s.busy() ? since(last->started) : 0);
    add(7, labels_of(s), last != nullptr && !s.busy() ? since(last->finished) : 0);
    add(8, labels_of(s), s.process == Process::kRunning ? 1 : 0);
  }
  return all;
}

// The value of a label as it stands between quotation marks.
std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text;
}

nlohmann::json attributes(const Labels& labels) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [key, value] : labels) list.push_back({{"key", key}, {"value", {{"stringValue", value}}}});
  return list;
}

// "weft_calls" to "weft.calls": OpenTelemetry separates by dots.
std::string dotted(std::string name) {
  name[4] = '.';
  return name;
}

}  // namespace

std::string to_prometheus(const std::vector<Snapshot>& snapshots) {
  std::string text;
  for (const Metric& m : metrics_of(snapshots)) {
    const std::string name = fmt::format("{}{}", m.name, m.counts ? "_total" : "");
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, m.help, name, m.counts ? "counter" : "gauge");
    for (const Point& p : m.points) {
      std::string labels;
      for (const auto& [key, value] : p.labels)
        labels += fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", key, escaped(value));
      text += fmt::format("{}{{{}}} {}\n", name, labels, p.value);
    }
  }
  return text;
}

nlohmann::json to_otlp(const std::vector<Snapshot>& snapshots) {
  nlohmann::json metrics = nlohmann::json::array();
  for (const Metric& m : metrics_of(snapshots)) {
    nlohmann::json points = nlohmann::json::array();
    for (const Point& p : m.points) {
      nlohmann::json point{
          {"attributes", attributes(p.labels)}, {"timeUnixNano", std::to_string(p.at)}, {"asDouble", p.value}};
      if (m.counts) point["startTimeUnixNano"] = std::to_string(p.since);
      points.push_back(std::move(point));
    }
    nlohmann::json metric{{"name", dotted(m.name)}, {"unit", m.unit}, {"description", m.help}};
    if (m.counts)
      metric["sum"] = {{"dataPoints", points}, {"aggregationTemporality", 2}, {"isMonotonic", true}};  // 2: cumulative
    else
      metric["gauge"] = {{"dataPoints", points}};
    metrics.push_back(std::move(metric));
  }
  nlohmann::json scope{{"scope", {{"name", "weft"}}}, {"metrics", std::move(metrics)}};
  nlohmann::json resource{{"resource", {{"attributes", attributes({{"service.name", "weft"}})}}}};
  resource["scopeMetrics"] = nlohmann::json::array({std::move(scope)});
  return {{"resourceMetrics", nlohmann::json::array({std::move(resource)})}};
}

}  // namespace weft::recorder
