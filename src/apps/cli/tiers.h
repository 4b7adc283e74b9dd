#pragma once

#include "apps/cli/bench.h"
#include "apps/cli/common.h"
#include "apps/cli/transfer_spec.h"
#include "plan/cost/reload.h"

// Where the bytes of a cache are on a modelled machine, for `weft bench transfer --from` and `weft kv fetch --from`.
namespace weft::cli {

struct Fetched {
  Duration time;
  std::string bound;
};
// `from`: "gpu", "node", or a tier (cost::parse_tier). Every rank gets `rank_bytes`. Errors (bad input): see
// replay::hand_over and cost::reload; a stack where no GPUs hand over, a way that a tier does not have.
Result<Fetched> fetch_from(const cost::MachineView& machine, const std::string& from, const std::string& stack,
                           Rank ranks, Bytes rank_bytes, cost::TierWay way = {});

// `weft bench transfer --on MACHINE --from TIER`.
Result<int> bench_tier(const BenchSpec& spec, const TransferSpec& asked);

}  // namespace weft::cli
