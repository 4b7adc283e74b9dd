#include "apps/serving/network.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weft::serving {

Result<double> Network::at(Collective collective, Group group, Bytes bytes) {
  const auto key = std::tuple(collective, group, bytes);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  // Largest all-reduce of engines' own one- and two-shot kernels, by GPUs: vLLM's custom_all_reduce limits, 2026-01.
  const Bytes own = group.ranks <= 2 ? 8 << 20 : group.ranks <= 4 ? 2 << 20 : 512 << 10;
  traffic_.choose_as_nccl(collective != Collective::kAllReduce || bytes > own || group.ranks > 8);
  WEFT_TRY(const auto cost, traffic_(collective, group, bytes));
  return known_.emplace(key, cost.seconds).first->second;
}

Result<double> Network::at(Collective collective, Group group, const training::Traffic::Experts& experts) {
  double fastest = 0;
  for (const auto copies : {schedule::Copies::kPerRank, schedule::Copies::kPerExpert}) {
    training::Traffic::Experts asked = experts;
    asked.copies = copies;
    WEFT_TRY(const auto cost, traffic_(collective, group, asked));
    if (fastest == 0 || cost.seconds < fastest) fastest = cost.seconds;
  }
  return fastest;
}

namespace {

// `value(n)` at a grid of powers of two from `least` to `largest`, linear between them and proportional beyond.
template <class Value>
Result<double> on_grid(double n, double least, double largest, const Value& value) {
  const double within = std::clamp(n, least, largest);
  const auto low = static_cast<Bytes>(std::bit_floor(static_cast<std::uint64_t>(within)));
  WEFT_TRY(const double below, value(low));
  const double part = (within - static_cast<double>(low)) / static_cast<double>(low);
  double seconds = below;
  if (part > 0) {
    WEFT_TRY(const double above, value(2 * low));
    seconds += part * (above - below);
  }
  return n > largest ? seconds * n / largest : seconds;
}

}  // namespace

Result<double> Network::operator()(Collective collective, Group group, double bytes) {
  if (group.ranks <= 1 || bytes <= 0) return 0.0;
  return on_grid(bytes, 1024, 1 << 30, [&](Bytes size) { return at(collective, group, size); });
}

Result<double> Network::operator()(Collective collective, Group group, double tokens,
                                   const training::Traffic::Experts& like) {
  if (group.ranks <= 1 || tokens <= 0) return 0.0;
  return on_grid(tokens, 1, 1 << 16, [&](Bytes count) {
    training::Traffic::Experts experts = like;
    experts.tokens = count;
    return at(collective, group, experts);
  });
}

}  // namespace weft::serving
