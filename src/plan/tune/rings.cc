#include "plan/tune/rings.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "plan/tune/nccl/constants.h"
#include "plan/tune/nccl/node.h"

namespace weft::tune {
namespace {

using schedule::RingOrders;
using topology::DeviceId;
using topology::DeviceKind;
using topology::Link;

// The rate of one link between two GPUs; 0: no GPU is joined to another.
double slowest_link(const cost::MachineView& machine, const nccl::Node& node, std::span<const DeviceId> gpus) {
  const topology::Topology& topology = machine.topology();
  double slowest = std::numeric_limits<double>::infinity();
  for (const DeviceId gpu : gpus)
    for (const topology::LinkId id : topology.links_of(gpu)) {
      const Link& link = topology.link(id);
      if (is_scale_up(link.kind) && topology.device(topology.other_end(id, gpu)).kind == DeviceKind::kGpu)
        slowest = std::min(slowest, node.rate(id) / std::max(1, link.count));
    }
  return slowest < std::numeric_limits<double>::infinity() ? slowest : 0;
}

// Every order as often as its share of all rings, no oftener than that needs, and taken in turns.
RingOrders in_turns(const std::vector<std::vector<std::size_t>>& found) {
  std::map<std::vector<std::size_t>, int> times;
  for (const auto& order : found) ++times[order];
  int common = 0;
  for (const auto& [order, n] : times) common = std::gcd(common, n);
  RingOrders orders;
  for (int turn = 0; turn < (common > 0 ? static_cast<int>(found.size()) / common : 0); ++turn)
    for (const auto& [order, n] : times)
      if (turn < n / common) orders.emplace_back(order.begin(), order.end());
  return orders;
}

// Are all GPUs joined to each other?
bool complete(const topology::Topology& topology, std::span<const DeviceId> gpus) {
  return std::ranges::all_of(gpus, [&](DeviceId gpu) {
    std::set<DeviceId> joined{gpu};
    for (const topology::LinkId id : topology.links_of(gpu))
      if (is_scale_up(topology.link(id).kind)) joined.insert(topology.other_end(id, gpu));
    return std::ranges::all_of(gpus, [&](DeviceId other) { return joined.contains(other); });
  });
}

// Rings over several nodes do not close inside one. Zigzags over an even number of ranks, each started at another one,
// use every link between two of them once in each direction (Walecki, in Lucas, Récréations mathématiques II, 1883).
//   8 ranks: 0 1 7 2 6 3 5 4, 1 2 0 3 7 4 6 5, …
RingOrders zigzags(Rank n) {
  RingOrders orders(static_cast<std::size_t>(n));
  for (Rank first = 0; first < n; ++first)
    for (Rank i = 0; i < n; ++i)
      orders[static_cast<std::size_t>(first)].push_back((first + (i % 2 == 1 ? (i + 1) / 2 : n - i / 2)) % n);
  return orders;
}

}  // namespace

std::shared_ptr<const RingOrders> ring_orders(const cost::MachineView& machine, Rank ranks) {
  const Rank per_node = machine.ranks_per_node(ranks);
  if (!machine.costs().gpu() || per_node < 3 || ranks > machine.endpoints()) return nullptr;
  std::vector<DeviceId> gpus;
  for (Rank r = 0; r < per_node; ++r) gpus.push_back(machine.device(r));
  if (machine.topology().device(gpus.front()).kind != DeviceKind::kGpu) return nullptr;
  if (ranks > per_node && per_node % 2 == 0 && complete(machine.topology(), gpus))
    return std::make_shared<const RingOrders>(zigzags(per_node));
  constexpr int kAnyGeneration = 0;  // only how many links there are matters
  const nccl::Node node(machine.topology(), machine.routes(), gpus, kAnyGeneration);
  const double speed = slowest_link(machine, node, gpus);
  if (speed <= 0) return nullptr;
  const auto found = node.ring_orders(speed, nccl::kMostSearched, true);
  return found.empty() ? nullptr : std::make_shared<const RingOrders>(in_turns(found));
}

std::shared_ptr<const schedule::UnevenNodes> uneven_nodes(const cost::MachineView& machine, Rank ranks) {
  if (!machine.costs().gpu() || ranks > machine.endpoints() || machine.ranks_per_node(ranks) > 1) return nullptr;
  schedule::UnevenNodes nodes;
  std::map<Rank, Rank> having;  // nodes, by place
  for (Rank r = 0; r < ranks; ++r) {
    const auto node_of = [&](Rank rank) { return machine.topology().device(machine.device(rank)).node; };
    if (r == 0 || node_of(r) != node_of(r - 1)) nodes.first.push_back(r);
    nodes.places.push_back(machine.topology().device(machine.device(r)).index);
    ++having[nodes.places.back()];
  }
  const auto count = static_cast<Rank>(nodes.first.size());
  // Estimates of few large nodes cannot be extrapolated from fewer nodes (plan/cost/estimate.cc), and take too long in
  // full.
  constexpr Rank kMostOfFewNodes = 64, kFewNodes = 8;
  if (count == ranks || (count <= kFewNodes && ranks > kMostOfFewNodes)) return nullptr;
  nodes.first.push_back(ranks);
  for (const auto& [place, n] : having)
    if (n == count) nodes.common.push_back(place);
  return std::make_shared<const schedule::UnevenNodes>(std::move(nodes));
}

}  // namespace weft::tune
