#include "model/accuracy/spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/embedded.h"
#include "plan/cost/shipped.h"
#include "plan/schedule/collective.h"

namespace weft::embedded {
std::span<const File> measured_files();
}

namespace weft::accuracy {
namespace {

using nlohmann::json;

constexpr const char *kFile = "data/measured/ratios.json", *kSilicon = "data/measured/silicon.json";
constexpr const char* kBandKeys[kBands] = {"below_64KiB", "below_16MiB", "from_16MiB"};
constexpr const char* kBandNames[kBands] = {"below 64 KiB", "64 KiB to 16 MiB", "from 16 MiB"};

std::string_view generation(int sm) {
  if (sm >= 100) return "Blackwell";
  if (sm >= 90) return "Hopper";
  if (sm == 89) return "Ada";
  if (sm >= 80) return "Ampere";
  return sm >= 70 ? "Volta" : "Pascal";
}

std::size_t band_of(Bytes bytes) { return static_cast<std::size_t>(band(bytes)); }

struct Weighted {
  double ratio, weight;
};

// The ratio below which `part` of the weight lies.
double quantile(const std::vector<Weighted>& sorted, double part) {
  double all = 0, so_far = 0;
  for (const Weighted& w : sorted) all += w.weight;
  for (const Weighted& w : sorted)
    if ((so_far += w.weight) >= part * all) return w.ratio;
  return sorted.back().ratio;
}

constexpr Rank kReach = 8;  // times as many ranks as the largest table has: beyond that nothing like it was measured

double rounded(double ratio) { return std::round(ratio * 1000) / 1000; }

}  // namespace

// What no table of these cards has: GPUs for NVLink that reach each other otherwise, or without a switch.
std::string_view other_wiring(const cost::MachineView& machine, Rank ranks, const std::string& model) {
  if (ranks < 2 || machine.endpoints() < 2 || model.find("SXM") == std::string::npos) return "";
  const auto &one = machine.topology().device(machine.device(0)), &other = machine.topology().device(machine.device(1));
  if (one.node != other.node) return "";
  const topology::Path path = machine.routes().path(machine.device(0), machine.device(1));
  if (path.type != topology::PathType::kNvl) return " without NVLink";
  return path.hops.size() < 2 && model.find("V100") == std::string::npos ? " without NVSwitch" : "";
}

MachineClass class_of(const cost::MachineView& machine, Rank ranks) {
  MachineClass found{.gpus = {}, .several_nodes = machine.nodes(ranks) > 1};
  const auto conditions = cost::conditions_of(machine.topology());
  if (!machine.costs().gpu() || !conditions) return found;
  const auto model = [&](Rank r) -> const std::string& { return machine.topology().device(machine.device(r)).model; };
  for (Rank r = 1; r < std::min(ranks, machine.endpoints()); ++r)
    if (model(r) != model(0)) return {.gpus = "several models", .several_nodes = found.several_nodes};
  constexpr std::string_view kNvidia = "sm", kAmd = "gcn";  // as costs name the generations of GPUs
  for (const std::string& c : *conditions) {
    if (c.starts_with(kNvidia))
      found.gpus = fmt::format("NVIDIA {}", generation(std::atoi(c.c_str() + kNvidia.size())));
    if (c.starts_with(kAmd)) found.gpus = fmt::format("AMD {}", c.substr(kAmd.size()));
  }
  if (!found.gpus.empty()) found.gpus += other_wiring(machine, ranks, model(0));
  return found;
}

Case case_of(const cost::MachineView& machine, Collective collective, Rank ranks) {
  return {class_of(machine, ranks), machine.topology().device(machine.device(0)).model, schedule::even_form(collective),
          ranks};
}

Ratios Ratios::of(const std::vector<Scored>& all) {
  Ratios ratios;
  for (const Scored& s : all) {
    if (s.table.use == Use::kShow || s.predictions.empty()) continue;
    OfTable& table = ratios.tables_.emplace_back(OfTable{s.table.name, s.measured, {}});
    for (std::size_t i = 0; i < s.predictions.size(); ++i)
      table.ratios[band_of(s.table.points[i].bytes)].push_back(rounded(s.table.points[i].time / s.predictions[i].time));
  }
  return ratios;
}

Result<Ratios> Ratios::parse(std::string_view name, std::string_view text) {
  Ratios ratios;
  try {
    const json root = json::parse(text);
    if (root.value("schema", "") != "weft.ratios/1") return bad_input("{}: schema is not weft.ratios/1", name);
    for (const json& entry : root.at("tables")) {
      OfTable& table = ratios.tables_.emplace_back();
      table.name = entry.at("name");
      table.measured.machine = {entry.at("gpus"), entry.at("several_nodes")};
      table.measured.card = entry.value("card", "");
      table.measured.ranks = entry.value("ranks", 0);
      WEFT_TRY(table.measured.collective, schedule::parse_collective(entry.value("collective", "all_reduce")));
      for (std::size_t b = 0; b < kBands; ++b) table.ratios[b] = entry.value(kBandKeys[b], std::vector<double>());
    }
  } catch (const json::exception& problem) {
    return bad_input("{}: {}", name, problem.what());
  }
  return ratios;
}

Result<Ratios> Ratios::shipped(bool silicon) {
  Ratios all;
  for (const embedded::File& file : embedded::measured_files()) {
    if (file.path != kFile && !(silicon && file.path == kSilicon)) continue;
    WEFT_TRY(const Ratios some, parse(file.path, file.text));
    all.tables_.insert(all.tables_.end(), some.tables_.begin(), some.tables_.end());
  }
  if (all.tables_.empty()) return failure(Code::kInternal, Blame::kProcess, "{} is not compiled in", kFile);
  return all;
}

json Ratios::to_json() const {
  json tables = json::array();
  for (const OfTable& table : tables_) {
    const Case& m = table.measured;
    json entry = {{"name", table.name},
                  {"gpus", m.machine.gpus},
                  {"several_nodes", m.machine.several_nodes},
                  {"card", m.card},
                  {"collective", schedule::name(m.collective)},
                  {"ranks", m.ranks}};
    for (std::size_t b = 0; b < kBands; ++b)
      if (!table.ratios[b].empty()) entry[kBandKeys[b]] = table.ratios[b];
    tables.push_back(std::move(entry));
  }
  return {{"schema", "weft.ratios/1"},
          {"about", "measured / predicted of every row of the tables beside, as weft accuracy --ratios FILE writes it"},
          {"tables", tables}};
}

std::optional<Spread> Ratios::spread(const Case& asked, Bytes bytes, std::string_view without) const {
  if (asked.machine.gpus.empty()) return std::nullopt;
  const std::size_t b = band_of(bytes);
  const std::string_view where = asked.machine.several_nodes ? "over several nodes" : "within a node";
  struct Level {
    std::string name;
    int tables, rows;  // at the least
    std::function<bool(const Case&)> holds;
  };
  const Level levels[] = {
      {fmt::format("{} on {} {}", schedule::name(asked.collective), asked.ranks, asked.card), 1, kLeastRows,
       [&](const Case& c) { return !asked.card.empty() && c == asked; }},
      {fmt::format("{} on {}", schedule::name(asked.collective), asked.machine.gpus), kLeastTables, 1,
       [&](const Case& c) { return c.collective == asked.collective && c.machine == asked.machine; }},
  };
  for (const Level& level : levels) {
    std::vector<Weighted> points;
    int tables = 0;
    Rank most = 0;
    for (const OfTable& table : tables_) {
      if (table.name == without || table.ratios[b].empty() || !level.holds(table.measured)) continue;
      ++tables;
      most = std::max(most, table.measured.ranks);
      for (const double ratio : table.ratios[b])
        points.push_back({ratio, 1.0 / static_cast<double>(table.ratios[b].size())});
    }
    if (tables < level.tables || std::ssize(points) < level.rows || asked.ranks > kReach * most) continue;
    std::ranges::sort(points, {}, &Weighted::ratio);
    // Of n rows a further one lies below the smallest with probability 1 / (n + 1).
    const auto n = static_cast<double>(points.size());
    return Spread{.low = quantile(points, ((1 - kInside) / 2 * (n + 1) - 1) / n),
                  .high = quantile(points, (1 + kInside) / 2 * (n + 1) / n),
                  .tables = tables,
                  .points = static_cast<int>(points.size()),
                  .of = fmt::format("{} {}, {}", level.name, where, kBandNames[b])};
  }
  return std::nullopt;
}

Ratios::Coverage Ratios::left_out() const {
  constexpr Bytes kOfBand[kBands] = {1, kMedium, kLarge};
  Coverage coverage;
  for (const OfTable& table : tables_)
    for (std::size_t b = 0; b < kBands; ++b) {
      const auto others = spread(table.measured, kOfBand[b], table.name);
      if (!others) continue;
      coverage.points += static_cast<int>(table.ratios[b].size());
      coverage.inside += static_cast<int>(std::ranges::count_if(
          table.ratios[b], [&](double ratio) { return ratio >= others->low && ratio <= others->high; }));
    }
  return coverage;
}

bool Ratios::near(const Ratios& other) const {
  constexpr double kRounding = 0.01;
  if (tables_.size() != other.tables_.size()) return false;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const OfTable &a = tables_[t], &b = other.tables_[t];
    if (a.name != b.name || !(a.measured == b.measured)) return false;
    for (std::size_t i = 0; i < kBands; ++i)
      if (!std::ranges::equal(a.ratios[i], b.ratios[i],
                              [](double x, double y) { return std::abs(x - y) <= kRounding * y; }))
        return false;
  }
  return true;
}

}  // namespace weft::accuracy
