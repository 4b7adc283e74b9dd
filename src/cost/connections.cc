#include "cost/connections.h"

#include <algorithm>
#include <cmath>

namespace weft::cost {

using schedule::Operand;
using schedule::Step;

namespace {

std::int64_t direction_of(const topology::Hop& hop) { return 2 * hop.link + (hop.forward ? 0 : 1); }

Rank other_member(Rank rank, const Operand& o) { return o.count == 1 || o.peer != rank ? o.peer : o.group().member(1); }

}  // namespace

schedule::Story story_of(const schedule::Task& task, const schedule::Plan& plan, Rank rank, int lane, int channel) {
  schedule::Story story = schedule::story_of(task, plan);
  story.rank = rank;
  story.lane = lane;
  story.channel = channel;
  return story;
}

Status Connections::open_all() {
  const int channels = schedule::busy_channels(task_, plan_);
  for (Rank r = 0; r < task_.ranks && !failure_; ++r) {
    for (int channel = 0; channel < channels; ++channel) {
      for (int lane = 0; lane < plan_.algorithm->lanes; ++lane) {
        auto steps = plan_.algorithm->steps(story_of(task_, plan_, r, lane, channel));
        users_.begin_strand(r);
        while (const Step* step = steps.next()) {
          open_step(*step, r, lane, channel);
          users_.end_step(*step);
        }
      }
    }
  }
  if (failure_) return tl::make_unexpected(*failure_);
  for (auto& [key, link] : links_)
    for (const std::int64_t h : hops_[key])
      link.rate = std::min(link.rate, machine_.rate(h).value() * efficiency_[key] / users_.most(h));
  opened_ = {};
  hops_ = {};
  paths_ = {};
  ways_ = {};
  return {};
}

void Connections::open_step(const Step& step, Rank r, int lane, int channel) {
  if (step.kind != Step::Kind::kMove && step.lane == Operand::kSameLane) open(r, step.peer, lane, channel, kSignals);
  for (const Operand& o : step.sources) {
    if (o.kind == Operand::Kind::kRemote) open(o.peer, r, lane, channel, kLoads);
    if (o.kind == Operand::Kind::kMulticast) open_way(r, o, Way::kLoad, lane, channel);
  }
  for (const Operand& o : step.destinations) {
    const int to_lane = o.lane == Operand::kSameLane ? lane : o.lane;
    if (o.kind == Operand::Kind::kMulticast) open_way(r, o, Way::kStore, lane, channel);
    if (o.kind == Operand::Kind::kAggregation) {
      open_way(r, o, Way::kUp, to_lane, channel);
      if (r == o.peer) open_way(r, o, Way::kDown, to_lane, channel);
    }
    if (o.kind == Operand::Kind::kMessage || o.kind == Operand::Kind::kRemote)
      open(r, o.peer, to_lane, channel, kStores);
  }
}

// `kLoads`: `to` fetches data, which shares links with what `from` sends there itself.
void Connections::open(Rank from, Rank to, int lane, int channel, int use) {
  if (use == kSignals && channel > 0) return;  // these share no links, and cost what those of channel 0 do
  const std::uint64_t connection = key(from, to, channel * plan_.algorithm->lanes + lane);
  if (connection == last_opened_.first && use == last_opened_.second)
    return;  // a strand's next step mostly has the same peer
  last_opened_ = {connection, use};
  int& known = opened_[connection];
  if ((known & use) != 0) return;
  known |= use;
  auto [path, added] = paths_.try_emplace(key(from, to, 0));
  if (added) path->second = machine_.routes().path(device(from), device(to));
  const protocol::HopCost* cost = machine_.costs().find(name(path->second.type), plan_.protocol);
  if (cost == nullptr) {
    failure_ = Error{Code::kUnsupported, Blame::kInput,
                     fmt::format("{} does not run from rank {} to rank {}: a {} path",
                                 protocol::traits(plan_.protocol).name, from, to, name(path->second.type))};
    return;
  }
  if (use != kSignals && machine_.costs().gpu()) use_links(path->second);
  if (use != kSignals && cost->overhead > Duration()) {
    posts_.count(from, channel);
    takes_.count(to, channel);
  }
  if (channel == 0 && !links_.contains(connection)) keep(connection, path->second, *cost, machine_.costs().gpu());
}

void Connections::open_way(Rank rank, const Operand& o, Way way, int lane, int channel) {
  const std::uint64_t connection = key(rank, o, way, channel * plan_.algorithm->lanes + lane);
  if (int& known = opened_[connection]; std::exchange(known, kStores) != 0) return;
  const bool by_switch = (o.kind == Operand::Kind::kMulticast ? plan_.multicast : plan_.aggregation) && o.count > 1;
  auto [known, added] = ways_.try_emplace(key(rank, o, way, by_switch ? 1 : 0));
  if (added)
    known->second =
        by_switch ? path_of(rank, o, way) : machine_.routes().path(device(rank), device(other_member(rank, o)));
  const std::optional<topology::Path>& path = known->second;
  const std::string_view type = path ? name(path->type) : "";
  const protocol::HopCost* cost =
      by_switch ? machine_.costs().through_switch(type, plan_.protocol) : machine_.costs().find(type, plan_.protocol);
  if (!path || (cost == nullptr && o.count > 1)) {
    failure_ = Error{Code::kUnsupported, Blame::kInput,
                     fmt::format("{} does not run through switches that sum between ranks {} and {}{}",
                                 protocol::traits(plan_.protocol).name, o.peer, o.group().member(o.count - 1),
                                 path ? "" : ": there are none on the way")};
    return;
  }
  const bool shares = machine_.costs().gpu() && o.count > 1;
  if (shares) use_links(*path);
  if (way == Way::kUp && cost != nullptr && cost->overhead > Duration()) posts_.count(rank, channel);
  if (channel > 0) return;
  if (o.count == 1) {
    const double local = machine_.costs().local_channel().value();  // zero: bounded by its links only
    links_[connection] = {.rate = local > 0 ? local : HUGE_VAL};
    return;
  }
  keep(connection, *path, *cost, shares);
}

std::optional<topology::Path> Connections::path_of(Rank rank, const Operand& o, Way way) const {
  std::vector<topology::DeviceId> members;
  for (Rank i = 0; i < o.count; ++i) members.push_back(device(o.group().member(i)));
  const topology::Topology& topology = machine_.topology();
  const topology::Routes& routes = machine_.routes();
  switch (way) {
    case Way::kLoad:
      return topology::reduced_path(topology, routes, members, device(rank));
    case Way::kStore:
      return topology::multicast_path(topology, routes, members, device(rank));
    case Way::kUp:
      return topology::path_into_switch(topology, routes, members, device(rank));
    case Way::kDown:
      return topology::path_from_switches(topology, routes, members);
  }
  return std::nullopt;
}

void Connections::use_links(const topology::Path& path) {
  users_.connect();
  for (const topology::Hop& h : path.hops) users_.add(direction_of(h));
}

// Of channel 0. `shares`: its links with others.
void Connections::keep(std::uint64_t connection, const topology::Path& path, const protocol::HopCost& cost,
                       bool shares) {
  const Duration latency = machine_.costs().latency(cost, path.latency, machine_.sharing(task_.ranks)) - cost.overhead;
  links_[connection] = {.latency = std::max(0.0, latency.s()),
                        .overhead = cost.overhead.s(),
                        .fence = cost.fence.s(),
                        .rate = cost.channel.value()};
  efficiency_[connection] = cost.efficiency;
  if (shares)
    for (const topology::Hop& h : path.hops) hops_[connection].push_back(direction_of(h));
}

}  // namespace weft::cost
