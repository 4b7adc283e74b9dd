#pragma once

#include "weft/types.h"

// The kernels as CUDA's runtime takes them, each family of types compiled in a file of its own. Null: not of the
// family.
namespace weft::exec::device {

inline constexpr int kMostThreads = 512;  // of a block: 128 registers each fill a multiprocessor's 65536

const void* integer_kernel(DataType type);  // kernels_integers.cu
const void* float_kernel(DataType type);    // kernels_floats.cu
const void* divide_kernel(DataType type);   // kernels_integers.cu
const void* exchange_kernel();              // kernels_integers.cu

}  // namespace weft::exec::device
