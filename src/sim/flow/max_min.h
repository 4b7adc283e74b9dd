#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft::sim {

// Max-min fair rates of flows over shared resources, kept up to date as flows come and go.
//
//   for every resource r:  sum of rate_f over flows f through r  <=  capacity_r
//   for every flow f:      rate_f <= cap_f
//
// and no rate can grow without shrinking one that is not larger. A resource whose flows' caps add up to no more than its
// capacity constrains nobody: it neither needs solving nor couples flows. Only what a change can reach through
// constraining resources is solved again (progressive filling), once per batch of changes.
// Units: bytes per second; the caller's time. Thread: one at a time.
class MaxMin {
 public:
  using Flow = std::int32_t;
  using Resource = std::int32_t;

  Resource add_resource(double capacity);

  // `path` must stay valid while the flow lives. Requires: cap > 0, no resource twice.
  Flow start(std::span<const Resource> path, double cap);
  void stop(Flow flow);

  double rate(Flow flow) const { return flows_[static_cast<std::size_t>(flow)].rate; }
  double capacity(Resource r) const { return resources_[static_cast<std::size_t>(r)].capacity; }

  // Solves what changed since the last call. Returns the flows whose rate is new, those just started included.
  std::span<const Flow> solve();

 private:
  struct FlowState {
    std::span<const Resource> path;
    double cap = 0, rate = 0;
    std::uint32_t visit = 0;
    bool fixed = false, live = false;
  };
  struct ResourceState {
    double capacity = 0, demand = 0;  // demand: sum of the flows' caps
    std::vector<Flow> flows = {};
    double left = 0;   // while solving: capacity not yet given away …
    int open = 0;      // … and flows whose rate is not fixed yet
    std::uint32_t visit = 0;
    bool constrains() const { return demand > capacity * (1 + 1e-9); }
  };
  ResourceState& at(Resource r) { return resources_[static_cast<std::size_t>(r)]; }
  FlowState& at(Flow f, int) { return flows_[static_cast<std::size_t>(f)]; }
  void reach(Resource r);
  void fill();
  void fix(FlowState& flow, double rate);

  std::vector<ResourceState> resources_;
  std::vector<FlowState> flows_;
  std::vector<Flow> free_;
  std::vector<Resource> dirty_;   // resources whose constraining flows changed
  std::vector<Flow> changed_;
  std::vector<Flow> component_flows_;
  std::vector<Resource> component_;
  std::uint32_t visit_ = 0;
};

}  // namespace weft::sim
