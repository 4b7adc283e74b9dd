#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>

#include "weft/pgas.h"

// Helpers of the examples: starting, timing between barriers, and the verdict.
namespace weft::examples {

using pgas::World;

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds from when all ranks begin until all have finished; the least of a few runs.
inline double time_of(World& world, const std::function<void()>& body, int runs = 5) {
  double best = 1e30;
  for (int run = 0; run < runs; ++run) {
    if (!world.barrier()) return 0;
    const double begin = now();
    body();
    if (!world.barrier()) return 0;
    best = std::min(best, now() - begin);
  }
  return best;
}

// Does `right` hold on every rank? Rank 0 says so. Returns the exit code.
inline int verdict(World& world, bool right) {
  std::int32_t all = right ? 1 : 0;
  const Status done = world.team().run({.collective = Collective::kAllReduce,
                                        .in = &all,
                                        .out = &all,
                                        .count = 1,
                                        .type = DataType::kInt32,
                                        .op = ReduceOp::kMin});
  if (!done || all == 0) {
    if (world.rank() == 0) fmt::print("WRONG\n");
    return 1;
  }
  if (world.rank() == 0) fmt::print("right on all ranks\n");
  return 0;
}

// Joins the job and runs the example; `small`: as a test.
inline int example(int argc, char** argv, const std::function<int(World&, bool small)>& body) {
  auto world = World::from_environment();
  if (!world) {
    fmt::print(stderr, "{}\n", world.error().message);
    return 2;
  }
  return body(*world, argc > 1 && std::string(argv[1]) == "--small");
}

}  // namespace weft::examples
