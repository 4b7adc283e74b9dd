#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serving/point.h"

namespace weft::serving {

// A measured row and what the model says of it. Times in ms.
struct ComparedRow {
  std::string id, model, system, backend, mode;
  double ttft = 0, tpot = 0;  // measured; 0: not
  Point point;                // of the model
  double said_ttft = 0, said_tpot = 0;
  std::string reason;  // why there is no answer; empty: there is one
  bool answered() const { return reason.empty(); }
};

struct ErrorOf {
  std::string name;  // "all", or a model, system, backend or mode
  std::size_t rows = 0, answered = 0;
  double tpot_median = 0, tpot_mean = 0, tpot_bias = 0, ttft_median = 0, ttft_mean = 0, ttft_bias = 0;
};

struct ServingComparison {
  std::vector<ComparedRow> rows;
  std::vector<ErrorOf> errors() const;  // all, then by mode, model, system and backend
};

// Rows in the form of data/silicon/serving/rows.csv: id, backend, model_path, system, isl, osl, concurrency, mode, the
// plan's sizes, gemm_quant_mode; measured columns silicon_ttft_ms and silicon_tpot_ms may be missing. A row that cannot
// be answered says why and never ends the others. Errors (bad input): no CSV, or no column id.
// `progress`: called before each row; may be empty.
Result<ServingComparison> compare_serving(std::string_view file, std::string_view text,
                                          const std::function<void(std::size_t row, std::size_t rows)>& progress);

// id, ttft_ms, tpot_ms, reason, then what the time consists of.
std::string predictions_csv(const ServingComparison& comparison);
std::string in_words(const ServingComparison& comparison);

}  // namespace weft::serving
