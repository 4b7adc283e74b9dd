#include "apps/training/largest.h"

namespace weft::training {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;

// The largest multiple of `unit` up to `most` whose plan fits at least as well as `wanted`; memory grows with it.
template <class With>
std::int64_t search(std::int64_t unit, std::int64_t most, Fit wanted, const Model& model, const Card& card,
                    const With& with) {
  std::int64_t low = 0, high = most / unit;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (fit(peak_memory(model, with(middle * unit), card, true), card) <= wanted)
      low = middle;
    else
      high = middle - 1;
  }
  return low * unit;
}

}  // namespace

Largest largest(const Model& model, const Plan& plan, const Card& card) {
  const auto batches = [&](std::int64_t micro_batch) {
    Plan p = plan;
    p.micro_batch = micro_batch;
    p.global_batch = p.dp * micro_batch * plan.micro_batches();  // as many are held at once
    return p;
  };
  const auto sequences = [&](std::int64_t seq) {
    Plan p = plan;
    p.seq = seq;
    return p;
  };
  const std::int64_t unit = plan.cp * plan.tp * 128;
  return {search(1, kMostTokens / plan.seq + 1, Fit::kCertain, model, card, batches),
          search(1, kMostTokens / plan.seq + 1, Fit::kTight, model, card, batches),
          search(unit, kMostTokens, Fit::kCertain, model, card, sequences),
          search(unit, kMostTokens, Fit::kTight, model, card, sequences)};
}

}  // namespace weft::training
