#include "model/sim/flow/max_min.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace weft::sim {
namespace {

constexpr std::int64_t kTrial = 512;   // flows that have ended, before it is judged whether ways come again
constexpr double kComesAgain = 1.125;  // flows of a way, in the mean
constexpr std::size_t kLong = 16;      // resources of a way that may share them with others; a choice

void take_out(auto& list, auto at) {
  *at = list.end()[-1];
  list.pop_back();
}

}  // namespace

MaxMin::Resource MaxMin::add_resource(double capacity) {
  resources_.push_back({.capacity = capacity});
  waiting_.push_back(0);
  looked_.push_back(0);
  trunk_of_.push_back(-1);
  marked_.push_back(0);
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
  grants_.emplace_back();
  const auto number = static_cast<Way>(ways_.size() - 1);
  if (path.size() >= kLong) find_trunk(number);
  return number;
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
      grant(number).known = false;
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
  grant(number).known = false;  // shares are not followed while a way has no flow
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

// A resource of those that grant.
void MaxMin::take(Grant& g, Resource r) const {
  const double share = resources_[static_cast<std::size_t>(r)].share;
  if (share < g.least) {
    g.others = std::exchange(g.least, share);
    g.narrowest = r;
  } else {
    g.others = std::min(g.others, share);
  }
}

const MaxMin::Grant& MaxMin::grant_of(Way number) {
  Grant& g = grant(number);
  if (g.known) return g;
  const std::int32_t branch = way(number).branch;
  if (branch < 0) {
    g.least = g.others = kUnlimited;
    g.narrowest = -1;
    for (const Use& use : way(number).limiting()) take(g, use.resource);
  } else {
    const Branch& b = branches_[static_cast<std::size_t>(branch)];
    const Grant& trunk = grant_of_trunk(b.trunk);
    g.least = trunk.least;
    g.others = trunk.others;
    g.narrowest = trunk.narrowest;
    for (const Use& use : b.rest) take(g, use.resource);
  }
  g.known = true;
  return g;
}

// A resource of the way grants another share from now on. False if the least share stays what it was.
bool MaxMin::renew(Grant& g, Resource r, double before, double now) {
  if (!g.known) return true;
  if (r == g.narrowest) {
    g.known = now <= g.others;  // else another resource is the narrowest
    g.least = now;
    return true;
  }
  if (now < g.least) {
    g.others = std::exchange(g.least, now);
    g.narrowest = r;
    return true;
  }
  if (now <= g.others)
    g.others = now;
  else
    g.known = before > g.others;  // else this resource may have been the least of the others
  return !g.known;
}

// The rate that a flow's cap and all its resources but one allow.
double MaxMin::granted(const FlowState& f, Resource except) {
  const Grant& g = grant_of(f.way);
  return std::min(f.cap, except == g.narrowest ? g.others : g.least);
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
  // A flow that other resources hold below an equal part of what is left leaves the rest to the other flows. Few flows
  // are held so; only these are sorted.
  const auto is_held = [&](const Limit& limit) { return limit.rate * open < left * (1 + 1e-12); };
  std::span<Limit> rest(limits_);
  for (int pass = 0; !rest.empty(); ++pass) {
    constexpr int kPasses = 4;  // a choice; then all are sorted, as there may be as many levels as flows
    const auto end = pass < kPasses ? std::ranges::partition(rest, is_held).begin() : rest.end();
    const std::span<Limit> held(rest.begin(), end);
    if (held.empty()) return left / open;
    std::ranges::sort(held, {}, &Limit::rate);
    for (const Limit& limit : held) {
      if (!is_held(limit)) return left / open;
      left -= limit.rate * limit.times;
      open -= limit.times;
    }
    rest = rest.subspan(held.size());
  }
  return kUnlimited;
}

// Only a neighbour that grants more than the changed resource granted or grants can notice. It is looked at once per
// change.
void MaxMin::look_at(Resource neighbour, Resource changed, double least) {
  ++work_.neighbours;
  if (std::exchange(looked_[static_cast<std::size_t>(neighbour)], visit_) == visit_) return;
  const ResourceState& state = resource(neighbour);
  if (neighbour != changed && least < state.share && state.demand > state.capacity) enqueue(neighbour);
}

void MaxMin::look_around(Way number, Resource changed, double least) {
  const WayState& w = way(number);
  if (w.branch < 0) {
    for (const Use& use : w.limiting()) look_at(use.resource, changed, least);
    return;
  }
  const Branch& b = branches_[static_cast<std::size_t>(w.branch)];
  Trunk& trunk = trunks_[static_cast<std::size_t>(b.trunk)];
  if (std::exchange(trunk.looked, visit_) != visit_)
    for (const Resource r : trunk.resources) look_at(r, changed, least);
  for (const Use& use : b.rest) look_at(use.resource, changed, least);
}

void MaxMin::recompute(Resource r) {
  ++work_.shares;
  ResourceState& state = resource(r);
  const double before = state.share, now = share_of(r);
  if (now == before) return;
  state.share = now;
  if (const std::int32_t trunk = trunk_of_[static_cast<std::size_t>(r)]; trunk >= 0)
    renew(trunks_[static_cast<std::size_t>(trunk)].grant, r, before, now);
  const bool spreads = !(std::abs(now - before) <= kTolerance * std::min(now, before));
  const double least = std::min(now, before);
  ++visit_;
  for (const auto [f, own_times] : state.users) {
    const Way number = flow(f).way;
    Grant& g = grant(number);
    const bool seen = std::exchange(g.visit, visit_) == visit_;  // with another flow of the way
    if (!seen) g.changed = renew(g, r, before, now);
    if (g.changed) touch(f);
    if (!seen && spreads) look_around(number, r, least);
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
    const double rate = std::min(state.cap, grant_of(state.way).least);
    if (rate == state.rate) continue;
    state.rate = rate;
    changed_.push_back(f);
  }
  touched_.clear();
  if (!std::ranges::is_sorted(changed_)) std::ranges::sort(changed_);
  return changed_;
}

}  // namespace weft::sim
