#include "apps/advise/prices.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/advise/files.h"
#include "base/json_text.h"

namespace weft::advise {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

// "title, date" of a source that a card names.
Result<std::string> source_of(std::string_view file, const json& whole, const json& card, const char* key) {
  const std::string part = text_of(card, "part"), name = text_of(card, key);
  const json& sources = whole["sources"];
  if (!sources.contains(name) || !sources[name].is_object() || text_of(sources[name], "title").empty() ||
      text_of(sources[name], "date").empty())
    return bad_input("{}: {}: {} '{}' is no source with title and date", file, part, key, name);
  return fmt::format("{}, {}", text_of(sources[name], "title"), text_of(sources[name], "date"));
}

Result<double> positive(std::string_view file, const json& card, const char* key) {
  const auto at = card.find(key);
  const double value = at != card.end() && at->is_number() ? at->get<double>() : 0;
  if (value > 0 && std::isfinite(value)) return value;
  return bad_input("{}: {}: {} is no number above 0", file, text_of(card, "part"), key);
}

}  // namespace

const CardPrice* Prices::find(std::string_view part) const {
  const auto at = std::ranges::find(cards, part, &CardPrice::part);
  return at == cards.end() ? nullptr : &*at;
}

std::vector<std::string> Prices::machines() const {
  std::vector<std::string> all;
  for (const CardPrice& c : cards)
    if (!c.machine.empty()) all.push_back(c.machine);
  return all;
}

Result<Prices> parse_prices(std::string_view file, std::string_view text) {
  WEFT_TRY(const json whole, parse_json(file, text));
  if (!whole.is_object() || text_of(whole, "schema") != "weft.prices/1" || !whole.contains("sources") ||
      !whole["sources"].is_object() || !whole.contains("cards") || !whole["cards"].is_array())
    return bad_input("{}: no weft.prices/1 with currency, sources and cards (data/prices/prices.json is one)", file);
  Prices prices{.currency = text_of(whole, "currency")};
  if (prices.currency.empty()) return bad_input("{}: currency is missing", file);
  for (const json& card : whole["cards"]) {
    if (!card.is_object() || text_of(card, "part").empty()) return bad_input("{}: a card without part", file);
    CardPrice price{.part = text_of(card, "part"), .machine = text_of(card, "machine")};
    if (prices.find(price.part) != nullptr) return bad_input("{}: {} stands there twice", file, price.part);
    WEFT_TRY(price.per_gpu_hour, positive(file, card, "per_gpu_hour"));
    WEFT_TRY(price.price_source, source_of(file, whole, card, "price_source"));
    if (card.contains("watts")) {
      WEFT_TRY(price.watts, positive(file, card, "watts"));
      WEFT_TRY(price.power_source, source_of(file, whole, card, "power_source"));
    }
    prices.cards.push_back(std::move(price));
  }
  if (prices.cards.empty()) return bad_input("{}: no cards", file);
  return prices;
}

Result<Prices> shipped_prices() {
  for (const auto& file : embedded::price_files())
    if (file.path.ends_with("/prices.json")) return parse_prices(file.path, file.text);
  return bad_input("data/prices/prices.json is not compiled in");
}

}  // namespace weft::advise
