#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/small_list.h"
#include "model/sim/flow/headroom.h"

namespace weft::sim {

// Max-min fair rates of flows over shared resources, kept up to date as flows come and go.
//
//   for every resource r:  sum of times_fr * rate_f over flows f through r  <=  capacity_r
//   for every flow f:      rate_f <= cap_f
//
// and no rate can grow without shrinking one that is not larger. Every resource has a share: the most that it grants
// any flow, given what the flows' caps and their other resources grant them (infinite where the capacity suffices). A
// flow's rate is the least of its cap and its resources' shares. When a flow comes or goes its resources' shares are
// computed anew, and a share that changed has the neighbouring ones computed anew, until none changes: the only fixed
// point is the max-min allocation, and it is reached in as many waves as there are different bottleneck levels. (The
// resource with the least capacity per flow computes its final share at once, because no share anywhere is ever below
// that; then the next; and so on. Compare Charny, Clark and Jain, Congestion control with explicit rate indication,
// 1995.) Changes below kTolerance do not spread, so that a change in one corner does not shake a whole cluster.
// Resources that can never bind (Headroom) know nothing of flows: most links, so that a flow comes and goes without
// their memory being looked at. A way keeps the least share that its resources grant, and the least of the other ones:
// a flow through hundreds of links, as those of a switch that copies, is asked for it once per user of each link. Long
// ways that share most of their resources, as all that a switch copies to the same GPUs do, share a trunk: it is looked
// at once per change, and not once per way.
// Units: bytes per second. Thread: one at a time.
class MaxMin {
 public:
  using Flow = std::int32_t;
  using Resource = Headroom::Resource;
  using Use = Headroom::Use;
  using Path = Headroom::Path;
  using Way = Headroom::Way;
  static constexpr double kTolerance = 1e-5;  // relative

  Resource add_resource(double capacity);

  // Of all flows that take this path. Owns: a copy, which stays where it is. Requires: no resource twice.
  Way add_way(Path path);
  Path path(Way way) const {
    const WayState& w = ways_[static_cast<std::size_t>(way)];
    return {w.uses, w.length};
  }

  // Requires: cap > 0.
  Flow start(Way way, double cap);
  void stop(Flow flow);

  double rate(Flow flow) const { return flows_[static_cast<std::size_t>(flow)].rate; }
  Path path_of(Flow flow) const { return path(flows_[static_cast<std::size_t>(flow)].way); }
  // Requires: above 0.
  void set_capacity(Resource r, double capacity);
  double capacity(Resource r) const { return resources_[static_cast<std::size_t>(r)].capacity; }

  // Settles what changed since the last call. Returns the flows whose rate is new, those just started included, in
  // ascending order; valid until the next call of anything.
  std::span<const Flow> solve();

  // What solve() has looked at so far, for tests of how much work there is.
  struct Work {
    std::int64_t shares = 0,
                 neighbours = 0;  // computed anew; resources asked whether a neighbour's change reaches them
  };
  const Work& work() const { return work_; }

 private:
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  struct WayState {
    const Use* uses;        // the path
    Use* limits = nullptr;  // those of it that can bind, in its order, unless all can
    std::uint32_t length, binding = 0;
    std::int32_t branch = -1;        // below 0: it has no trunk
    double wanted = 0, claimed = 0;  // by its flows, now and at the most so far; kept while some cannot bind
    SmallList<Flow, 2> flows = {};   // the same

    bool has_room() const { return binding < length; }
    Path limiting() const { return has_room() ? Path(limits, binding) : Path(uses, length); }
  };
  // What a way's resources grant any flow. The caps of the flows themselves are not part of it.
  struct Grant {
    double least = kUnlimited, others = kUnlimited;  // of all resources; of all but `narrowest`
    Resource narrowest = -1;
    bool known = false;       // false: to be read from the shares
    bool changed = false;     // whether the last recompute() of one of them changed `least`, …
    std::uint64_t visit = 0;  // … whose number this is
  };
  // Resources that several long ways cross. No resource is in two trunks.
  struct Trunk {
    std::vector<Resource> resources;
    Grant grant = {};          // of these
    std::uint64_t looked = 0;  // the last call of recompute() that asked whether they can notice
  };
  // A way that crosses all resources of a trunk, and these besides.
  struct Branch {
    std::int32_t trunk;
    Path rest;
  };
  struct FlowState {
    Way way = -1;
    bool live = false, touched = false;
    double cap = 0, rate = 0;
  };
  // A cache line where few flows use it: every flow that comes or goes touches all resources of its path.
  struct alignas(64) ResourceState {
    double capacity = 0, demand = 0;  // demand: sum of the flows' caps
    double share = kUnlimited;
    struct User {
      Flow flow;
      std::int32_t times;
    };
    SmallList<User, 3> users = {};
  };
  ResourceState& resource(Resource r) { return resources_[static_cast<std::size_t>(r)]; }
  FlowState& flow(Flow f) { return flows_[static_cast<std::size_t>(f)]; }
  WayState& way(Way w) { return ways_[static_cast<std::size_t>(w)]; }
  Grant& grant(Way w) { return grants_[static_cast<std::size_t>(w)]; }
  Use* room_for(std::size_t uses);
  void find_limits(WayState& way);
  void claim(Way number);
  bool ways_come_again() const;
  void bind(std::span<const Resource> newly);
  void list(Flow f, const Use& use);
  void find_trunk(Way number);
  void branch_off(Way number, std::int32_t trunk);
  Grant& grant_of_trunk(std::int32_t trunk);
  void take(Grant& grant, Resource r) const;
  const Grant& grant_of(Way number);
  void look_around(Way number, Resource changed, double least);
  void look_at(Resource neighbour, Resource changed, double least);
  static bool renew(Grant& grant, Resource r, double before, double now);
  double granted(const FlowState& f, Resource except);
  double share_of(Resource r);
  void recompute(Resource r);
  void enqueue(Resource r);
  void touch(Flow f);

  std::vector<ResourceState> resources_;
  Headroom headroom_;
  std::vector<WayState> ways_;
  std::vector<Grant> grants_;  // by way
  std::vector<Trunk> trunks_;
  std::vector<Branch> branches_;
  std::vector<Way> trunkless_;                 // the latest long ways without a trunk
  std::vector<std::int32_t> trunk_of_;         // by resource; below 0: none
  std::vector<std::uint8_t> marked_;           // by resource: scratch of find_trunk
  std::uint64_t visit_ = 0;                    // calls of recompute() that changed a share
  std::vector<std::uint64_t> looked_;          // by resource: the last one that asked whether it can notice
  std::vector<std::unique_ptr<Use[]>> pages_;  // of the ways' paths; the last one is not full
  std::size_t used_ = 0, page_ = 0;            // of the last page: uses, and how many it holds
  std::int64_t claimed_ways_ = 0, started_ = 0, stopped_ = 0;  // flows, until claims are given up
  std::vector<FlowState> flows_;
  std::vector<Flow> free_;
  std::vector<Resource> queue_;        // whose share may have changed
  std::vector<std::uint8_t> waiting_;  // by resource: is it in the queue?
  std::vector<Flow> touched_;          // whose rate may have changed
  std::vector<Flow> changed_;
  struct Limit {
    double rate;
    std::int32_t times;
  };
  std::vector<Limit> limits_;  // scratch of share_of
  Work work_;
};

}  // namespace weft::sim
