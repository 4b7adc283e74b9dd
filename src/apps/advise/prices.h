#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::advise {

// Price and power of one kind of GPU, each with its source and date.
struct CardPrice {
  std::string part;     // as the catalogue names the GPU
  std::string machine;  // preset that is looked at where no machine is named; empty: none
  double per_gpu_hour = 0;
  std::string price_source;  // "CoreWeave, …, 2026-09-20"
  double watts = 0;          // of a GPU with its share of the node; 0: unknown
  std::string power_source;
};

struct Prices {
  std::string currency;
  std::vector<CardPrice> cards;

  const CardPrice* find(std::string_view part) const;  // null: unknown
  std::vector<std::string> machines() const;
};

// Errors (bad input): no weft.prices/1; a price without a source and date, or one that is not above 0; names the file
// and the card.
Result<Prices> parse_prices(std::string_view file, std::string_view text);
// data/prices, as compiled in.
Result<Prices> shipped_prices();

}  // namespace weft::advise
