#pragma once

#include "apps/training/card.h"
#include "apps/training/plan.h"

namespace weft::training {

// Bytes on one GPU of a stage, at the peak of a step.
struct StageMemory {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, logits = 0;
  double temporary = 0;      // tensors that operations need for a while
  double fragmentation = 0;  // of the allocator's segments, beyond the bytes that tensors asked for; with rounding
  double outside = 0;        // of the allocator: CUDA's context, buffers of communicators
  std::int64_t retries = 0;  // requests before which cached segments had to be given back
  double tensors() const { return parameters + gradients + optimizer + activations + logits; }
  double allocated() const { return tensors() + temporary; }  // as torch.cuda.max_memory_allocated, before rounding
  double reserved() const { return allocated() + fragmentation; }  // as torch.cuda.max_memory_reserved
  double total() const { return reserved() + outside; }
};

// What a published figure counts: torch.cuda.max_memory_allocated, max_memory_reserved, or the device as nvidia-smi
// shows it.
enum class MemoryOf : std::uint8_t { kAllocated, kReserved, kDevice };
Result<MemoryOf> parse_memory_of(std::string_view text);  // "allocated", "reserved", "device"
double bytes_of(const StageMemory& memory, MemoryOf of);

// Parameters on a GPU of the stage: of layers without experts, embedding and output; of experts.
struct StageParameters {
  double dense = 0, expert = 0;
};
StageParameters parameters_of_stage(const Model& model, const Plan& plan, std::int64_t stage);
// The same, of those that are trained: with adapters (LoRA) theirs, without frozen parts.
StageParameters trained_of_stage(const Model& model, const Plan& plan, std::int64_t stage);

StageMemory memory_of_stage(const Model& model, const Plan& plan, const Card& card, std::int64_t stage);
// The stage whose tensors need most. `to_judge`: what the allocator adds is left out where weights and the optimizer's
// state alone do not fit.
StageMemory peak_memory(const Model& model, const Plan& plan, const Card& card, bool to_judge = false);
// Memory of published steps lies within kMemoryMargin of the model's: what needs less than the rest fits for certain,
// what needs more than as much above the capacity does not.
enum class Fit : std::uint8_t { kCertain, kTight, kNo };
inline constexpr double kMemoryMargin = 0.15;
Fit fit(const StageMemory& memory, const Card& card);
std::string_view name(Fit fit);
inline bool fits(const StageMemory& memory, const Card& card) { return fit(memory, card) != Fit::kNo; }

// The least change after which the plan fits, in words; empty: none of those that were tried.
std::string what_would_fit(const Model& model, const Plan& plan, const Card& card);

}  // namespace weft::training
