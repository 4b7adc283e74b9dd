#pragma once

#include "apps/serving/point.h"

namespace weft::serving {

// A model on some GPUs of a kind: memory, and what one and many requests get.
struct Fitting {
  std::string model, card, precision, cache;
  Plan plan;
  Memory memory;               // of a GPU
  std::int64_t longest = 0;    // tokens of one request, at most the model's
  std::int64_t together = 0;   // requests of `context` tokens that the cache holds
  std::int64_t running = 0;    // … of them at once in an engine, at most kMostRunning
  double alone = 0, full = 0;  // output tokens/s of one request, and of all that run at once
  bool fits = false;
  std::string would;  // what would make it fit; empty: it fits, or nothing was found
  // |predicted / measured - 1| of a token's time that nine of ten measured rows are within; rates lie between 1 - error
  // and 1 + error of those above.
  double error = 0;
};

// Sequences of an iteration at most: what engines' defaults lie around.
inline constexpr std::int64_t kMostRunning = 512;

// The plan of a model on GPUs that share it: tensor parallel as far as its heads allow; of a model with experts
// replicas of attention for the rest, and experts spread over all. Errors (bad input): no such plan.
Result<Plan> plan_on(const Shape& shape, Rank gpus);

// The names of GPUs that `weft fit` knows for a text: "h100", "H100-SXM5", "b200". Errors (bad input): none or several.
Result<std::string> preset_of(const std::string& gpu);

// `context`: tokens of a request, a quarter of them made by the model. Errors: those of answer, but not that it does
// not fit.
Result<Fitting> fit_model(Place& place, const Question& question, std::int64_t context);

}  // namespace weft::serving
