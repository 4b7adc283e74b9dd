#pragma once

#include "exec/kernels/fold.h"

// Highway compiles the kernels once for each of its targets. Left out: vectors whose size is unknown at compile time
// (formats keep them in structs; NEON serves those machines) and SSSE3 (SSE4 is in every x86 of the last 15 years).
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

// The kernels that fold.cc chooses from: those of each family of types, in a file of its own so that each compiles in
// bearable time; and what all have in common.
namespace weft::exec {

fabric::Fold integer_fold(DataType type, ReduceOp op, Stores stores);  // fold_integers.cc
fabric::Fold bitwise_fold(ReduceOp op, Stores stores);                 // fold_integers.cc, any integer type
fabric::Fold float_fold(DataType type, ReduceOp op, Stores stores);    // fold_floats.cc: 32 and 64 bits
fabric::Fold float16_fold(DataType type, ReduceOp op, Stores stores);  // fold_float16.cc: both with 16 bits
fabric::Fold float8_fold(DataType type, ReduceOp op, Stores stores);   // fold_float8.cc: both with 8 bits

// Whether results of `bytes` may bypass the cache. Small ones may not, as they are likely to be read again soon (slots
// are filled past the cache by net/memory, from where the result is). Neither may those where stores of a vector are
// not aligned, or where a result replaces a source.
bool may_stream(std::byte* const* destinations, int destination_count, const std::byte* const* sources,
                int source_count, Bytes bytes, std::size_t vector_bytes);

// A fold of one source.
void copy(std::byte* const* destinations, int destination_count, const std::byte* source, Bytes bytes, bool stream);

}  // namespace weft::exec
