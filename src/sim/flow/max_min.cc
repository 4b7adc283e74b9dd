#include "sim/flow/max_min.h"

#include <algorithm>
#include <limits>

namespace weft::sim {

MaxMin::Resource MaxMin::add_resource(double capacity) {
  resources_.push_back({.capacity = capacity});
  return static_cast<Resource>(resources_.size() - 1);
}

MaxMin::Flow MaxMin::start(std::span<const Resource> path, double cap) {
  Flow id;
  if (free_.empty()) {
    id = static_cast<Flow>(flows_.size());
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  FlowState& flow = at(id, 0);
  flow = {.path = path, .cap = cap, .rate = 0, .live = true};
  bool constrained = false;
  for (const Resource r : path) {
    ResourceState& resource = at(r);
    resource.flows.push_back(id);
    resource.demand += cap;
    if (resource.constrains()) {
      constrained = true;
      dirty_.push_back(r);
    }
  }
  if (!constrained) {
    flow.rate = cap;
    changed_.push_back(id);
  }
  return id;
}

void MaxMin::stop(Flow id) {
  FlowState& flow = at(id, 0);
  for (const Resource r : flow.path) {
    ResourceState& resource = at(r);
    if (resource.constrains()) dirty_.push_back(r);
    auto& flows = resource.flows;
    *std::find(flows.begin(), flows.end(), id) = flows.back();
    flows.pop_back();
    resource.demand = flows.empty() ? 0 : resource.demand - flow.cap;
  }
  flow.live = false;
  free_.push_back(id);
}

std::span<const MaxMin::Flow> MaxMin::solve() {
  if (!dirty_.empty()) {
    ++visit_;
    for (const Resource r : dirty_) {
      component_.clear();
      component_flows_.clear();
      reach(r);
      fill();
    }
    dirty_.clear();
  }
  // A flow that started unconstrained and was then reached is listed twice; one that ended meanwhile is dropped.
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  std::erase_if(changed_, [this](Flow f) { return !at(f, 0).live; });
  component_flows_.swap(changed_);
  changed_.clear();
  return component_flows_;
}

// Collects the flows and constraining resources that `first` is coupled with.
void MaxMin::reach(Resource first) {
  if (at(first).visit == visit_) return;
  at(first).visit = visit_;
  component_.push_back(first);
  for (std::size_t i = 0; i < component_.size(); ++i) {
    for (const Flow f : at(component_[i]).flows) {
      FlowState& flow = at(f, 0);
      if (flow.visit == visit_) continue;
      flow.visit = visit_;
      component_flows_.push_back(f);
      for (const Resource r : flow.path) {
        if (at(r).visit == visit_ || !at(r).constrains()) continue;
        at(r).visit = visit_;
        component_.push_back(r);
      }
    }
  }
}

void MaxMin::fix(FlowState& flow, double rate) {
  flow.rate = rate;
  flow.fixed = true;
  for (const Resource r : flow.path) {
    at(r).left -= rate;
    --at(r).open;
  }
}

// Progressive filling: all open rates grow together until a flow meets its cap or a resource is full.
void MaxMin::fill() {
  for (const Resource r : component_) {
    at(r).left = at(r).capacity;
    at(r).open = static_cast<int>(at(r).flows.size());
  }
  // By cap, so that the flows that can be content are always at the front.
  std::sort(component_flows_.begin(), component_flows_.end(), [this](Flow a, Flow b) {
    return at(a, 0).cap != at(b, 0).cap ? at(a, 0).cap < at(b, 0).cap : a < b;
  });
  std::vector<double> before(component_flows_.size());
  for (std::size_t i = 0; i < component_flows_.size(); ++i) {
    before[i] = at(component_flows_[i], 0).rate;
    at(component_flows_[i], 0).fixed = false;
  }
  std::size_t next = 0;
  while (true) {
    while (next < component_flows_.size() && at(component_flows_[next], 0).fixed) ++next;
    if (next == component_flows_.size()) break;
    double share = std::numeric_limits<double>::infinity();
    Resource tightest = -1;
    for (const Resource r : component_) {
      if (at(r).open == 0) continue;
      if (const double s = std::max(0.0, at(r).left) / at(r).open; s < share) share = s, tightest = r;
    }
    FlowState& smallest = at(component_flows_[next], 0);
    if (smallest.cap <= share || tightest < 0) {
      fix(smallest, smallest.cap);
      continue;
    }
    // Index loop: fix() does not change the list.
    for (std::size_t i = 0; i < at(tightest).flows.size(); ++i)
      if (FlowState& flow = at(at(tightest).flows[i], 0); !flow.fixed) fix(flow, share);
  }
  for (std::size_t i = 0; i < component_flows_.size(); ++i)
    if (at(component_flows_[i], 0).rate != before[i]) changed_.push_back(component_flows_[i]);
}

}  // namespace weft::sim
