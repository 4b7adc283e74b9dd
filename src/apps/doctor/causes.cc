#include "apps/doctor/causes.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/doctor/cells.h"
#include "base/embedded.h"

namespace weft::embedded {
std::span<const File> doctor_files();
}  // namespace weft::embedded

namespace weft::doctor {
namespace {

using topology::LinkKind;

// One word of a change; false: it is none.
bool read_change(std::string_view word, Cause& cause) {
  const auto sign = word.find('=');
  if (sign == std::string_view::npos) return false;
  const std::string_view what = word.substr(0, sign);
  std::string_view how = word.substr(sign + 1);
  if (what == "proto") {
    cause.protocol = how;
    return true;
  }
  if (what != "network" && what != "links" && what != "nvlink" && what != "cap" && what != "late") {
    cause.faults.emplace_back(word);
    return what.find(':') != std::string_view::npos;
  }
  const bool percent = how.ends_with('%');
  if (percent) how.remove_suffix(1);
  const auto value = number(how);
  if (!value || *value <= 0 || percent != (what == "network" || what == "links" || what == "nvlink")) return false;
  if (what == "cap")
    cause.node_cap = *value;
  else if (what == "late")
    cause.late = *value;
  else
    (what == "network" ? cause.network : what == "links" ? cause.links : cause.nvlink) = *value / 100;
  return true;
}

constexpr double kModelError = 0.12;        // of all large rows together (docs/accuracy.md)
constexpr double kRowError = 0.20;          // of a large row on its own
constexpr double kSmallRowError = 0.5;      // of one where latency counts
constexpr double kMostIndependentRows = 4;  // neighbouring sizes err alike

}  // namespace

Result<std::vector<Cause>> parse_causes(std::string_view file, std::string_view text) {
  constexpr std::size_t kColumns = 7;
  std::vector<Cause> causes;
  int line_number = 0;
  bool titles = false;
  for (const std::string_view line : cut(text, '\n')) {
    ++line_number;
    if (line.empty() || line[0] == '#') continue;
    const auto cells = cut(line, '\t');
    if (cells.size() != kColumns)
      return bad_input("{}:{}: {} columns instead of {}", file, line_number, cells.size(), kColumns);
    if (!std::exchange(titles, true)) continue;
    Cause cause{.id = std::string(cells[0]), .words = std::string(cells[1]), .verify = std::string(cells[6])};
    for (const std::string_view word : cut(cells[2], ' '))
      if (!read_change(word, cause)) return bad_input("{}:{}: change '{}'", file, line_number, word);
    const auto spread = number(cells[3]), alone = number(cells[4]), several = number(cells[5]);
    if (!spread || !alone || !several || *spread <= 0 || *alone <= 0 || *several <= 0)
      return bad_input("{}:{}: spread '{}' or priors '{}' and '{}'", file, line_number, cells[3], cells[4], cells[5]);
    cause.spread = *spread, cause.alone = *alone, cause.several = *several;
    causes.push_back(std::move(cause));
  }
  return causes;
}

Result<Cause> parse_change(std::string_view text) {
  Cause cause{.id = "", .words = std::string(text), .verify = ""};
  for (const std::string_view word : cut(text, ' '))
    if (!read_change(word, cause)) return bad_input("'{}' is no change of a machine", word);
  return cause;
}

Result<std::vector<Cause>> shipped_causes() {
  for (const auto& file : embedded::doctor_files())
    if (file.path == "data/doctor/causes.tsv") return parse_causes(file.path, file.text);
  return bad_input("data/doctor/causes.tsv is not compiled in");
}

double rate_for(std::span<const Slowdown> slowdowns, double part) {
  const double times = 1 / part;
  for (std::size_t i = 1; i < slowdowns.size(); ++i) {
    const Slowdown &above = slowdowns[i - 1], &below = slowdowns[i];
    if (below.times < times || below.times <= above.times) continue;
    const double way = std::log(times / above.times) / std::log(below.times / above.times);
    return above.rate * std::pow(below.rate / above.rate, std::max(0.0, way));
  }
  return slowdowns.back().rate * slowdowns.back().times * part;  // beyond the last: the network is the limit
}

std::optional<topology::Topology> changed(const topology::Topology& machine, const Cause& cause) {
  const bool network =
      cause.network != 1 || cause.links != 1 || cause.node_cap || cause.late > 0 || !cause.faults.empty();
  bool touched = !cause.protocol.empty();
  std::map<std::int32_t, double> nic_rates;  // of a node, bytes per second
  for (const topology::Link& link : machine.links()) {
    if (link.kind == LinkKind::kNetwork)
      for (const auto end : {link.a, link.b}) {
        const topology::Device& device = machine.device(end);
        if (device.kind == topology::DeviceKind::kNic) nic_rates[device.node] += link.rate_ab.value();
      }
    touched = touched || (network && link.kind == LinkKind::kNetwork) ||
              (cause.nvlink != 1 && topology::is_scale_up(link.kind));
  }
  if (!touched || (network && machine.nodes() < 2)) return std::nullopt;
  topology::Topology changed;
  changed.title = machine.title;
  changed.routing = machine.routing;
  for (const topology::Device& device : machine.devices()) changed.add(device);
  for (topology::Link link : machine.links()) {
    double factor = topology::is_scale_up(link.kind) ? cause.nvlink : 1;
    if (link.kind == LinkKind::kNetwork) {
      factor = cause.network * cause.links;
      for (const auto end : {link.a, link.b}) {
        const topology::Device& device = machine.device(end);
        if (device.kind != topology::DeviceKind::kNic) continue;
        if (cause.node_cap) factor = std::min(factor, *cause.node_cap * 1e9 / nic_rates[device.node]);
        link.latency = link.latency + Duration::microseconds(cause.late / 2);  // each way has two NICs
      }
    }
    link.rate_ab = link.rate_ab * factor;
    link.rate_ba = link.rate_ba * factor;
    changed.connect(link);
  }
  return changed;
}

double distance(std::span<const Residual> rows) {
  double sum = 0;
  int n = 0;
  for (const Residual& r : rows)
    if (r.large) sum += std::abs(r.ln), ++n;
  return n > 0 ? sum / n : 0;
}

double log_likelihood(std::span<const Residual> rows, double spread) {
  // Of large rows: the mean has the spread and the model's error, what is left of each row an error of its own.
  double mean = 0, n = 0;
  for (const Residual& r : rows)
    if (r.large) mean += r.ln, ++n;
  double log = 0;
  if (n > 0) {
    mean /= n;
    const double variance = spread * spread + kModelError * kModelError;
    log -= 0.5 * mean * mean / variance + 0.5 * std::log(variance);
    double squares = 0;
    for (const Residual& r : rows)
      if (r.large) squares += (r.ln - mean) * (r.ln - mean);
    log -= 0.5 * std::min(n, kMostIndependentRows) * squares / n / (kRowError * kRowError);
  }
  double small = 0, count = 0;
  for (const Residual& r : rows)
    if (!r.large) small += r.ln * r.ln, ++count;
  if (count > 0) log -= 0.5 * std::min(count, kMostIndependentRows) * small / count / (kSmallRowError * kSmallRowError);
  return log;
}

}  // namespace weft::doctor
