#pragma once

#include <cstdint>

#include "base/units.h"
#include "weft/types.h"

namespace weft::exec {

// Divides `bytes` of integers by `divisor`, towards zero: what turns the sum of an average into the average.
// Requires: an integer type, divisor > 0.
void divide(DataType type, std::byte* data, Bytes bytes, std::int64_t divisor);

}  // namespace weft::exec
