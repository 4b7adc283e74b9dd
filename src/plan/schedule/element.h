#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "weft/types.h"

// The words for element types and operations, wherever they are printed or typed.
namespace weft::schedule {

// "float", "bfloat16", "sum": as nccl-tests says where it has a word.
std::string_view name(DataType type);
std::string_view name(ReduceOp op);

// All names that are understood, the printed ones first. Errors (bad input): lists the printed ones.
Result<DataType> parse_type(std::string_view text);
Result<ReduceOp> parse_op(std::string_view text);

// Does the order in which contributions are combined show in the result? Integers wrap and extremes are exact.
bool order_matters(DataType type, ReduceOp op);

// What switches can combine. NVSwitch: as NCCL's ncclNvlsSupported (src/include/device.h of 2.30): sums of floats of 4
// and 8 bytes; sums, minima and maxima of 32- and 64-bit integers, halves and bfloat16. SHARP: sums, minima and maxima
// of elements of 2 bytes and more. Averages of floats are sums of scaled elements, which no switch scales.
bool nvswitch_combines(DataType type, ReduceOp op);
bool sharp_combines(DataType type, ReduceOp op);

// The printed names, separated.
std::string type_names(std::string_view separator);
std::string op_names(std::string_view separator);

}  // namespace weft::schedule
