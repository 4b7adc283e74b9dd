#include "sim/flow/max_min.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::sim {
namespace {

constexpr std::int64_t kTrial = 512;   // flows that have ended, before it is judged whether ways come again
constexpr double kComesAgain = 1.125;  // flows of a way, in the mean

void take_out(auto& list, auto at) {
  *at = list.end()[-1];
  list.pop_back();
}

}  // namespace

MaxMin::Resource MaxMin::add_resource(double capacity) {
  resources_.push_back({.capacity = capacity});
  waiting_.push_back(0);
  headroom_.add(capacity);
  return static_cast<Resource>(resources_.size() - 1);
}

void MaxMin::set_capacity(Resource r, double capacity) {
  bind(headroom_.give_up());
  resource(r).capacity = capacity;
  enqueue(r);
}

// Memory that stays where it is.
MaxMin::Use* MaxMin::room_for(std::size_t uses) {
  if (pages_.empty() || page_ - used_ < uses) {
    page_ = std::max<std::size_t>(4096, uses);
    pages_.push_back(std::make_unique_for_overwrite<Use[]>(page_));
    used_ = 0;
  }
  used_ += uses;
  return pages_.back().get() + used_ - uses;
}

MaxMin::Way MaxMin::add_way(Path path) {
  Use* const uses = room_for(path.size());
  std::ranges::copy(path, uses);
  ways_.push_back({.uses = uses, .length = static_cast<std::uint32_t>(path.size())});
  return static_cast<Way>(ways_.size() - 1);
}

void MaxMin::find_limits(WayState& way) {
  const Path path(way.uses, way.length);
  const auto binds = [&](const Use& use) { return headroom_.binds(use.resource); };
  way.binding = static_cast<std::uint32_t>(std::ranges::count_if(path, binds));
  if (!way.has_room()) return;
  if (way.limits == nullptr) way.limits = room_for(path.size());
  std::ranges::copy_if(path, way.limits, binds);
}

// Where each is used for one message, as in exchanges of all with all, claims cost more than they save.
bool MaxMin::ways_come_again() const {
  return stopped_ < kTrial || static_cast<double>(started_) > kComesAgain * static_cast<double>(claimed_ways_);
}

// The way's flows want more at once than ever before.
void MaxMin::claim(Way number) {
  WayState& w = way(number);
  const bool first = w.claimed == 0;
  claimed_ways_ += first;
  if (first && !headroom_.given_up() && !ways_come_again()) bind(headroom_.give_up());
  bind(headroom_.claim(number, path(number), w.wanted - w.claimed, first));
  w.claimed = w.wanted;
  if (first) find_limits(w);  // some could bind before this way was known to cross them
}

// Lists the flows that cross these resources, which bind from now on.
void MaxMin::bind(std::span<const Resource> newly) {
  for (const Resource r : newly)
    for (const Way number : headroom_.take_ways(r)) {
      const std::int32_t times = std::ranges::find(path(number), r, &Use::resource)->times;
      for (const Flow f : way(number).flows) list(f, {r, times});
      find_limits(way(number));
    }
}

void MaxMin::list(Flow f, const Use& use) {
  ResourceState& state = resource(use.resource);
  state.users.push_back({f, use.times});
  state.demand += flow(f).cap * use.times;
  if (state.demand > state.capacity) enqueue(use.resource);
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

MaxMin::Flow MaxMin::start(Way number, double cap) {
  Flow id;
  if (free_.empty()) {
    id = static_cast<Flow>(flows_.size());
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  const bool touched = flow(id).touched;  // a number that was freed and taken again within one batch
  flow(id) = {.way = number, .live = true, .touched = touched, .cap = cap, .rate = 0};
  touch(id);
  WayState& w = way(number);
  if (w.has_room()) {
    ++started_;
    w.wanted += cap;
    if (w.wanted > w.claimed) claim(number);
    w.flows.push_back(id);
  }
  for (const Use& use : w.limiting()) list(id, use);
  return id;
}

void MaxMin::stop(Flow id) {
  FlowState& gone = flow(id);
  WayState& w = way(gone.way);
  if (w.has_room()) {
    ++stopped_;
    take_out(w.flows, std::ranges::find(w.flows, id));
    w.wanted = w.flows.empty() ? 0 : w.wanted - gone.cap;
  }
  for (const auto [r, times] : w.limiting()) {
    ResourceState& state = resource(r);
    if (state.share < kUnlimited) enqueue(r);
    take_out(state.users, std::ranges::find(state.users, id, &ResourceState::User::flow));
    state.demand = state.users.empty() ? 0 : state.demand - gone.cap * times;
  }
  gone.live = false;
  free_.push_back(id);
}

// The rate that a flow's cap and all its resources but one allow.
double MaxMin::granted(const FlowState& f, Resource except) const {
  double least = f.cap;
  for (const auto [r, times] : limits_of(f))
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
    for (const auto [other, times] : limits_of(flow(f)))
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
