#pragma once

#include "cli/bench.h"

namespace weft::cli {

// put, get, put_signal, atomic: what `weft bench` measures besides collectives.
bool is_one_sided(const std::string& name);

// Measures between two processes of this machine, beside the same by plain loads and stores of the mapped memory.
// Errors (bad input): a machine to simulate, options that only collectives have.
Result<int> bench_one_sided(const BenchSpec& spec);

}  // namespace weft::cli
