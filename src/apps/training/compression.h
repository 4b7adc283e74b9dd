#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "weft/types.h"

namespace weft::training {

struct Card;
struct Model;
struct Plan;

// How gradients are made smaller before they are reduced, as the communication hooks of PyTorch's DDP do it.
struct Compression {
  enum class Kind : std::uint8_t {
    kNone,
    kHalf,      // FP32 is rounded to fp16 for the wire
    kBf16,      // to bf16
    kFp8,       // to 8 bit, with a scale for each rank's part
    kPowerSgd,  // two factors of a low rank for each matrix, with error feedback
    kTopK       // the largest values with their indices, with error feedback
  };
  Kind kind = Kind::kNone;
  double amount = 0;  // PowerSGD: the rank; top-k: the share of values that are sent

  bool any() const { return kind != Kind::kNone; }
  bool keeps_error() const { return kind == Kind::kPowerSgd || kind == Kind::kTopK; }
};
// "none", "fp16", "bf16", "fp8", "powersgd:4", "topk:1%". Errors (bad input): names what is wrong.
Result<Compression> parse_compression(std::string_view text);
std::string name(const Compression& compression);

// A bucket of gradients, compressed.
struct Encoded {
  Collective collective = Collective::kAllReduce;
  double bytes = 0;     // of one collective, as the larger side counts them
  int collectives = 1;  // one after the other
  double seconds = 0;   // before and after, on the GPU that computes
};
// `bytes`: of the bucket, of plan.gradient_bytes each; `ranks`: that reduce it.
Encoded encoded(double bytes, std::int64_t ranks, const Model& model, const Plan& plan, const Card& card);

}  // namespace weft::training
