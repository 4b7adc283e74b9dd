#include "apps/training/card.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/training/files.h"
#include "base/json_text.h"
#include "machine/catalog/catalog.h"

namespace weft::training {
namespace {

using nlohmann::json;

struct Tile {
  double rows, columns, share;  // share of the best tile's rate
};
constexpr std::array kTiles = {Tile{256, 128, 1.0}, Tile{128, 128, 0.93}, Tile{128, 64, 0.78}, Tile{64, 64, 0.6}};
// Of k at 16 bit: starting a tile's pipeline and writing its result, which takes as long at 8 and 4 bit.
constexpr double kPrologue = 256;

Result<json> table() {
  for (const auto& file : embedded::training_files()) {
    if (file.path != "data/training/cards.json") continue;
    json cards = json::parse(file.text, nullptr, false);
    if (!cards.is_object() || !cards.contains("sources")) return bad_input("{}: no table of cards", file.path);
    for (const auto& card : cards["cards"])
      for (const char* key : {"gemm", "attention"})
        if (!cards["sources"].contains(card[key].value("source", "")))
          return bad_input("{}: chip {}: {} has no source", file.path, card.value("chip", ""), key);
    return cards;
  }
  return bad_input("data/training/cards.json is not compiled in");
}

double peak_of(const topology::Part& part, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const auto* figure = part.figure(key)) return figure->value * 1e12;
  return 0;
}

// The shares of one entry, where it has the precision.
void take(const json& entry, const std::string& precision, Card& card) {
  if (!entry["gemm"].contains(precision)) return;
  card.gemm = entry["gemm"].value(precision, 0.0);
  if (!entry.contains("attention")) return;
  card.attention_forward = entry["attention"].value("forward", 0.0);
  card.attention_backward = entry["attention"].value("backward", 0.0);
  card.attention_before_2024 = entry["attention"].contains("before_2024") && card.attention_forward > 0
                                   ? entry["attention"].value("before_2024", 0.0) / card.attention_forward
                                   : 1;
}

}  // namespace

Status check_cards(const OwnCards& own) {
  if (own.file.empty()) return {};
  WEFT_TRY(const json cards, parse_json(own.file, own.text));
  if (!cards.is_object() || cards.value("schema", "") != "weft.cards/1" || !cards.contains("cards") ||
      !cards["cards"].is_array() || !cards.contains("sources") || !cards["sources"].is_object())
    return bad_input("{}: no weft.cards/1 with sources and cards; weft calibrate --train writes one", own.file);
  for (const json& card : cards["cards"]) {
    if (!card.is_object() || !card.contains("chip") || !card["chip"].is_string())
      return bad_input("{}: a card has no chip", own.file);
    const std::string chip = card["chip"];
    for (const char* key : {"gemm", "attention"}) {
      if (!card.contains(key)) continue;
      if (!card[key].is_object()) return bad_input("{}: chip {}: {} is no object", own.file, chip, key);
      for (const auto& [name, value] : card[key].items()) {
        if (name == "source") continue;
        if (!value.is_number() || !(value.get<double>() > 0 && value.get<double>() <= 1))
          return bad_input("{}: chip {}: {} {} {} is no share above 0 and up to 1", own.file, chip, key, name,
                           value.dump());
      }
      const json source = card[key].value("source", json());
      if (!source.is_string() || !cards["sources"].contains(source.get<std::string>()))
        return bad_input("{}: chip {}: {} has no source", own.file, chip, key);
    }
    if (!card.contains("gemm")) return bad_input("{}: chip {}: gemm is missing", own.file, chip);
  }
  return {};
}

double Card::grouped_gemm_time(double groups, double m, double n, double k) const {
  if (groups <= 0 || m <= 0 || n <= 0 || k <= 0) return 0;
  double best = std::numeric_limits<double>::infinity();
  const double prologue = kPrologue * (peak16 > 0 ? std::max(1.0, peak / peak16) : 1);
  for (const Tile& tile : kTiles) {
    const double tiles = groups * std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
    // Large numbers of tiles are balanced by splitting k (stream-K); a part of the last wave is lost in any case.
    const double waves = tiles / multiprocessors;
    const double counted = waves < 1 ? 1 : 0.5 * (std::ceil(waves) + waves);
    const double rate = peak * gemm * tile.share / multiprocessors;
    best = std::min(best, counted * 2 * tile.rows * tile.columns * (k + prologue) / rate);
  }
  const double element = precision == "bf16" ? 2 : 1;
  const double bytes = groups * (element * (m * k + k * n) + 2 * m * n);
  return std::max(best, bytes / (bandwidth * memory_share)) + launch;
}

