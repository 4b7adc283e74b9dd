#pragma once

#include "apps/training/allocator/caching_allocator.h"
#include "apps/training/memory.h"

namespace weft::training {

// What a rank's allocator holds at most in a step, once its first steps are done.
struct Held {
  double requested = 0;  // bytes that tensors ask for, at the peak
  double reserved = 0;   // bytes of its segments
  std::int64_t retries = 0;
  bool out_of_memory = false;
};

// The allocations of one rank of a stage, in the order of its first steps: weights and buffers, per micro-batch in the
// schedule's order what each layer keeps and needs for a while, gradients as the framework makes them, and the
// optimizer's state, which comes into being at the end of the first step in what that left free. `parts`: the bytes of
// parameters, gradients and optimizer; `units`: passes of chunks whose activations are held at once.
Held allocate_steps(const Model& model, const Plan& plan, std::int64_t stage, const StageMemory& parts,
                    std::int64_t units, const AllocatorSettings& settings);

}  // namespace weft::training
