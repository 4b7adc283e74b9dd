#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/kernels/host.h"
#include "apps/training/compression.h"
#include "apps/training/model.h"

namespace weft::training {

enum class Recompute : std::uint8_t { kNone, kSelective, kFull };
// Zero-bubble schedules of arXiv 2401.10241: ZB-H1 with the memory of 1F1B (published as ZB-1p), ZB-H2 with twice of it
// (ZB-2p), whose optimizer does not wait for other stages.
enum class Schedule : std::uint8_t { k1F1B, kZeroBubble, kZeroBubble2 };

// How keys and values reach all ranks of context parallelism: around a ring beside the attention (Megatron's p2p),
// gathered before it (Llama 3, arXiv 2407.21783), or heads instead of tokens by all_to_all (Ulysses, arXiv 2309.14509).
enum class ContextBy : std::uint8_t { kRing, kAllGather, kAllToAll };
// How tokens reach their experts: a copy per expert by all_to_all, or a copy per node first (DeepEP, HybridEP).
enum class Dispatcher : std::uint8_t { kAllToAll, kDeepEp, kHybridEp };
enum class Optimizer : std::uint8_t { kAdam, kMuon };

std::string_view name(ContextBy by);
Result<ContextBy> parse_context_by(std::string_view text);
std::string_view name(Dispatcher dispatcher);
Result<Dispatcher> parse_dispatcher(std::string_view text);
// PyTorch's allocator: "default", "expandable" or what PYTORCH_CUDA_ALLOC_CONF says, "expandable_segments:True" or
// False. True: segments expand.
Result<bool> parse_allocator(std::string_view text);
std::string_view name(Optimizer optimizer);
Result<Optimizer> parse_optimizer(std::string_view text);

// Weights that are not trained: no gradients, no optimizer state.
struct Frozen {
  bool embedding = false, attention = false, mlp = false, experts = false, output = false;
  bool any() const { return embedding || attention || mlp || experts || output; }
  bool operator==(const Frozen&) const = default;
};
// "attention,mlp", "all", "none". Errors (bad input): names the word.
Result<Frozen> parse_frozen(std::string_view text);
std::string name(const Frozen& frozen);

std::string_view name(Recompute recompute);
Result<Recompute> parse_recompute(std::string_view text);
std::string_view name(Schedule schedule);
Result<Schedule> parse_schedule(std::string_view text);

// How a model is spread over GPUs. The data-parallel size counts replicas of the dense part: ranks = tp × pp × cp × dp.
// The ranks of a stage are numbered etp, then ep, then replicas for experts, as Megatron-LM numbers them. A value.
struct Plan {
  std::int64_t tp = 1, pp = 1, vp = 1, dp = 1, ep = 1, cp = 1;
  std::int64_t etp = 1;    // ranks that share the matrices of an expert
  std::int64_t zero = 1;   // stage of ZeRO; 3 is FSDP
  std::int64_t shard = 0;  // replicas that ZeRO spreads over (HSDP, optimizer instances); 0: all
  // Layers of the first and the last stage, where they differ (-1: as the others), or of every chunk in the model's
  // order; empty: even, where the embedding and the loss count as layers if the layers do not divide.
  std::int64_t first_layers = -1, last_layers = -1;
  std::vector<std::int64_t> layout = {};
  std::int64_t mtp = 0;   // layers of multi-token prediction, on the last stage
  std::int64_t lora = 0;  // rank of adapters beside frozen weights; 0: none
  Frozen frozen = {};
  Optimizer optimizer = Optimizer::kAdam;
  ContextBy context_by = ContextBy::kRing;
  Dispatcher dispatcher = Dispatcher::kAllToAll;
  // 1: tokens travel to their experts beside the computing of another micro-batch (DualPipe; Megatron-LM's
  // --overlap-moe-expert-parallel-comm).
  std::int64_t overlap_experts = 0;
  std::int64_t micro_batch = 1, global_batch = 1, seq = 0;
  Recompute recompute = Recompute::kNone;
  double recompute_share = 1;  // of the layers that `recompute` holds for (Megatron-LM's --recompute-num-layers)
  Schedule schedule = Schedule::k1F1B;
  bool sequence_parallel = true;  // where tp > 1
  std::int64_t bucket = 0;        // MiB of gradients that are reduced at once; 0: the framework's default
  std::int64_t overlap = 1;       // 1: gradients and weights travel beside the passes; 0: between them
  std::int64_t eager = -1;  // 1: a kernel per operation, as PyTorch runs a model that is not compiled; -1: as usual
  std::string precision = "bf16";  // of GEMMs: bf16, fp8, fp4
  int gradient_bytes = 4;          // per gradient, held and reduced
  int more_gradient_bytes = 0;     // per gradient, held beside: DeepSpeed's BF16 optimizer keeps sums and copies
  // Per parameter: FP32 weights and Adam's two moments. 6: all of them in BF16; 8: FP32 weights, one FP32 moment
  // (Muon).
  int optimizer_bytes = 12;
  Compression compression = {};  // of gradients, before they are reduced; ZeRO 0 only, as DDP's hooks
  // Software generation: the year of the training framework. Before 2023 attention writes its scores to memory; in 2023
  // it is FlashAttention-2, and tensor parallelism does not overlap, as in PyTorch's own kernels until today.
  int software = 2025;
  int month = 0;                               // of that year; 0: not known
  std::string framework = "";                  // a key of data/training/software.json; empty: not known
  std::optional<kernels::Launch> launch = {};  // of kernels; none: as the framework's release does it
  bool expandable_segments = false;            // PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
  bool async_tensor = true;                    // tensor parallelism overlaps where the framework's generation can

