#pragma once

#include <CLI/CLI.hpp>

#include "apps/cli/bench.h"
#include "apps/cli/bench_kv.h"
#include "apps/cli/transfer_spec.h"

namespace weft::cli {

// With what only some kinds of bench are asked.
struct AskedBench : BenchSpec {
  TransferSpec transfer = {};
  KvSpec kv = {};
};

// Adds the options of `weft bench`, which write to `spec`.
void add_bench_options(CLI::App& sub, AskedBench& spec);

// Errors (bad input): an option that this kind of bench leaves without effect.
Status check_bench_options(const CLI::App& sub, const AskedBench& spec);

}  // namespace weft::cli
