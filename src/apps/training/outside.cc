#include "apps/training/outside.h"

#include <algorithm>

#include "plan/tune/nccl/grouped.h"
#include "plan/tune/nccl/search.h"

namespace weft::training {
namespace {

// Connections of a channel to neighbours: a ring receives from one and sends to one; of a tree a rank has a parent and,
// within a node, a child, and both receives from and sends to each.
constexpr double kRingAndTree = 3;
constexpr std::int64_t kMostHeads = 32;  // GPUs of a communicator that reduce for it, NCCL_MAX_NVLS_ARITY

double d(std::int64_t n) { return static_cast<double>(n); }

bool megatron(const Plan& plan) {
  return plan.framework.empty() || plan.framework == "megatron-lm" || plan.framework == "megatron-bridge" ||
         plan.framework == "nemo" || plan.framework == "primus";
}

}  // namespace

std::optional<Card::Channels> channels_of(const cost::MachineView& machine) {
  Card::Channels channels{.node = machine.ranks_of_node(0)};
  const auto node = static_cast<Rank>(channels.node);
  const auto near = tune::nccl::system_of(machine, node);
  if (!near) return std::nullopt;
  channels.ring_near = channels.ring_far = near->channels;
  channels.peer_near = channels.peer_far = tune::nccl::channels_to_peer(*near);
  channels.nvls = near->nvls.channels > 0;
  if (2 * node > machine.endpoints()) return channels;
  if (const auto far = tune::nccl::system_of(machine, 2 * node)) {
    channels.ring_far = far->channels;
    channels.peer_far = tune::nccl::channels_to_peer(*far);
  }
  return channels;
}

std::vector<Communicator> communicators_of(const Plan& plan) {
  std::vector<Communicator> all;
  const std::int64_t replicas = plan.replicas(), stage = plan.tp * replicas, world = plan.ranks();
  const auto add = [&](std::int64_t ranks, std::int64_t span, std::int64_t peers = 0) {
    if (ranks > 1) all.push_back({ranks, span, peers});
  };
  add(plan.tp, plan.tp);
  add(replicas, stage);  // gradients
  add(plan.cp, plan.tp * plan.cp, plan.context_by == ContextBy::kRing ? std::min<std::int64_t>(2, plan.cp - 1) : 0);
  add(plan.pp, world, std::min<std::int64_t>(2, plan.pp - 1));
  const std::int64_t experts = plan.ep * plan.etp;
  add(plan.etp, plan.etp);
  if (plan.dispatcher == Dispatcher::kAllToAll) add(plan.ep, experts, plan.ep - 1);
  if (plan.ep > 1 || plan.etp > 1) add(plan.expert_replicas(), stage);
  if (!megatron(plan)) return all;
  add(world, world);                     // barriers, timers
  if (plan.zero > 0) add(world, world);  // the norm of gradients that replicas share
  add(plan.dp, stage);                   // losses
  add(plan.tp * plan.pp, world);         // largest values of all stages
  if (plan.pp > 1) add(2, world);        // embeddings of the first and the last stage
  if (experts > 1) add(experts * plan.pp, plan.pp > 1 ? world : experts);
  return all;
}

double deepep_buffers(std::int64_t ranks, std::int64_t hidden) {
  constexpr std::int64_t kNode = 8, kChannels = 10, kRdmaTokens = 128, kWorkspace = 32 << 20;
  const std::int64_t tokens = ranks <= kNode ? 256 : ranks <= 64 ? 288 : ranks <= 128 ? 560 : 720;
  // BF16, the source's rank and place, the most experts of a token with their weights, the most scales.
  const std::int64_t token = 2 * hidden + 8 + 128 * (8 + 4) + 128 * 4, nodes = std::max<std::int64_t>(1, ranks / kNode);
  const std::int64_t near = kChannels * std::min(ranks, kNode) * ((2 * nodes + 3) * 4 + tokens * token);
  const std::int64_t far =
      ranks <= kNode ? 0 : kChannels * nodes * ((kNode * 2 + 2) * 2 * 4 + 2 * kRdmaTokens * (token + 16));
  return d(near + far + kWorkspace);
}

double outside_of_allocator(const Model& model, const Plan& plan, const Card& card) {
  const double context = plan.software < 2023 ? card.context_before_2023 : card.context;
  const std::vector<Communicator> all = communicators_of(plan);
  if (!card.channels) return all.empty() ? context : std::max(context, card.reserved);
  const Card::Channels& channels = *card.channels;
  double connections = 0, summed = 0;
  for (const Communicator& c : all) {
    const bool near = c.span <= channels.node;
    connections += c.peers == 0 ? kRingAndTree * (near ? channels.ring_near : channels.ring_far)
                                : d(c.peers) * (near ? channels.peer_near : channels.peer_far);
    const std::int64_t in_node = near ? c.ranks : std::max<std::int64_t>(1, c.ranks * channels.node / c.span);
    if (channels.nvls && c.peers == 0 && in_node > 2) summed += d(std::min(in_node, kMostHeads));
  }
  const bool deepep = plan.ep > 1 && plan.dispatcher == Dispatcher::kDeepEp;
  return context + connections * card.connection + summed * card.nvls +
         (deepep ? deepep_buffers(plan.ep, model.expert_hidden) : 0);
}

std::vector<std::string> uncounted_memory(const Plan& plan, const Card& card) {
  std::vector<std::string> all;
  if (plan.launch == kernels::Launch::kGraphs || plan.framework == "megatron-bridge")
    all.emplace_back("private pools of CUDA graphs");
  if (plan.ep > 1 && plan.dispatcher == Dispatcher::kHybridEp) all.emplace_back("HybridEP's buffers");
  if (!card.channels && plan.ranks() > 1) all.emplace_back("communicators (1.5 GiB are assumed, with CUDA's context)");
  return all;
}

}  // namespace weft::training
