#include "apps/training/outside.h"

#include <algorithm>

namespace weft::training {
namespace {

constexpr double kRingChannels = 16;    // as NCCL chooses on NVLink and on a node with eight NICs
constexpr double kPairChannels = 32;    // of send and receive to a peer of the node
constexpr double kNetworkChannels = 2;  // to a peer elsewhere (NCCL_NCHANNELS_PER_NET_PEER)
constexpr std::int64_t kNode = 8;

}  // namespace

double outside_of_allocator(const Plan& plan, const Card& card) {
  double connections = 0;
  const auto ring = [&](std::int64_t ranks) { connections += ranks > 1 ? kRingChannels : 0; };
  ring(plan.tp);
  ring(plan.cp);
  ring(plan.replicas());
  if (plan.pp > 1) connections += 2 * kNetworkChannels;
  if (plan.ep * plan.etp > 1) {
    ring(plan.expert_replicas());
    const std::int64_t near = plan.dispatcher == Dispatcher::kAllToAll ? std::min(plan.ep, kNode) - 1 : 0;
    connections += static_cast<double>(near) * kPairChannels;
  }
  return (plan.software < 2023 ? card.context_before_2023 : card.context) + connections * card.connection;
}

}  // namespace weft::training
