#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/training/card.h"
#include "apps/training/memory.h"
#include "apps/training/plan.h"
#include "apps/training/software.h"

namespace weft::training {

// A measured step beside the model's.
struct Compared {
  std::string id, set, group, model, gpu, precision, source, plan_text;
  std::string software, recompute;  // release; as the row says it, or guessed
  bool moe = false;
  bool fitted = false;  // a constant of the model was fitted to it: fitted_to, fitted_on
  Plan plan;
  double gpus = 0, measured = 0, predicted = 0;  // s; 0: not measured
  double simple = 0;                             // s, by the median TFLOP/s of other models on the card; 0: none
  double flops_per_gpu = 0;                      // of the step
  LevelKey level_key;                            // of the level that its compute time is divided by
  double level = 1, levelled = 0;                // the level, and the seconds of the prediction that it divides
  double without_source = 0;                     // s, by levels of all other sources; 0: none
  double memory = 0, memory_predicted = 0;       // GiB; 0: not published
  bool out_of_memory = false, fits = true;       // published verdict, the model's
  Fit fit = Fit::kCertain;
  bool memory_judged = false;  // the row says enough to judge the model's memory
  std::string skipped;         // why it was not predicted
  double error() const { return predicted / measured - 1; }
};

struct Spread {
  std::size_t rows = 0;
  double median = 0, ninety = 0, bias = 0;  // of |error|; bias: median of the error
};

inline constexpr double kDiffer = 0.03;  // pairs whose steps are nearer to each other have no order

struct Comparison {
  std::vector<Compared> rows;
  std::size_t pairs = 0, pairs_right = 0;  // rows that differ only in the plan, by more than 3 %
};

// Table of measured steps with the columns of docs/training.md. A row that cannot be answered says why in `skipped`,
// and all others are answered. Errors (bad input): a column that is missing; no row can be read, with the first one's
// reason: a cell that is no number or cannot be right where it stands; names file, line and column.
// `progress`: called before every row with those so far, and how many there are. `cards`: a user's own rates of
// computing.
using CompareProgress = std::function<void(const Comparison& so_far, std::int64_t rows)>;
Result<Comparison> compare_file(const std::string& file, const CompareProgress& progress = {},
                                const OwnCards& cards = {});
Result<Comparison> compare_text(std::string_view file, std::string_view text, const CompareProgress& progress = {},
                                const OwnCards& cards = {});

double quantile(std::vector<double> values, double q);  // 0: there are none

// What identifies a row among tables: its id and what was measured.
std::string row_key(const Compared& row);
// Levels of software fitted to the rows, as data/training/levels.json has them.
nlohmann::json levels_json(const Comparison& comparison);

// Fills in the values of all rows together, which a comparison in progress does not have yet.
void conclude(Comparison& comparison);

std::string in_words(const Comparison& comparison, bool every_row);
nlohmann::json to_json(const Comparison& comparison);  // weft.train-compare/1

}  // namespace weft::training
