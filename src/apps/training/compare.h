#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/training/card.h"
#include "apps/training/plan.h"

namespace weft::training {

// A measured step beside the model's.
struct Compared {
  std::string id, set, group, model, gpu, precision, source, plan_text;
  bool moe = false;
  bool fitted = false;  // a constant of the model was fitted to it, see fitted_on
  Plan plan;
  double gpus = 0, measured = 0, predicted = 0;  // s; 0: not measured
  double simple = 0;                             // s, by the median TFLOP/s of other models on the card; 0: none
  double flops_per_gpu = 0;                      // of the step
  double memory = 0, memory_predicted = 0;       // GiB; 0: not published
  bool out_of_memory = false, fits = true;       // published verdict, the model's
  bool memory_judged = false;                    // the row says enough to judge the model's memory
  std::string skipped;                           // why it was not predicted
  double error() const { return predicted / measured - 1; }
};

struct Spread {
  std::size_t rows = 0;
  double median = 0, ninety = 0, bias = 0;  // of |error|; bias: median of the error
};

struct Comparison {
  std::vector<Compared> rows;
  std::size_t pairs = 0, pairs_right = 0;  // rows that differ only in the plan, by more than 3 %
};

// Table of measured steps with the columns of docs/training.md. Errors (bad input): a column that is missing, a cell
// that is no number or cannot be right where it stands; names file, line and column.
// `progress`: called before every row with those so far, and how many there are. `cards`: a user's own rates of
// computing.
using CompareProgress = std::function<void(const Comparison& so_far, std::int64_t rows)>;
Result<Comparison> compare_file(const std::string& file, const CompareProgress& progress = {},
                                const OwnCards& cards = {});
Result<Comparison> compare_text(std::string_view file, std::string_view text, const CompareProgress& progress = {},
                                const OwnCards& cards = {});

// Fills in the values of all rows together, which a comparison in progress does not have yet.
void conclude(Comparison& comparison);

std::string in_words(const Comparison& comparison, bool every_row);
nlohmann::json to_json(const Comparison& comparison);  // weft.train-compare/1

}  // namespace weft::training