  std::int64_t ranks() const { return tp * pp * cp * dp; }
  std::int64_t replicas() const { return dp * cp; }  // of dense weights
  std::int64_t expert_replicas() const { return std::max<std::int64_t>(1, dp * cp * tp / (etp * ep)); }
  // Replicas over which ZeRO spreads dense weights' state.
  std::int64_t sharded() const { return shard > 0 ? std::min(shard, replicas()) : replicas(); }
  // With stages, weights of ZeRO 3 are gathered once a step and kept (torchtitan's reshard_after_forward).
  bool gathers_per_pass() const { return zero == 3 && pp == 1; }
  std::int64_t micro_batches() const { return global_batch / (dp * micro_batch); }
  bool flash_attention() const { return software >= 2023; }
  bool transformers() const { return framework == "transformers" || framework == "fsdp"; }
  // Hugging Face's models are not compiled unless their user does it.
  bool runs_eagerly() const { return eager < 0 ? transformers() : eager != 0; }
  // transformers' layers as PyTorch runs them one operation after the other.
  bool composes_layers() const { return transformers() && runs_eagerly(); }
  // transformers before 5.0 (2026-01) runs a layer's experts one after the other.
  bool loops_over_experts() const { return composes_layers() && !since(2026, 1); }
  // PyTorch's own attention is FlashAttention-2 until today.
  bool flash2() const { return software < 2024 || framework == "torchtitan" || transformers(); }
  bool since(int year, int its_month) const { return software > year || (software == year && month >= its_month); }
  // cuDNN fuses learnable softmax sinks in training's layouts from 9.18 on (TransformerEngine pull request 2568).
  bool sinks_unfused() const { return !since(2026, 4); }
  // Collectives of tensor and expert parallelism overlap with the GEMMs beside them.
  bool overlaps_tensor() const { return software >= 2024 && async_tensor; }
};

// "tp 8, pp 4, dp 16, ZeRO 1, micro-batch 1, recompute none"; sizes of one are left out.
std::string describe(const Plan& plan);

// Errors (bad input): names the option that does not divide.
Status check_plan(const Model& model, const Plan& plan);

}  // namespace weft::training
