#include "sim/flow/max_min.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::sim {

MaxMin::Resource MaxMin::add_resource(double capacity) {
  resources_.push_back({.capacity = capacity});
  waiting_.push_back(0);
  return static_cast<Resource>(resources_.size() - 1);
}

void MaxMin::set_capacity(Resource r, double capacity) {
  resource(r).capacity = capacity;
  enqueue(r);
}

void MaxMin::enqueue(Resource r) {
  if (std::exchange(waiting_[static_cast<std::size_t>(r)], 1) != 0) return;
  queue_.push_back(r);
}

void MaxMin::touch(Flow f) {
  if (flow(f).touched) return;
  flow(f).touched = true;
  touched_.push_back(f);
}

MaxMin::Flow MaxMin::start(Path path, double cap) {
  Flow id;
  if (free_.empty()) {
    id = static_cast<Flow>(flows_.size());
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  const bool touched = flow(id).touched;  // a number that was freed and taken again within one batch
  flow(id) = {.path = path, .cap = cap, .rate = 0, .live = true, .touched = touched};
  touch(id);
  for (const auto [r, times] : path) {
    ResourceState& state = resource(r);
    state.users.push_back({id, times});
    state.demand += cap * times;
    if (state.demand > state.capacity) enqueue(r);
  }
  return id;
}

void MaxMin::stop(Flow id) {
  FlowState& gone = flow(id);
  for (const auto [r, times] : gone.path) {
    ResourceState& state = resource(r);
    if (state.share < kUnlimited) enqueue(r);
    *std::ranges::find(state.users, id, &ResourceState::User::flow) = state.users.end()[-1];
    state.users.pop_back();
    state.demand = state.users.empty() ? 0 : state.demand - gone.cap * times;
  }
  gone.live = false;
  free_.push_back(id);
}

// What a flow gets from its cap and all its resources but one.
double MaxMin::granted(const FlowState& f, Resource except) const {
  double least = f.cap;
  for (const auto [r, times] : f.path)
    if (r != except) least = std::min(least, resources_[static_cast<std::size_t>(r)].share);
  return least;
}

// The share s with sum over flows of times * min(granted elsewhere, s) = capacity; unlimited if all grants fit.
double MaxMin::share_of(Resource r) {
  const ResourceState& state = resource(r);
  if (state.demand <= state.capacity * (1 + 1e-12)) return kUnlimited;
  limits_.clear();
  double left = state.capacity, open = 0;
  for (const auto [f, times] : state.users) {
    limits_.push_back({granted(flow(f), r), times});
    open += times;
  }
  std::ranges::sort(limits_, {}, &Limit::rate);
  for (const auto [rate, times] : limits_) {
    if (rate * open >= left * (1 + 1e-12)) return left / open;
    left -= rate * times;
    open -= times;
  }
  return kUnlimited;
}

void MaxMin::recompute(Resource r) {
  ResourceState& state = resource(r);
  const double before = state.share, now = share_of(r);
  if (now == before) return;
  state.share = now;
  const bool spreads = !(std::abs(now - before) <= kTolerance * std::min(now, before));
  const double least = std::min(now, before);
  for (const auto [f, own_times] : state.users) {
    touch(f);
    if (!spreads) continue;
    // Only a neighbour that grants more than this one granted or grants can notice.
    for (const auto [other, times] : flow(f).path)
      if (other != r && least < resource(other).share && resource(other).demand > resource(other).capacity)
        enqueue(other);
  }
}

std::span<const MaxMin::Flow> MaxMin::solve() {
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const Resource r = queue_[i];
    waiting_[static_cast<std::size_t>(r)] = 0;
    recompute(r);
  }
  queue_.clear();
  changed_.clear();
  for (const Flow f : touched_) {
    FlowState& state = flow(f);
    state.touched = false;
    if (!state.live) continue;
    const double rate = granted(state, -1);
    if (rate == state.rate) continue;
    state.rate = rate;
    changed_.push_back(f);
  }
  touched_.clear();
  if (!std::ranges::is_sorted(changed_)) std::ranges::sort(changed_);
  return changed_;
}

}  // namespace weft::sim
