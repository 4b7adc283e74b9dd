#pragma once

#include <chrono>

#include "base/result.h"
#include "weft/types.h"

// What `weft_gpu` does; every command prints a table, one row per measurement.
namespace weft::gpu {

struct Options {
  Rank ranks = 2;
  int threads = 512;                   // of a block
  std::int64_t most_bytes = 64 << 20;  // of a message
  bool together = false;               // one launch for all ranks instead of one for each, on a stream of its own
  bool brief = false;                  // check, messages, device-side: a short case, for compute-sanitizer
  std::chrono::seconds timeout{2};     // of one wait in a kernel
};

// Every algorithm by every protocol against what it promises; types and operations against the host's kernels.
Status check(const Options& options);
// Microseconds and busbw of collectives by size, the best of several ways, beside the bound of memory traffic.
Status collectives(const Options& options);
// Latency and bandwidth of one hop by protocol: two ranks send a message to and fro inside one kernel.
Status hops(const Options& options);
// The cost of a call that moves next to nothing: launched, and replayed as a graph.
Status launches(const Options& options);
// Every even collective on streams (weft/cuda.h), by kernels and by copy engines, called and as a replayed graph.
Status streams(const Options& options);
// Sends and receives of all ranks with all (weft/cuda.h), checked and timed; also on the host (WEFT_DEVICE=host).
Status messages(const Options& options);
// A collective by copy engines, and by kernels, beside a kernel that computes: how much of it costs no time.
Status overlap(const Options& options);
// Kernels that communicate themselves: tokens to experts, a transposition across ranks; checked and timed.
Status device_side(const Options& options);

// What the program says that it was at if it is ended by SIGTERM.
void doing(const std::string& what);

// Bytes read and written per second by a large copy within the GPU's memory.
Result<double> copy_rate();
// The largest power of two of strands with which the blocks of all ranks fit on the GPU at the same time.
Result<int> strands_for(Rank ranks, int threads);

}  // namespace weft::gpu
