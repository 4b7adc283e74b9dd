#pragma once

#include <nlohmann/json.hpp>

#include "apps/serving/answer.h"

namespace weft::explore {

// The words of a question about serving; what it does not name is as the page begins. Errors (bad input): a key that is
// no word, a value of another type.
Result<serving::Words> serve_words_of(const nlohmann::json& question);

// A served model for the explorer's page, weft.explorer.serve/1: the report of `weft serve` (weft.serve/1), its answer
// as a sentence, the command, and the run as lanes over time in kColumns columns. Errors: those of
// serving::serve_words.
inline constexpr std::size_t kColumns = 400, kMostEngines = 16;
Result<nlohmann::json> serve(const serving::Words& words);

// Every plan that fills the machine under the words' goals, weft.explorer.frontier/1: the report of `weft serve
// --best`, and for each row the words that ask for it. Errors: those of serving::best_words.
Result<nlohmann::json> frontier(const serving::Words& words);

}  // namespace weft::explore
