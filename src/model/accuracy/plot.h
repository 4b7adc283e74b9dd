#pragma once

#include <string>

#include "model/accuracy/score.h"

namespace weft::accuracy {

// A table as an SVG picture: measured times as dots, predicted as a line, both axes logarithmic; over the number of
// ranks where the table has one size only. Requires: predictions.
std::string plot(const Scored& scored);

}  // namespace weft::accuracy
