// Signals between strands: one at a time, or to several at once.

#include <algorithm>

#include "model/sim/flow/flow_fabric.h"

namespace weft::sim {

using protocol::End;
using protocol::Operation;

// Those that the operation is for, as long as the strand asks for no others.
FlowFabric::Several& FlowFabric::several(std::int32_t actor, const Operation& operation) {
  std::unique_ptr<Several>& known = actors_[index(actor)].several[operation.signals() ? 0 : 1];
  const auto same = [](const End& a, const End& b) { return a.peer == b.peer && a.count == b.count; };
  const auto& ranks = operation.destinations;
  if (known && std::equal(ranks.begin(), ranks.end(), known->ranks.begin(), known->ranks.end(), same)) return *known;
  known = std::make_unique<Several>();
  known->ranks = ranks;
  const Rank self = actor / options_.strands;
  const int strand = actor % options_.strands;
  for (const End& run : ranks)
    for (Rank peer = run.peer; peer < run.peer + run.count; ++peer)
      known->connections.push_back(operation.signals() ? connection_index(self, peer, strand)
                                                       : connection_index(peer, self, strand));
  known->left = known->connections.size();
  return *known;
}

// Looks from the last one on: it mostly signals last.
bool FlowFabric::signalled_by_all(std::int32_t actor, Several& several) {
  for (; several.left > 0; --several.left) {
    Connection& c = connections_[index(several.connections[several.left - 1])];
    if (c.signals > 0) continue;
    c.signal_waits = actor;
    return false;
  }
  return true;
}

// A strand's signal sets out, or several do, together as far as they need the same time.
void FlowFabric::signal(std::int32_t actor, const Operation& operation) {
  if (operation.destinations.empty()) {
    const std::int32_t c = connection_of(actor, operation.peer, actor % options_.strands, Way::kOut);
    const std::int32_t step = path_ ? path_->step_of(actor) : -1;
    return push(connections_[index(c)].latency, Event::SignalArrives{c, step});
  }
  const std::vector<std::int32_t>& all = several(actor, operation).connections;
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    const Duration latency = connections_[index(all[begin])].latency;
    while (end < all.size() && connections_[index(all[end])].latency == latency) ++end;
    if (free_signals_.empty()) {
      free_signals_.push_back(static_cast<std::int32_t>(signals_.size()));
      signals_.emplace_back();
    }
    const std::int32_t number = free_signals_.back();
    free_signals_.pop_back();
    signals_[index(number)].connections.assign(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                               all.begin() + static_cast<std::ptrdiff_t>(end));
    if (path_) signals_[index(number)].step = path_->step_of(actor);
    push(latency, Event::SignalsArrive{number});
  }
}

}  // namespace weft::sim
