#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"
#include "weft/types.h"

namespace weft::exec {

// How an average is taken: floats scale every contribution by 1/n, integers divide the sum by n at the end.
bool divides_at_the_end(DataType type, ReduceOp op, Rank ranks);
// What a rank's input is multiplied by wherever it is read; `own`: its scalar of a premultiplied sum.
std::optional<Scalar> scale_of(DataType type, ReduceOp op, Rank ranks, std::optional<Scalar> own);

// Divides `bytes` of integers by `divisor`, towards zero: what turns the sum of an average into the average.
// Requires: an integer type, divisor > 0.
void divide(DataType type, std::byte* data, Bytes bytes, std::int64_t divisor);

}  // namespace weft::exec