bool fitted_on(std::string_view set, std::string_view precision) {
  const auto cards = table();
  if (!cards) return false;
  const json& names = (*cards)["common"]["sustained"]["fitted_on"];
  const std::string name = fmt::format("{} {}", set, precision);
  return std::any_of(names.begin(), names.end(), [&](const json& n) { return n == name; });
}

Result<Card> load_card(std::string_view part_name, std::string_view precision, const OwnCards& own) {
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  const topology::Part* part = catalog.find(part_name);
  if (part == nullptr || part->figure("memory_rate") == nullptr)
    return bad_input("accelerator '{}' is not in the catalogue (weft catalog)", part_name);
  WEFT_TRY(const json cards, table());
  Card card{.name = part->name, .precision = std::string(precision)};
  card.peak16 = peak_of(*part, {"bf16", "fp16"});
  const bool eight = precision == "fp8" || precision == "mxfp8";
  const std::string kind(eight ? "fp8" : precision);
  card.peak = kind == "bf16"  ? card.peak16
              : kind == "fp8" ? peak_of(*part, {"fp8"})
              : kind == "fp4" ? peak_of(*part, {"fp4"})
                              : 0;
  // B300's data sheet gives FP8 as FP4 / 3 of the dense figure; the catalogue has FP4 alone.
  if (card.peak16 <= 0) return bad_input("{}: the catalogue has no 16-bit peak for it", part_name);
  if (eight && card.peak <= 0 && part->figure("fp4") != nullptr) card.peak = 2 * card.peak16;
  if (card.peak <= 0) {
    static constexpr std::string_view kKnown[] = {"bf16", "fp8", "mxfp8", "fp4"};
    if (std::ranges::find(kKnown, precision) == std::end(kKnown))
      return bad_input("--precision {} is none of {}", precision, fmt::join(kKnown, ", "));
    return bad_input("--precision {}: {} has no such units in the catalogue", precision, part_name);
  }
  card.memory = part->figure("memory") != nullptr ? part->figure("memory")->value * kGiB : 0;
  card.bandwidth = part->figure("memory_rate")->value * 1e9;
  const auto* sms = part->figure("multiprocessors");
  card.multiprocessors = sms != nullptr ? static_cast<int>(sms->value) : 148;  // Blackwell's, where none is known
  const auto fact = [&](const char* key) {
    const auto at = part->facts.find(key);
    return at == part->facts.end() ? std::string() : at->second;
  };
  const json* found = nullptr;
  for (const auto& c : cards["cards"]) {
    const std::string chip = c.value("chip", "");
    if (chip.empty() ? found == nullptr : chip == fact("sm") || chip == fact("gcn")) found = &c;
  }
  if (found == nullptr || !(*found)["gemm"].contains(kind))
    return bad_input("data/training/cards.json has no {} for {}", precision, part_name);
  card.estimated = (*found)["gemm"].value("source", "") == "estimate";
  card.chip = found->value("chip", "");
  take(*found, kind, card);
  const json& common = cards["common"];
  const double sustained = common["sustained"].value("value", 0.0);
  card.gemm *= sustained, card.attention_forward *= sustained, card.attention_backward *= sustained;
  // A board that may draw less power than its generation's GEMMs need runs them at a lower clock.
  if (const json power = cards.value("power", json::object()); power["boards"].contains(card.name)) {
    const double watts = power["boards"][card.name].get<double>(),
                 per_watt = power["per_watt"][card.chip].value(kind, 0.0);
    if (per_watt > 0) card.gemm = std::min(card.gemm, watts * per_watt * 1e12 / card.peak);
  }
  if (!own.file.empty()) {
    const json cards_of_user = json::parse(own.text, nullptr, false);
    for (const json& c : cards_of_user["cards"])
      if (c.value("chip", "") == card.chip && c["gemm"].contains(kind)) {
        take(c, kind, card);
        card.estimated = false;
        card.fitted = cards_of_user["sources"][c["gemm"].value("source", "")].value("title", own.file);
        if (c.contains("software")) card.fitted += fmt::format(", software of {}", c["software"].dump());
      }
  }
  card.memory_share = common["memory_share"].value("value", 0.0);
  card.launch = common["launch"].value("value", 0.0) * 1e-6;
  card.reserved = common["reserved"].value("value", 0.0) * kGiB;
  card.context = common["context"].value("value", 0.0) * kGiB;
  card.context_before_2023 = common["context_before_2023"].value("value", 0.0) * kGiB;
  card.connection = common["connection"].value("value", 0.0) * kGiB / 1024;
  card.nvls = common["nvls"].value("value", 0.0) * kGiB / 1024;
  return card;
}

}  // namespace weft::training
