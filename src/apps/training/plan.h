#pragma once

#include <cstdint>
#include <string>

#include "apps/training/compression.h"
#include "apps/training/model.h"

namespace weft::training {

enum class Recompute : std::uint8_t { kNone, kSelective, kFull };
// Zero-bubble schedules of arXiv 2401.10241: ZB-H1 with the memory of 1F1B (published as ZB-1p), ZB-H2 with twice of it
// (ZB-2p), whose optimizer does not wait for other stages.
enum class Schedule : std::uint8_t { k1F1B, kZeroBubble, kZeroBubble2 };

std::string_view name(Recompute recompute);
Result<Recompute> parse_recompute(std::string_view text);
std::string_view name(Schedule schedule);
Result<Schedule> parse_schedule(std::string_view text);

// How a model is spread over GPUs. The data-parallel size counts replicas of the dense part: ranks = tp × pp × cp × dp.
// Experts are spread over ep of the dp × cp ranks. A value.
struct Plan {
  std::int64_t tp = 1, pp = 1, vp = 1, dp = 1, ep = 1, cp = 1;
  std::int64_t zero = 1;  // stage of ZeRO; 3 is FSDP
  std::int64_t micro_batch = 1, global_batch = 1, seq = 0;
  Recompute recompute = Recompute::kNone;
  Schedule schedule = Schedule::k1F1B;
  bool sequence_parallel = true;   // where tp > 1
  std::int64_t bucket = 0;         // MiB of gradients that are reduced at once; 0: the framework's default
  std::int64_t overlap = 1;        // 1: gradients and weights travel beside the passes; 0: between them
  std::int64_t eager = 0;          // 1: a kernel per operation, as PyTorch runs a model that is not compiled
  std::string precision = "bf16";  // of GEMMs: bf16, fp8, fp4
  int gradient_bytes = 4;          // per gradient, held and reduced
  // Per parameter: FP32 weights and Adam's two moments. 6: all of them in BF16; 8: FP32 weights, one FP32 moment
  // (Muon).
  int optimizer_bytes = 12;
  Compression compression = {};  // of gradients, before they are reduced; ZeRO 0 only, as DDP's hooks
  // Software generation: the year of the training framework. Before 2023 attention writes its scores to memory; in 2023
  // it is FlashAttention-2, and tensor parallelism does not overlap, as in PyTorch's own kernels until today.
  int software = 2025;

  std::int64_t ranks() const { return tp * pp * cp * dp; }
  std::int64_t micro_batches() const { return global_batch / (dp * micro_batch); }
  bool flash_attention() const { return software >= 2023; }
  // Collectives of tensor and expert parallelism overlap with the GEMMs beside them.
  bool overlaps_tensor() const { return software >= 2024; }
};

// "tp 8, pp 4, dp 16, ZeRO 1, micro-batch 1, recompute none"; sizes of one are left out.
std::string describe(const Plan& plan);

// Errors (bad input): names the option that does not divide.
Status check_plan(const Model& model, const Plan& plan);

// Layers of one stage: its chunks together; the first stages have one more where the layers do not divide.
std::int64_t layers_of_stage(const Model& model, const Plan& plan, std::int64_t stage);

}  // namespace weft::training
