#pragma once

#include "apps/training/card.h"
#include "apps/training/plan.h"

namespace weft::training {

// Bytes on a GPU that PyTorch's allocator knows nothing of: CUDA's context, and what NCCL's communicators hold, for
// each of their channels a connection to each peer. Collectives connect a ring; all_to_all connects all peers of a
// node.
double outside_of_allocator(const Plan& plan, const Card& card);

}  // namespace weft::training
