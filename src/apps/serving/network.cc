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

Result<double> Network::operator()(Collective collective, Group group, double bytes) {
  if (group.ranks <= 1 || bytes <= 0) return 0.0;
  constexpr double kLeast = 1024, kLargest = 1 << 30;  // grid; what is larger takes proportionally longer
  const double within = std::clamp(bytes, kLeast, kLargest);
  const auto low = static_cast<Bytes>(std::bit_floor(static_cast<std::uint64_t>(within)));
  WEFT_TRY(const double below, at(collective, group, low));
  const double part = (within - static_cast<double>(low)) / static_cast<double>(low);
  double seconds = below;
  if (part > 0) {
    WEFT_TRY(const double above, at(collective, group, 2 * low));
    seconds += part * (above - below);
  }
  return bytes > kLargest ? seconds * bytes / kLargest : seconds;
}

}  // namespace weft::serving
