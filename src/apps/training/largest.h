#pragma once

#include <cstdint>

#include "apps/training/memory.h"

namespace weft::training {

// The largest micro-batch and the longest sequence of a plan, the rest unchanged: that fit for certain, and that fit
// tightly. 0: none does.
struct Largest {
  std::int64_t micro_batch = 0, micro_batch_tight = 0;
  std::int64_t seq = 0, seq_tight = 0;
};
Largest largest(const Model& model, const Plan& plan, const Card& card);

}  // namespace weft::training
