#pragma once

#include <string>
#include <vector>

#include "apps/training/card.h"
#include "apps/training/plan.h"
#include "plan/cost/machine_view.h"

namespace weft::training {

// What NCCL's tuner finds on the machine; nothing: it does not run there.
std::optional<Card::Channels> channels_of(const cost::MachineView& machine);

// A communicator that a framework's step uses, on one rank.
struct Communicator {
  std::int64_t ranks = 1, span = 1;  // span: ranks from its first to its last one
  std::int64_t peers = 0;            // that this rank sends to and receives from; 0: collectives alone
};
// Megatron-LM has one for each use of a group of ranks (megatron/core/parallel_state.py); others one for each dimension
// of the plan.
std::vector<Communicator> communicators_of(const Plan& plan);

// Bytes of DeepEP's buffers for kernels of throughput, of tokens of `hidden` elements on `ranks` GPUs: csrc/config.hpp
// and deep_ep/buffer.py of deepseek-ai/DeepEP at 04b06f7.
double deepep_buffers(std::int64_t ranks, std::int64_t hidden);

// Bytes on a GPU that PyTorch's allocator knows nothing of: CUDA's context, and what NCCL's communicators hold, for
// each of their channels a connection to each peer; DeepEP's buffers. Collectives connect a ring and two trees;
// all_to_all connects all peers.
double outside_of_allocator(const Model& model, const Plan& plan, const Card& card);

// What such a run may hold beside, of which no source says how much.
std::vector<std::string> uncounted_memory(const Plan& plan, const Card& card);

}  // namespace weft::training
