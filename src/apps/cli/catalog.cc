#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "apps/cli/commands.h"
#include "base/embedded.h"
#include "base/models/model.h"
#include "machine/catalog/catalog.h"
#include "machine/machine.h"
#include "machine/preset_names.h"

namespace weft::cli {
namespace {

struct Spec {
  std::string word, json;
};

constexpr const char* kExamples = R"(
Examples:
  weft catalog                 every machine, model and part, with sources
  weft catalog models          the models that train, serve, fit and advise know
  weft catalog nvlink          what has "nvlink" in its name, kind or title
  weft catalog --json -

GPUs' memory is in GiB (2^30 B), for which data sheets write GB; rates are in GB/s (10^9 B).
)";

// The kinds in the order in which they are listed.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kKinds = {{
    {"accelerator", "Accelerators"},
    {"nvlink", "NVLink"},
    {"xgmi", "Infinity Fabric (XGMI)"},
    {"chip-link", "Chip-to-chip links of other vendors"},
    {"pcie", "PCIe"},
    {"inter-socket", "Between sockets"},
    {"memory", "Memory and storage tiers"},
    {"cpu", "CPUs"},
    {"switch", "Switches"},
    {"network", "Networks"},
    {"nic", "NICs"},
    {"host-setting", "Address translation and host settings"},
}};

bool matches(std::string_view word, std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts)
    if (text.find(word) != std::string_view::npos) return true;
  return word.empty();
}

std::string figure_text(const std::string& key, const topology::Figure& f) {
  std::string text = fmt::format("{} {:g} {}", key, f.value, f.unit);
  if (!f.direction.empty()) text += f.direction == "both" ? " both directions" : " " + f.direction;
  return text;
}

void print_part(const topology::Part& part) {
  const auto year = part.facts.find("year");
  fmt::print("  {:<20} {}{}\n", part.name, part.title,
             year == part.facts.end() ? "" : fmt::format(" ({})", year->second));
  std::string line;
  std::map<std::string, std::string> sources;  // to the figures that have it
  for (const auto& [key, figure] : part.figures) {
    line += fmt::format("{}{}", line.empty() ? "" : ", ", figure_text(key, figure));
    std::string& keys = sources[fmt::format("{} ({})", figure.source, figure.date)];
    keys += (keys.empty() ? "" : ", ") + key;
  }
  if (!line.empty()) fmt::print("  {:<20}   {}\n", "", line);
  for (const auto& [source, keys] : sources)
    fmt::print("  {:<20}   source{}: {}\n", "", sources.size() > 1 ? " of " + keys : "", source);
  for (const char* key : {"multicast", "reduce"})
    if (const auto at = part.facts.find(key); at != part.facts.end())
      fmt::print("  {:<20}   {}: {}\n", "", key, at->second);
  if (const auto note = part.facts.find("note"); note != part.facts.end())
    fmt::print("  {:<20}   note: {}\n", "", note->second);
}

nlohmann::json to_json(const topology::Part& part) {
  nlohmann::json figures = nlohmann::json::object();
  for (const auto& [key, f] : part.figures) {
    figures[key] = {{"value", f.value}, {"unit", f.unit}, {"source", f.source}, {"date", f.date}};
    if (!f.direction.empty()) figures[key]["direction"] = f.direction;
    if (!f.note.empty()) figures[key]["note"] = f.note;
  }
  return {{"name", part.name}, {"kind", part.kind}, {"title", part.title}, {"facts", part.facts}, {"figures", figures}};
}

Result<int> list_catalog(const Spec& spec) {
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  std::vector<topology::PresetInfo> presets;
  for (auto& p : topology::presets())
    if (matches(spec.word,
                {p.name, p.summary, "machines", fmt::format("{}", fmt::join(topology::also_called(p.name), " "))}))
      presets.push_back(std::move(p));
  const auto wanted = [&](const topology::Part& p) { return matches(spec.word, {p.name, p.kind, p.title}); };
  std::vector<std::string> known = models::catalog_names();
  std::erase_if(known, [&](const std::string& name) { return !matches(spec.word, {name, "models"}); });
  if (presets.empty() && known.empty() && std::ranges::none_of(catalog.parts(), wanted))
    return bad_input("the catalogue has nothing with '{}' in its name", spec.word);
  if (!spec.json.empty()) {
    nlohmann::json machines = nlohmann::json::array(), parts = nlohmann::json::array();
    for (const auto& p : presets)
      machines.push_back({{"name", p.name},
                          {"summary", p.summary},
                          {"source", p.source},
                          {"note", p.note},
                          {"names", topology::also_called(p.name)}});
    for (const auto& part : catalog.parts())
      if (wanted(part)) parts.push_back(to_json(part));
    WEFT_CHECK(write_json(spec.json,
                          {{"schema", "weft.catalog/1"}, {"presets", machines}, {"models", known}, {"parts", parts}}));
    if (spec.json == "-") return 0;
  }
  if (!presets.empty()) fmt::print("Machines for --on\n");
  if (spec.word.empty()) fmt::print("  {:<20} the machine at hand\n", "this");
  for (const auto& p : presets) {
    fmt::print("  {:<20} {}\n  {:<20}   source: {}\n", p.name, p.summary, "", p.source);
    if (const auto names = topology::also_called(p.name); !names.empty())
      fmt::print("  {:<20}   also called {}\n", "", fmt::join(names, ", "));
    if (!p.note.empty()) fmt::print("  {:<20}   note: {}\n", "", p.note);
  }
  if (!known.empty())
    fmt::print("{}Models for train, serve, fit and advise\n  {}\n", presets.empty() ? "" : "\n", fmt::join(known, " "));
  for (const auto& [kind, heading] : kKinds) {
    bool any = false;
    for (const auto& part : catalog.parts()) {
      if (part.kind != kind || !wanted(part)) continue;
      if (!any) fmt::print("\n{}\n", heading);
      any = true;
      print_part(part);
    }
  }
  return 0;
}

}  // namespace

Command add_catalog(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("catalog", "List machines, models and parts, with numbers and sources");
  sub->add_option("word", spec->word, "only what has this in its name, kind or title");
  sub->add_option("--json", spec->json, "write weft.catalog/1 to this file; - is stdout")->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return list_catalog(*spec); }};
}

}  // namespace weft::cli
