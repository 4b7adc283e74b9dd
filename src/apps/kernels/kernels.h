#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

// Times of single GPU kernels by shape: a roofline with launch and corner whose constants per card, kind, software and
// precision are in data/kernels/kernels.json, fitted by scripts/fit-kernels to measured tables.
namespace weft::kernels {

enum class Kind : std::uint8_t { kGemm, kExperts, kPrefill, kDecode, kLatentPrefill, kLatentDecode };
inline constexpr int kKinds = 6;
std::string_view name(Kind kind);

// Types of a GEMM: weights, and the activations that they meet. kW8A16: weights of 8 bits, whole numbers or not.
enum class Precision : std::uint8_t { kBf16, kFp8, kFp8Block, kNvfp4, kMxfp4A16, kMxfp4A8, kInt4A16, kInt8, kW8A16 };
inline constexpr int kPrecisions = 9;
std::string_view name(Precision precision);
double weight_bytes(Precision precision);  // of an element, with its share of scales
double activation_bytes(Precision precision);

// time = launch + (compute^s + memory^s)^(1/s), with compute = FLOP / (peak × share), memory = bytes / (rate × share).
struct Constants {
  double launch = 0;     // s
  double compute = 0;    // share of the peak
  double memory = 0;     // share of the memory rate
  double sharpness = 1;  // s: 1 adds both, large takes the larger
  double grain = 0;      // GEMM: added to k (a tile's start and end); experts: rows of an expert's tile; attention:
                         // tokens added to each sequence
  double error = 0;      // median of |model / measured - 1| over the table's rows
  std::int64_t rows = 0;
};

// One attention: sequences that are alike. Heads are those of this GPU.
struct Sequences {
  double count = 0;   // sequences
  double tokens = 1;  // new ones, of each
  double past = 0;    // cached before them, of each
  double heads = 1, kv_heads = 1, head_dim = 128;
  double window = 0;  // tokens that a query sees at most; 0: all
};

struct Experts {
  double tokens = 0;  // that are routed, of all GPUs that share the experts
  double hidden = 0, width = 0, experts = 0, top_k = 0;
  double matrices = 3;  // of an expert: 3 with a gate, else 2
  double tensor = 1, expert_parallel = 1;
};

// The kernels of one card under one software ("vllm" or "trtllm": the two whose tables there are). A value.
class Kernels {
 public:
  // `part`: a model of the catalogue, e.g. "H200-SXM5". Cards without tables take the shares of the nearest measured
  // card and their own peaks. Errors (bad input): no such part, or a part without peak or memory rate.
  static Result<Kernels> load(std::string_view part, std::string_view software);

  // Share of a kernel's own launch that is left between kernels of an iteration: quantising fused into the kernel
  // before, programmatic dependent launches.
  void set_launch_share(double share) { launch_share_ = share; }

  // Seconds of C = A B with A of m × k. Attention of the cache's element bytes (1: fp8, 2: bf16).
  double gemm(Precision precision, double m, double n, double k) const;
  double experts(Precision precision, const Experts& work) const;
  double attention(const Sequences& work, int cache_bytes) const;               // prefill where tokens > 1, else decode
  double latent_attention(const Sequences& work, int cache_bytes) const;        // MLA; heads of 128 + 64, latent of 576
  double memory(double bytes) const { return bytes / (rate_ * kMemoryShare); }  // s, without launch

  const std::string& part() const { return part_; }
  const std::string& title() const { return title_; }             // of the catalogue, which begins with the vendor
  const std::string& measured_part() const { return measured_; }  // whose shares these are
  bool has_peak(std::string_view rate) const { return peaks_.contains(std::string(rate)); }
  double memory_rate() const { return rate_; }     // bytes/s
  double memory_bytes() const { return memory_; }  // of the card
  // The constants that a kind and precision use; the nearest precision where the card has none.
  const Constants& constants(Kind kind, Precision precision) const;

 private:
  static constexpr double kMemoryShare = 0.8;  // of element-wise kernels: data/training/cards.json, memory_share

  double time(const Constants& c, Precision precision, double flop, double bytes) const;
  double peak(Precision precision) const;

  std::string part_, title_, measured_;
  std::map<std::string, double> peaks_;  // FLOP/s by "bf16", "fp8", "fp4", "int8"
  double rate_ = 0, memory_ = 0;
  double multiprocessors_ = 0;
  double launch_share_ = 1;
  std::map<std::pair<Kind, Precision>, Constants> table_;
};

// One line of data/kernels/kernels.json, for tables of errors.
struct Entry {
  std::string card, software;
  Kind kind = Kind::kGemm;
  Precision precision = Precision::kBf16;
  Constants constants;
};
// Errors (bad input): names the entry that is not understood, or says that the file has no source.
Result<std::vector<Entry>> shipped_entries();

}  // namespace weft::kernels
