#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::doctor {

// "with error 12 from peer 10.0.0.7<1>": the peer that the line names; empty: none.
std::string peer_named(std::string_view line);

// Ranks that the line names as missing, instead of the one that complains: "[missing ranks: 1, 3]" of Horovod's
// coordinator,
// "[Rank 0]: Ranks 5, 7 failed to pass monitoredBarrier in 300000 ms" of torch.
std::vector<int> missing_ranks(std::string_view line);

// How often an event of Kubernetes came: "3m (x12 over 5m)" is 12. 1 where the line does not say.
std::size_t times_named(std::string_view line);

}  // namespace weft::doctor
