#pragma once

#include <string_view>

#include "move/reshard/layout.h"

namespace weft::reshard {

// Whether a word asks for a layout by a system's names: "vllm:tp=8,kv_heads=8".
bool is_tensor_parallel(std::string_view text);

// The layout that a system gives these tensors (data/reshard/tensor_parallel.tsv) on tp ranks:
// "NAMES:tp=N[,kv_heads=K][,type=T]". Tensors that `of` fuses are taken one by one. Errors (bad input): an unknown
// system or option, a tensor that no row matches, one that does not divide evenly.
Result<Layout> tensor_parallel(std::string_view text, const Layout& of);

}  // namespace weft::reshard
