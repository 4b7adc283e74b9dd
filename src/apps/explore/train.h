#pragma once

#include <nlohmann/json.hpp>

#include "apps/training/answer.h"

namespace weft::explore {

// The words of a question; what it does not name is as the page begins. Errors (bad input): a key that is no word, a
// value of another type.
Result<training::Words> train_words_of(const nlohmann::json& question);

// A step for the explorer's page, weft.explorer.train/1: the report of `weft train` (weft.train/1), its answer as a
// sentence, the command, and what runs when on every stage. Lanes have at most kMostPieces passes in all; beyond that
// they are left out and `left_out` says so. Errors: those of training::answer and of the machine's name.
inline constexpr std::size_t kMostPieces = 20'000;
Result<nlohmann::json> train(const training::Words& words);

// The best plans for the words' model, machine and batch, weft.explorer.plans/1.
Result<nlohmann::json> plans(const training::Words& words);

}  // namespace weft::explore
