#pragma once

#include "apps/cli/bench.h"

namespace weft::cli {

// put, get, put_signal, atomic: what `weft bench` measures besides collectives.
bool is_one_sided(const std::string& name);

// Measures between processes of this machine, beside the same by plain loads and stores of the mapped memory; or, with
// --on, simulates, beside what the wires alone take. Errors (bad input): options that only collectives have.
Result<int> bench_one_sided(const BenchSpec& spec);
Result<int> bench_one_sided_simulated(const BenchSpec& spec);

// One way of doing something, and the least that the memory or the wires allow.
struct OneSidedRow {
  Bytes bytes = 0;
  std::string what;
  double us = 0;
  double bound_us = 0;  // 0: unknown
};

// Rows as they come, on stdout, and all of them as weft.bench_one_sided/1.
class OneSidedTable {
 public:
  OneSidedTable(const BenchSpec& spec, std::string world, std::string machine, Rank ranks)
      : spec_(spec), world_(std::move(world)), machine_(std::move(machine)), ranks_(ranks) {}

  // `where`: "this (real, shm)"; `bound`: what the bound is.
  void header(const std::string& where, const std::string& bound) const;
  void row(OneSidedRow row);
  Status write() const;

 private:
  const BenchSpec& spec_;
  std::string world_, machine_;
  Rank ranks_;
  std::vector<OneSidedRow> rows_;
};

}  // namespace weft::cli
