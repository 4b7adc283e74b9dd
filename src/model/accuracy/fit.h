#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/accuracy/predict.h"

namespace weft::accuracy {

// A free constant of the cost table: one number of one entry.
struct Knob {
  std::string list, path, protocol,
      field;                            // "hops", "NVL", "LL", "latency_us"; path and protocol where entries have them
  double value = 0, low = 0, high = 0;  // as it is, and between what it may be
};

struct Fit {
  std::vector<Knob> knobs;       // fitted
  double before = 0, after = 0;  // mean |ln(predicted / measured)| over the points used
  int points = 0;
};

// Fits the constants that the tables determine, one after the other with ever smaller steps, until none improves the
// mean. All tables must be of the machine of `predictor`, whose costs change meanwhile; `conditions`: of that machine.
// At most `most` points of each table are used, evenly spaced. Deterministic. Errors: of Predictor::predict.
Result<Fit> fit(Predictor& predictor, const std::vector<std::string>& conditions, std::span<const Table> tables,
                int most = 12);

// The fitted constants as weft.calibration/1, for HopCosts::calibrated. `source` and `date` go to every number.
std::string to_calibration(const Fit& fit, std::string_view machine, std::string_view source, std::string_view date);

}  // namespace weft::accuracy
