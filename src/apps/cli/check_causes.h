#pragma once

#include <string>
#include <vector>

#include "apps/cli/commands.h"
#include "apps/doctor/causes.h"
#include "model/accuracy/predict.h"

namespace weft::cli {

constexpr Bytes kLargeMessage = Bytes{16} << 20;  // from which bandwidth alone counts

// A cause, how far it leaves the table from the model (mean |ln|), and how likely the table makes it.
struct Explanation {
  std::string id, words, verify;
  double left = 0, likelihood = 0, spread = 0;
};

// Each row's measured time over the predicted one.
Result<std::vector<doctor::Residual>> residuals(accuracy::Predictor& predictor, const accuracy::Table& table);
// A part of the rows is enough for a replay: neighbouring sizes say the same.
accuracy::Table sample(const accuracy::Table& table);
// All causes by their likelihood after the table, which sum to 1.
Result<std::vector<Explanation>> explanations(accuracy::Predictor& predictor, const Machine& machine,
                                              const accuracy::Table& table,
                                              const std::vector<doctor::Residual>& healthy);

}  // namespace weft::cli
