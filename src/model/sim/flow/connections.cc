// What ranks send over, opened when first used: ways over the machine's links, and what they have carried.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/sim/flow/flow_fabric.h"

namespace weft::sim {

using protocol::End;

// The resources of a path and of its images. A failure if those are not alike.
MaxMin::Way FlowFabric::way_along(const topology::Path& path, const Fold::Images& turned) {
  const auto uses = fold_.uses(path, turned);
  if (!uses && !failure_) failure_ = Error{Code::kUnsupported, Blame::kOperation, "folded ranks are not alike"};
  return uses ? rates_.add_way(*uses) : kNowhere;
}

std::int32_t FlowFabric::connection_index(Rank from, Rank to, int strand) {
  if (const Rank by = fold_.turned_by(from); by > 0) {
    from -= by;
    to = fold_.back(to, by);
  }
  if (const std::int32_t known = opened_.at(from, to, strand); known >= 0) return known;
  const std::int32_t opened = open(from, to, strand);
  return opened_.at(from, to, strand) = opened;
}

std::int32_t FlowFabric::connection_of(std::int32_t actor, Rank peer, int strand, Way way) {
  Actor& a = actors_[index(actor)];
  const std::int32_t number = 2 * strand + (way == Way::kOut ? 1 : 0);
  for (const Actor::Known& k : a.known)
    if (k.peer == peer && k.way == number) return k.connection;
  const Rank self = actor / options_.strands;
  const std::int32_t found =
      way == Way::kOut ? connection_index(self, peer, strand) : connection_index(peer, self, strand);
  a.known[a.next_known++ % a.known.size()] = {peer, number, found};
  return found;
}

std::int32_t FlowFabric::open(Rank from, Rank to, int strand) {
  Connection c;
  c.slots = protocol::traits(protocol_).slots;
  if (from == to) {  // a rank's message to itself stays in its memory
    c.cap = 1e15;
  } else if (strand > 0) {  // all strands go the same way
    c = connections_[index(connection_index(from, to, 0))];
    c.carried = 0;
    c.in_flight = c.arrived = c.signals = c.taken = 0;
    c.receiver_waits = c.sender_waits = c.signal_waits = -1;
  } else {
    const auto path_of = [&](Rank by) {
      return routes_.path(devices_[index(fold_.on(from, by))], devices_[index(fold_.on(to, by))]);
    };
    const topology::Path path = path_of(0);
    const protocol::HopCost* cost = options_.costs.find(name(path.type), protocol_);
    if (cost == nullptr) {
      fail(fmt::format("{} does not run from {} to {} over a {} path", protocol::traits(protocol_).name,
                       topology_.name_of(devices_[index(from)]), topology_.name_of(devices_[index(to)]),
                       name(path.type)));
      c.cap = 1;
    } else {
      c.cost = cost;
      c.crosses = path.type == topology::PathType::kNet;
      if (options_.costs.gpu()) c.overhead = cost->overhead;
      c.fence = cost->fence;
      if (cost->messages > 0) c.slots = cost->messages;
      c.latency = options_.costs.latency(*cost, path.latency, ranks_per_endpoint_) - c.overhead;
      c.raw_per_wire = 1 / cost->efficiency;
      c.cap = protocol::HopCosts::channel(*cost, ranks_per_endpoint_).value() * c.raw_per_wire;
    }
    if (options_.costs.gpu()) c.way = way_along(path, path_of);
    limit_to_links(c.way, c.cap);
  }
  connections_.push_back(c);
  return static_cast<std::int32_t>(connections_.size() - 1);
}

// No faster than the slowest link even alone: so a single flow never has to be solved for. Links that flap or change
// count as they are when they are whole: a connection may first be used while one is down.
void FlowFabric::limit_to_links(MaxMin::Way way, double& cap) const {
  for (const auto [r, times] : rates_.path(way)) {
    const auto whole = whole_.find(r);
    cap = std::min(cap, (whole == whole_.end() ? rates_.capacity(r) : whole->second) / times);
  }
}

SwitchWay FlowFabric::way_of(const topology::Path& path, const Fold::Images& turned, const Group& group) {
  const protocol::HopCost* cost = options_.costs.through_switch(name(path.type), protocol_);
  if (cost == nullptr) {
    fail(fmt::format("{} does not run from {} to {} through switches that sum{}", protocol::traits(protocol_).name,
                     topology_.name_of(devices_[index(group.first)]),
                     topology_.name_of(devices_[index(group.member(group.count - 1))]),
                     path.type != topology::PathType::kDis ? "" : ": there are none on the way"));
    return {.way = kNowhere, .latency = {}, .overhead = {}, .fence = {}, .cap = 1};
  }
  SwitchWay way{.way = way_along(path, turned),
                .latency = std::max(Duration{},
                                    options_.costs.latency(*cost, path.latency, ranks_per_endpoint_) - cost->overhead),
                .overhead = cost->overhead,
                .fence = cost->fence,
                .cap = cost->channel.value() / cost->efficiency,
                .raw_per_wire = 1 / cost->efficiency};
  limit_to_links(way.way, way.cap);
  return way;
}

std::vector<topology::DeviceId> FlowFabric::devices_of(const Group& group, Rank by) const {
  std::vector<topology::DeviceId> devices;
  for (Rank i = 0; i < group.count; ++i) devices.push_back(devices_[index(fold_.on(group.member(i), by))]);
  return devices;
}

SwitchWay& FlowFabric::way_through(Rank rank, const End& end, bool store) {
  const Group group(end);
  std::vector<Place::GroupEntry>& known = places_[index(rank)].groups;
  for (Place::GroupEntry& e : known)
    if (e.store == store && e.group == group) return e.way;
  const auto find = store ? topology::multicast_path : topology::reduced_path;
  const auto turned = [&](Rank by) {
    return find(topology_, routes_, devices_of(group, by), devices_[index(fold_.on(rank, by))])
        .value_or(topology::Path{});
  };
  known.push_back({group, store, way_of(turned(0), turned, group)});
  return known.back().way;
}

std::int32_t FlowFabric::aggregation_index(Rank rank, const End& end) {
  const Group group(end);
  for (const std::int32_t a : places_[index(rank)].aggregations)
    if (aggregations_[index(a)].group() == group && aggregations_[index(a)].strand() == end.strand) return a;
  const auto id = static_cast<std::int32_t>(aggregations_.size());
  Aggregation& a = aggregations_.emplace_back(group, end.strand);
  WEFT_REQUIRE(fold_.images() == 1);
  const auto devices = devices_of(group, 0);
  const auto way = [&](const std::optional<topology::Path>& path) {
    return way_of(path.value_or(topology::Path{}), {}, group);
  };
  a.down = way(topology::path_from_switches(topology_, routes_, devices));
  for (Rank i = 0; i < group.count; ++i) {
    const Rank r = group.member(i);
    a.member(r).up = way(topology::path_into_switch(topology_, routes_, devices, devices_[index(r)]));
    places_[index(r)].aggregations.push_back(id);
  }
  return id;
}

std::string FlowFabric::name_of(MaxMin::Resource resource) const {
  const topology::Hop hop = fold_.sample(resource);
  const topology::Link& l = topology_.link(hop.link);
  return fmt::format("{} -> {}", topology_.name_of(hop.forward ? l.a : l.b),
                     topology_.name_of(hop.forward ? l.b : l.a));
}

// Bytes by resource.
std::vector<double> FlowFabric::carried() const {
  std::vector<double> carried;
  const auto add = [&](MaxMin::Way way, double bytes) {
    if (bytes == 0) return;
    for (const auto [r, times] : rates_.path(way)) {
      if (carried.size() <= index(r)) carried.resize(index(r) + 1);
      carried[index(r)] += bytes * times;
    }
  };
  for (const Connection& c : connections_) add(c.way, c.carried);
  for (const Place& p : places_) {
    add(p.memory_way, p.memory_carried);
    for (const Place::GroupEntry& e : p.groups) add(e.way.way, e.way.carried);
  }
  for (const Aggregation& a : aggregations_) {
    add(a.down.way, a.down.carried);
    for (const Aggregation::Member& m : a.members()) add(m.up.way, m.up.carried);
  }
  return carried;
}

FlowFabric::Bottleneck FlowFabric::busiest() const {
  if (now_ == Duration()) return {};
  const std::vector<double> bytes = carried();
  MaxMin::Resource busiest = -1;
  double most = 0;
  for (std::size_t r = 0; r < bytes.size(); ++r) {
    const auto resource = static_cast<MaxMin::Resource>(r);
    const double share = bytes[r] / rates_.capacity(resource) / now_.s();
    const bool earlier = share == most && busiest >= 0 && fold_.images() == 1 && fold_.before(resource, busiest);
    if (share <= most && !earlier) continue;
    most = share;
    busiest = resource;
  }
  return busiest < 0 ? Bottleneck{} : Bottleneck{name_of(busiest), most};
}

}  // namespace weft::sim
