#include "plan/tune/nccl/node.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/tune/nccl/constants.h"

namespace weft::tune::nccl {
namespace {

using topology::DeviceId;
using topology::Link;
using topology::LinkKind;
using topology::Topology;

// NCCL counts 15 of 20 bits that a lane of its generation could carry: 12 GB/s for 16 lanes of PCIe 3.
double pcie_rate(const Link& link) {
  const double lane = std::max(link.rate_ab, link.rate_ba).gb() / std::max(1, link.count);  // 0.25, 0.5, 0.985, …
  const double generation = std::round(std::log2(lane / 0.25)) + 1;
  return link.count * 0.1875 * std::exp2(generation - 1);
}

// Between two sockets.
double socket_rate(const Topology& topology, const Link& link) {
  const std::string& model = topology.device(link.a).model;
  if (model.starts_with("EPYC") || model.starts_with("Threadripper")) return 16;
  if (model.starts_with("Xeon-E5")) return 6;
  if (model.starts_with("Xeon-84") || model.starts_with("Xeon-Max")) return 22;
  if (model.starts_with("Xeon-85")) return 40;
  return model.starts_with("Grace") ? 6 : 10;
}

double rate_of(const Topology& topology, const Link& link, int sm) {
  switch (link.kind) {
    case LinkKind::kNvlink:
      return nvlink_rate(sm) * link.count;
    case LinkKind::kPcie:
      return pcie_rate(link);
    case LinkKind::kInterSocket:
      return socket_rate(topology, link);
    default:
      return std::min(link.rate_ab, link.rate_ba).gb();
  }
}

}  // namespace

Node::Node(const Topology& topology, const topology::Routes& routes, std::vector<DeviceId> gpus, int sm)
    : gpus_(std::move(gpus)) {
  for (const Link& link : topology.links()) rates_.push_back(rate_of(topology, link, sm));
  double pcie = 0;
  for (const topology::LinkId id : topology.links_of(gpus_.front())) {
    if (topology.link(id).kind == LinkKind::kNvlink) port_ += rate(id);
    if (topology.link(id).kind == LinkKind::kPcie) pcie += rate(id);
  }
  if (port_ == 0) port_ = pcie;
  for (const DeviceId from : gpus_) {
    for (const DeviceId to : gpus_) {
      const topology::Path path = routes.wire_path(from, to);
      // Through another GPU it is worse than NVLink to NCCL.
      const bool relayed = path.hops.size() > 1 && topology.device(topology.other_end(path.hops[0].link, from)).kind ==
                                                       topology::DeviceKind::kGpu;
      Way& way = ways_.emplace_back(Way{path.type <= topology::PathType::kNvl && !relayed, {}});
      for (const topology::Hop& h : path.hops) way.links.push_back(2 * h.link + (h.forward ? 0 : 1));
    }
  }
}

int Node::fewest_nvlinks(int sm) const {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t from = 0; from < gpus_.size(); ++from)
    for (std::size_t to = 0; to < gpus_.size(); ++to) {
      if (from == to) continue;
      if (!way(from, to).nvlink) return 0;
      for (const std::int32_t l : way(from, to).links) least = std::min(least, rates_[static_cast<std::size_t>(l) / 2]);
    }
  return std::isinf(least) ? 0 : static_cast<int>(least / nvlink_rate(sm) + 1e-6);
}

struct Node::Attempt {
  double speed;
  bool nvlink;
  int budget;
  std::vector<double> free;  // by link and direction
  std::vector<std::size_t> visited = {};
};

bool Node::take(std::vector<double>& free, const Way& way, double speed) {
  constexpr double kRounding = 1e-6;
  const bool enough = std::ranges::all_of(
      way.links, [&](std::int32_t l) { return free[static_cast<std::size_t>(l)] >= speed - kRounding; });
  if (enough)
    for (const std::int32_t l : way.links) free[static_cast<std::size_t>(l)] -= speed;
  return enough;
}

// The GPUs to try next: those with the most bandwidth left first, so that what is scarce is left for later.
std::vector<std::size_t> Node::unvisited(const Attempt& attempt, std::size_t at) const {
  std::vector<std::pair<double, std::size_t>> found;
  for (std::size_t step = 1; step < gpus_.size(); ++step) {
    const std::size_t to = (at + step) % gpus_.size();
    if (std::ranges::find(attempt.visited, to) != attempt.visited.end()) continue;
    double left = std::numeric_limits<double>::infinity();
    for (const std::int32_t l : way(at, to).links) left = std::min(left, attempt.free[static_cast<std::size_t>(l)]);
    found.emplace_back(left, to);
  }
  std::ranges::stable_sort(found, std::greater(), &std::pair<double, std::size_t>::first);
  std::vector<std::size_t> order;
  for (const auto& [left, to] : found) order.push_back(to);
  return order;
}

// Another ring in this order, if it fits.
bool Node::repeat(Attempt& attempt, const std::vector<std::size_t>& order) const {
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Way& next = way(order[i], order[(i + 1) % order.size()]);
    if ((attempt.nvlink && !next.nvlink) || !take(attempt.free, next, attempt.speed)) return false;
  }
  attempt.visited = order;
  return true;
}

bool Node::extend(Attempt& attempt, std::size_t at) const {
  if (--attempt.budget < 0) return false;
  const auto go = [&](std::size_t to) {
    return (way(at, to).nvlink || !attempt.nvlink) && take(attempt.free, way(at, to), attempt.speed);
  };
  if (attempt.visited.size() == gpus_.size()) return go(attempt.visited.front());
  for (const std::size_t to : unvisited(attempt, at)) {
    const std::vector<double> before = attempt.free;
    if (!go(to)) continue;
    attempt.visited.push_back(to);
    if (extend(attempt, to)) return true;
    attempt.visited.pop_back();
    attempt.free = before;
  }
  return false;
}

std::vector<std::vector<std::size_t>> Node::ring_orders(double speed, int most, bool nvlink) const {
  constexpr int kBudget = 1 << 14;
  std::vector<std::vector<std::size_t>> orders;
  if (gpus_.size() == 1) {
    orders.assign(static_cast<std::size_t>(most), {0});
    return orders;
  }
  std::vector<double> free;
  for (const double rate : rates_) free.insert(free.end(), 2, rate);
  std::vector<std::size_t> order;
  while (static_cast<int>(orders.size()) < most) {
    const Attempt fresh{speed, nvlink, kBudget, free, {}};
    Attempt attempt = fresh;
    // The last ring backwards and once more: half of the links' directions are free there.
    std::vector<std::size_t> backwards(order.rbegin(), order.rend());
    bool fits = !order.empty() && repeat(attempt, backwards);
    if (!fits && !order.empty()) fits = repeat(attempt = fresh, order);
    if (!fits) {
      attempt = fresh;
      attempt.visited = {0};
      fits = extend(attempt, 0);
    }
    if (!fits) break;
    free = std::move(attempt.free);
    order = std::move(attempt.visited);
    orders.push_back(order);
  }
  return orders;
}

}  // namespace weft::tune::nccl
