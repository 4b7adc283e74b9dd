#pragma once

#include <string>
#include <string_view>

#include "apps/doctor/matrix.h"
#include "base/result.h"

namespace weft::cli {

// The preset of machines with this GPU, by the name that tables print; empty: a table does not say which machine.
std::string_view machine_with(std::string_view gpu);

// Judges bandwidths between pairs of GPUs, or between the host and each: against the links of the machine `on` (empty:
// of the one that the GPU's name means), and against each other. Exit status 0, or 1 where a pair is slow.
Result<int> check_matrices(const std::string& file, const std::string& on, const std::string& json,
                           const doctor::PairMatrices& read);

}  // namespace weft::cli
