#pragma once

#include <cstdint>
#include <string>

#include "apps/cli/common.h"

namespace weft::cli {

// `weft fit MODEL GPU --train`, as it is typed. Sequences are of `context` tokens; 0: the model's, at most 8192.
struct TrainingFit {
  std::string model, preset, precision = "bf16", json;
  std::int64_t gpus = 1, context = 0, lora = 0;
};

// Prints the fastest plan that fits for certain, else tightly, with its memory, or what would make the model fit;
// writes weft.fit/1 where asked. Returns the exit status. Errors: bad input.
Result<int> fit_training(const TrainingFit& asked);
// The same as weft.fit/1.
Result<nlohmann::json> training_fit_json(const TrainingFit& asked);

}  // namespace weft::cli
