#include "model/accuracy/fit.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace weft::accuracy {
namespace {

using nlohmann::json;
using protocol::HopCost;
using protocol::HopCosts;
using protocol::Protocol;

// Keeps constants that the tables say nothing about where they are.
constexpr double kReluctance = 0.002;

class Fitter {
 public:
  Fitter(Predictor& predictor, const std::vector<std::string>& conditions, std::span<const Table> tables, int most)
      : predictor_(predictor), conditions_(conditions) {
    for (const Table& table : tables) {
      Table thinned = table;
      thinned.points.clear();
      const auto n = static_cast<int>(table.points.size()), kept = std::min(n, most);
      for (int i = 0; i < kept; ++i)
        thinned.points.push_back(table.points[static_cast<std::size_t>(kept > 1 ? i * (n - 1) / (kept - 1) : 0)]);
      tables_.push_back(std::move(thinned));
    }
  }

  Result<Fit> run() {
    WEFT_CHECK(choose_knobs());
    start_ = fit_.knobs;
    WEFT_TRY(fit_.before, error());
    double best = fit_.before;
    for (const double step : {2.0, 1.3, 1.1, 1.03}) {
      constexpr int kSweeps = 3;
      for (int sweep = 0; sweep < kSweeps; ++sweep) {
        const double until_now = best;
        for (Knob& knob : fit_.knobs) {
          WEFT_CHECK(turn(knob, step, best));
        }
        if (best > 0.999 * until_now) break;
      }
    }
    WEFT_TRY(fit_.after, error());
    return fit_;
  }

 private:
  // Up or down, if that helps.
  Status turn(Knob& knob, double step, double& best) {
    for (const double factor : {step, 1 / step}) {
      const double before = knob.value;
      knob.value = std::clamp(before * factor, knob.low, knob.high);
      WEFT_TRY(const double now, error());
      const double cost = now + reluctance();
      if (cost < best) {
        best = cost;
        return {};
      }
      knob.value = before;
    }
    return {};
  }

  double reluctance() const {
    double sum = 0;
    for (std::size_t i = 0; i < start_.size(); ++i)
      sum += kReluctance * std::abs(std::log(fit_.knobs[i].value / start_[i].value));
    return sum;
  }

  // With the knobs as they are.
  Result<double> error() {
    WEFT_TRY(auto costs, HopCosts::calibrated(HopCosts::Endpoint::kGpu, conditions_, "fit",
                                              to_calibration(fit_, "", "being fitted", "now")));
    predictor_.set_costs(std::move(costs));
    double sum = 0;
    fit_.points = 0;
    for (const Table& table : tables_)
      for (const Point& point : table.points) {
        WEFT_TRY(const Prediction p, predictor_.predict(table, point));
        sum += std::abs(std::log(p.time / point.time));
        ++fit_.points;
      }
    return fit_.points > 0 ? sum / fit_.points : 0;
  }

  // Every number that some prediction may depend on: of the paths between ranks and of the protocols that were used.
  Status choose_knobs() {
    std::set<std::string_view> protocols, paths;
    bool together = false;
    for (const Table& table : tables_) {
      together = together || table.gpus_per_thread != 1;
      for (const Point& point : table.points) {
        WEFT_TRY(const Prediction p, predictor_.predict(table, point));
        if (!p.by_nccl) protocols.insert(p.protocol);
        const Rank ranks = point.ranks > 0 ? point.ranks : predictor_.machine().endpoints();
        for (Rank r = 1; r < ranks; ++r) paths.insert(name(predictor_.machine().path(0, r).type));
      }
    }
    std::set<std::string> entries;  // several kinds of path share an entry
    for (const std::string_view path : paths) {
      const HopCosts& costs = predictor_.machine().costs();
      bool known = false;
      for (const std::string_view p : protocols) {
        WEFT_TRY(const Protocol protocol, protocol::parse_protocol(p));
        const HopCost* cost = costs.find(path, protocol);
        if (cost == nullptr) continue;
        if (!std::exchange(known, true)) add("paths", path, "", "efficiency", cost->efficiency, 0.1, 1);
        const std::string_view entry = path == "PXB" || path == "PHB" || path == "SYS" ? "PIX" : path;
        if (!entries.insert(std::string(entry) + std::string(p)).second) continue;
        add("hops", entry, p, "latency_us", cost->least.us(), 0.1, 5000);
        add("hops", entry, p, "added_us", cost->added.us(), 0.1, 5000);
        add("hops", entry, p, "fence_us", cost->fence.us(), 0.1, 1000);
        add("hops", entry, p, "channel_GBps", cost->channel.gb(), 0.1, 200);
      }
    }
    for (const std::string_view p : protocols) {
      WEFT_TRY(const Protocol protocol, protocol::parse_protocol(p));
      if (const Duration* launch = predictor_.machine().costs().launch(protocol))
        add("launches", "", p, "latency_us", launch->us(), 0.5, 1000);
    }
    if (together) {
      const HopCosts& costs = predictor_.machine().costs();
      add("host_launches", "", "", "latency_us", costs.host_launch(1).us(), 0.5, 100);
      add("host_launches", "", "", "channel_us", (costs.host_launch(2) - costs.host_launch(1)).us(), 0.01, 10);
    }
    return {};
  }

  void add(std::string_view list, std::string_view path, std::string_view protocol, std::string_view field,
           double value, double low, double high) {
    if (value <= 0) return;  // what a kind of hop does not have
    fit_.knobs.push_back({std::string(list), std::string(path), std::string(protocol), std::string(field), value,
                          std::min(low, value), std::max(high, value)});
  }

  Predictor& predictor_;
  const std::vector<std::string>& conditions_;
  std::vector<Table> tables_;
  std::vector<Knob> start_;
  Fit fit_;
};

}  // namespace

Result<Fit> fit(Predictor& predictor, const std::vector<std::string>& conditions, std::span<const Table> tables,
                int most) {
  return Fitter(predictor, conditions, tables, most).run();
}

std::string to_calibration(const Fit& fit, std::string_view machine, std::string_view source, std::string_view date) {
  json root = {{"schema", "weft.calibration/1"}, {"machine", machine}};
  for (const Knob& knob : fit.knobs) {
    json& list = root[knob.list];
    if (list.is_null()) list = json::array();
    auto entry = std::ranges::find_if(list, [&](const json& e) {
      return e.value("path", "") == knob.path && e.value("protocol", "") == knob.protocol;
    });
    if (entry == list.end()) {
      list.push_back({{"endpoint", "gpu"}, {"source", source}, {"date", date}});
      entry = list.end() - 1;
      if (!knob.path.empty()) (*entry)["path"] = knob.path;
      if (!knob.protocol.empty()) (*entry)["protocol"] = knob.protocol;
    }
    (*entry)[knob.field] = std::round(knob.value * 1e4) / 1e4;
  }
  return root.dump(2) + "\n";
}

}  // namespace weft::accuracy
