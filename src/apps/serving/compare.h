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
  std::string open;    // what the row does not say and the answer had to take: see left_open; empty: nothing
  bool answered() const { return reason.empty(); }
};

struct ErrorOf {
  std::string name;  // "all", or a model, system, backend, mode, or what rows leave open
  std::size_t rows = 0, answered = 0;
  std::size_t tpot_measured = 0, ttft_measured = 0;  // of those that are answered
  double tpot_median = 0, tpot_mean = 0, tpot_bias = 0, ttft_median = 0, ttft_mean = 0, ttft_bias = 0;
};

struct ServingComparison {
  std::vector<ComparedRow> rows;
  std::vector<std::string> not_read;  // columns that have no meaning here
  std::size_t answered() const;
  std::vector<ErrorOf> errors() const;  // all, then by mode, model, system, backend and what is open
};

// Rows in the form of data/silicon/serving/rows.csv, see columns_of_rows(). A row that cannot be answered says why and
// never ends the others. Errors (bad input): no CSV, or a column that every row needs is missing.
// `progress`: called before each row; may be empty.
Result<ServingComparison> compare_serving(std::string_view file, std::string_view text,
                                          const std::function<void(std::size_t row, std::size_t rows)>& progress);

// Columns that have a meaning; the first ones are needed.
struct RowColumns {
  std::vector<std::string> needed, optional;
};
const RowColumns& columns_of_rows();

// id, ttft_ms, tpot_ms, reason, then what the time consists of.
std::string predictions_csv(const ServingComparison& comparison);
std::string in_words(const ServingComparison& comparison);

}  // namespace weft::serving
