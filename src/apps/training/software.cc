#include "apps/training/software.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/training/files.h"
#include "base/text.h"

namespace weft::training {
namespace {

using nlohmann::json;

constexpr double kSteadying = 1;  // samples

const json& file_named(std::string_view path) {
  static const std::map<std::string, json, std::less<>> files = [] {
    std::map<std::string, json, std::less<>> read;
    for (const auto& file : embedded::training_files()) read.emplace(file.path, json::parse(file.text, nullptr, false));
    return read;
  }();
  static const json none = json::object();
  const auto at = files.find(path);
  return at == files.end() || !at->second.is_object() ? none : at->second;
}

const json& software() { return file_named("data/training/software.json"); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The key's ancestors, the widest first, then itself.
std::vector<LevelKey> widths(const LevelKey& key) {
  LevelKey all{.experts = key.experts}, framework = all, card = all, precision = all;
  framework.release.framework = key.release.framework;
  card = framework, card.chip = key.chip;
  precision = card, precision.precision = key.precision;
  LevelKey release = precision;
  release.release = key.release;
  return {all, framework, card, precision, release};
}

std::vector<Level> shipped_levels() {
  std::vector<Level> levels;
  for (const json& e : file_named("data/training/levels.json").value("levels", json::array()))
    levels.push_back({{{e.value("framework", ""), e.value("year", 0), e.value("month", 0)},
                       e.value("chip", ""),
                       e.value("precision", ""),
                       e.value("experts", false)},
                      e.value("level", 1.0),
                      e.value("rows", std::size_t{0})});
  return levels;
}

}  // namespace

Result<Release> parse_release(std::string_view text) {
  Release release;
  std::size_t digits = text.size();
  while (digits > 0 && (std::isdigit(static_cast<unsigned char>(text[digits - 1])) != 0 || text[digits - 1] == '.'))
    --digits;
  std::string framework(text.substr(0, digits));
  while (!framework.empty() && (framework.back() == '-' || framework.back() == ' ')) framework.pop_back();
  std::string known;
  for (const json& f : software().value("frameworks", json::array())) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", f.value("name", ""));
    if (f.value("name", "") == framework) release.framework = framework;
  }
  if (release.framework != framework)
    return bad_input("--software {}: '{}' is none of {}", shown(text), shown(framework), known);
  const std::string_view date = text.substr(digits);
  if (date.empty()) {
    if (framework.empty())
      return bad_input("--software: a year, or a framework and a year, e.g. megatron-bridge-26.04");
    return release;
  }
  const std::size_t dot = date.find('.');
  WEFT_TRY(const std::int64_t year, parse_integer("--software: year", date.substr(0, dot), 0, 2100));
  release.year = static_cast<int>(year < 100 ? 2000 + year : year);
  if (release.year < 2017) return bad_input("--software {}: a year from 2017 (the transformer's) on", shown(text));
  constexpr int kLast = 2026;  // of the releases that data/training/levels.json was fitted to
  if (release.year > kLast)
    return bad_input("--software {}: measured steps are known up to {}, the nearest year", shown(text), kLast);
  if (dot == std::string_view::npos) return release;
  const std::string_view rest = date.substr(dot + 1);
  WEFT_TRY(const std::int64_t month, parse_integer("--software: month", rest.substr(0, rest.find('.')), 1, 12));
  release.month = static_cast<int>(month);
  return release;
}

std::string name(const Release& release) {
  std::string text = release.framework;
  if (release.year > 0) text += fmt::format("{}{}", text.empty() ? "" : " ", release.year);
  if (release.month > 0) text += fmt::format(".{:02}", release.month);
  return text;
}

std::string published_memory(std::string_view framework) {
  for (const json& f : software().value("frameworks", json::array()))
    if (f.value("name", "") == framework) return f.value("memory", "reserved");
  return "reserved";
}

std::string framework_of(std::string_view source) {
  for (const json& f : software().value("frameworks", json::array()))
    for (const json& mark : f.value("marks", json::array()))
      if (source.find(mark.get<std::string>()) != std::string_view::npos) return f.value("name", "");
  return "";
}

std::vector<Level> fit_levels(std::span<const LevelSample> samples) {
  std::map<LevelKey, std::map<std::string, std::vector<double>>> by_source;
  std::map<LevelKey, std::size_t> rows;
  for (const LevelSample& s : samples)
    for (const LevelKey& key : widths(s.key)) by_source[key][s.source].push_back(std::log(s.level)), ++rows[key];
  std::map<LevelKey, double> fitted;
  std::vector<Level> levels;
  std::set<LevelKey> done;
  for (std::size_t width = 0; width < 5; ++width)
    for (const LevelSample& s : samples) {
      const std::vector<LevelKey> keys = widths(s.key);
      const LevelKey& key = keys[width];
      if (!done.insert(key).second) continue;
      std::vector<double> medians;
      for (const auto& [source, values] : by_source[key]) medians.push_back(median(values));
      const double above = width == 0 ? 0 : fitted[keys[width - 1]], n = static_cast<double>(rows[key]);
      fitted[key] = (n * median(medians) + kSteadying * above) / (n + kSteadying);
      levels.push_back({key, std::exp(fitted[key]), rows[key]});
    }
  return levels;
}

double level_of(std::span<const Level> levels, const LevelKey& key) {
  double level = 1;
  for (const LevelKey& wide : widths(key))
    if (const auto at = std::ranges::find(levels, wide, &Level::key); at != levels.end()) level = at->level;
  return level;
}

Result<Card> with_software(Card card, const Plan& plan) {
  for (const json& h : software().value("host", json::array())) {
    if (h.value("framework", "") != plan.framework || (h.contains("precision") && h["precision"] != card.precision))
      continue;
    if (h.contains("from") && !plan.since(h["from"][0].get<int>(), h["from"][1].get<int>())) continue;
    if (h.contains("before") && plan.since(h["before"][0].get<int>(), h["before"][1].get<int>())) continue;
    card.host = h.value("layer_us", 0.0) * 1e-6;
    card.host_experts = h.value("experts_us", 0.0) * 1e-6;
    WEFT_TRY(card.launches, kernels::parse_launch(h.value("launch", "eager")));
    break;
  }
  card.launches = plan.launch.value_or(card.launches);
  if (!card.fitted.empty()) return card;
  static const std::vector<Level> levels = shipped_levels();
  LevelKey key{{plan.framework, plan.software, plan.month}, card.chip, card.precision, false};
  card.level = level_of(levels, key);
  key.experts = true;
  card.level_experts = level_of(levels, key);
  return card;
}

bool fitted_to(std::string_view row) {
  const json& rows = file_named("data/training/levels.json").value("fitted_to", json::array());
  return std::ranges::any_of(rows, [&](const json& r) { return r == row; });
}

}  // namespace weft::training
