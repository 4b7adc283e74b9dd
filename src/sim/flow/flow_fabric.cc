#include "sim/flow/flow_fabric.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/check.h"
#include "sim/flow/flows.h"

namespace weft::sim {

using protocol::End;
using protocol::Memory;
using protocol::Operation;

namespace {

constexpr double kDownRate = 1e-6;  // of a link's rate is what is left of it while it is down: flows wait, none is lost
constexpr Bytes kScratchBytes = Bytes{64} << 20;  // a fraction of a percent of a GPU's memory

// Loads of streams are numbered from here up; actors' are not below 0, and those of switches just below.
constexpr std::int32_t kFirstStream = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kMostStreams = 1 << 30;

constexpr MaxMin::Way kNowhere = 0;  // what the fabric's first way crosses: nothing

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

protocol::Capabilities flow_capabilities(const topology::Topology& topology, int strands) {
  return {.name = "sim/flow",
          .load_store = true,
          .multicast = switches_sum(topology, topology::DeviceKind::kNvSwitch),
          .aggregation = switches_sum(topology, topology::DeviceKind::kNetworkSwitch),
          .virtual_time = true,
          .max_strands = strands,
          .max_slice = protocol::traits(protocol::Protocol::kSimple).slice_bytes,
          .scratch_bytes = kScratchBytes};
}

FlowFabric::FlowFabric(const topology::Topology& topology, const topology::Routes& routes, Rank ranks,
                       FlowOptions options)
    : topology_(topology),
      routes_(routes),
      options_(std::move(options)),
      capabilities_(flow_capabilities(topology, options_.strands)),
      fold_(topology, ranks, options_.turn > 0 ? options_.turn : ranks, rates_, links_have_numbers()),
      carrier_(carrier_of(*this)),
      delays_(options_.disturbances.jitter),
      bursts_(options_.background.seed) {
  capabilities_.moves_data = options_.moves_data;
  rates_.add_way({});
  const std::vector<topology::DeviceId> available = topology.endpoints();
  WEFT_REQUIRE(!available.empty() && ranks > 0);
  ranks_per_endpoint_ = (ranks + static_cast<Rank>(available.size()) - 1) / static_cast<Rank>(available.size());
  WEFT_REQUIRE(
      fold_.images() == 1 || (options_.costs.gpu() && ranks_per_endpoint_ == 1 && !options_.moves_data &&
                              !options_.disturbances.any() && options_.background.streams.empty() && !options_.carrier),
      "folding {} ranks to {}", ranks, fold_.representatives());
  if (!options_.disturbances.slow.empty()) slowness_.assign(index(ranks), 1);
  for (const auto& slow : options_.disturbances.slow) slowness_[index(slow.rank)] = slow.factor;
  places_.resize(index(fold_.representatives()));
  posters_.resize(2 * index(fold_.representatives()));
  actors_.resize(index(std::int64_t{fold_.representatives()} * options_.strands));
  const std::vector<Rank>& places = options_.places;
  for (Rank r = 0; r < ranks; ++r)
    devices_.push_back(available[index(places.empty() ? r : places[index(r)]) % available.size()]);
  for (Rank r = 0; r < fold_.representatives(); ++r) endpoints_.emplace_back(this, r);
  for (const Background::Stream& stream : options_.background.streams) {
    const MaxMin::Way way = way_along([&](Rank) { return stream.path; });
    streams_.emplace_back(stream, way, rates_.path(way), options_.carrier != nullptr);
  }
  if (options_.costs.gpu()) return;
  for (Rank r = 0; r < ranks; ++r) {
    // A core's one link leads to its CPU, forward or backward.
    const topology::DeviceId core = devices_[index(r)];
    const topology::LinkId link = topology.links_of(core).front();
    const topology::Path path{.hops = {{link, topology.link(link).a == core}}};
    places_[index(r)].memory_way = way_along([&](Rank) { return path; });
  }
}

FlowFabric::~FlowFabric() = default;

std::unique_ptr<Carrier> FlowFabric::carrier_of(Carrier::Surroundings& self) {
  if (options_.carrier) return options_.carrier(self);
  return std::make_unique<Flows>(self, rates_, options_.timeline);
}

FlowFabric::Endpoint::Endpoint(FlowFabric* fabric, Rank rank) : fabric_(fabric), rank_(rank) {}

// The resources of a path and of its images. A failure if those are not alike.
MaxMin::Way FlowFabric::way_along(const TurnedPath& turned) {
  const auto uses = fold_.uses(turned);
  if (!uses && !failure_) failure_ = Error{Code::kUnsupported, Blame::kOperation, "folded ranks are not alike"};
  return uses ? rates_.add_way(*uses) : kNowhere;
}

void FlowFabric::fail(std::string message) {
  if (!failure_) failure_ = Error{Code::kUnsupported, Blame::kInput, std::move(message)};
}

void FlowFabric::push(Duration delay, Event::Kind kind, std::int32_t subject, std::uint32_t version) {
  const Event event{kind, 0, subject, version};
  busy_ += event.keeps_going();
  events_waiting_.push(now_, delay, event);
}

Duration FlowFabric::launch_time() const {
  const Duration* latency = options_.costs.launch(protocol_);
  return latency != nullptr ? *latency : Duration{};
}

void FlowFabric::launch() {
  now_ = {};
  for (std::int32_t a = 0; a < static_cast<std::int32_t>(actors_.size()); ++a) push(launch_time(), Event::kResume, a);
  const auto& flaps = options_.disturbances.flaps;
  for (std::size_t f = 0; f < flaps.size(); ++f)
    push(flaps[f].period * (1 - flaps[f].down), Event::kFlap, static_cast<std::int32_t>(f), 1);
  for (std::size_t s = 0; s < streams_.size(); ++s)
    push(streams_[s].pause(bursts_, now_), Event::kBackground, static_cast<std::int32_t>(s));
  const Computing& computing = options_.computing;
  kernels_.assign(index(std::min(computing.ranks, fold_.representatives())), Kernel(computing));
  for (Rank r = 0; r < static_cast<Rank>(kernels_.size()); ++r)
    push(computing.alone, Event::kComputed, r, kernels_[index(r)].turn());
}

void FlowFabric::hold(Rank rank, int blocks) {
  if (index(rank) >= kernels_.size()) return;
  Kernel& kernel = kernels_[index(rank)];
  kernel.hold(blocks * options_.computing.held_by_channel, now_);
  const std::uint32_t turn = kernel.turn();
  if (kernel.runs()) push(kernel.left(), Event::kComputed, rank, turn);
}

// A link goes down, or comes back; either happens again a period later.
void FlowFabric::flap(std::int32_t number, bool down) {
  const Disturbances::Flap& flap = options_.disturbances.flaps[index(number)];
  for (const MaxMin::Resource direction : {2 * flap.link, 2 * flap.link + 1})
    carrier_->set_capacity(direction, rates_.capacity(direction) * (down ? kDownRate : 1 / kDownRate));
  push(flap.period * (down ? flap.down : 1 - flap.down), Event::kFlap, number, down ? 0 : 1);
}

// Handles the next event; false when there is none left.
bool FlowFabric::step() {
  // What happens at one time is settled once.
  if (events_waiting_.empty() || events_waiting_.next_time() > now_) carrier_->settle();
  if (busy_ == 0) return false;
  if (events_waiting_.empty()) {
    failure_ = Error{
        Code::kNoResources, Blame::kOperation,
        fmt::format("deadlock at {:.3f} us of virtual time: {} loads wait for each other's room", now_.us(), busy_)};
    return false;
  }
  const auto [time, order, event] = events_waiting_.pop();
  busy_ -= event.keeps_going();
  if (event.kind == Event::kCarrier && !carrier_->due(reminder_of(event))) return true;
  if (event.kind == Event::kComputed && !kernels_[index(event.subject)].is_turn(event.version)) return true;
  if (++events_ > options_.max_events) {
    failure_ =
        Error{Code::kNoResources, Blame::kOperation,
              fmt::format("stopped after {} events at {:.3f} us of virtual time", options_.max_events, now_.us())};
    return false;
  }
  now_ = time;
  switch (event.kind) {
    case Event::kCarrier:
      carrier_->handle(reminder_of(event));
      break;
    case Event::kLocalEnds:
      part_done(event.subject);
      break;
    case Event::kPosted:
      if (posters_[index(event.subject)].is_turn(event.version)) posted(event.subject);
      break;
    case Event::kResume:
      runnable_.push_back(event.subject);
      break;
    case Event::kMessageArrives:
      ++connections_[index(event.subject)].arrived;
      wake(connections_[index(event.subject)].receiver_waits);
      break;
    case Event::kSignalArrives:
      ++connections_[index(event.subject)].signals;
      wake(connections_[index(event.subject)].signal_waits);
      break;
    case Event::kFlap:
      flap(event.subject, event.version == 1);
      break;
    case Event::kComputed:
      kernels_[index(event.subject)].end();
      computed_ = now_;
      break;
    case Event::kBackground:
      carrier_->start(streams_[index(event.subject)].load(kFirstStream + event.subject));
      break;
    case Event::kPartArrives:
      part_arrives(event.subject, static_cast<Rank>(event.version));
      break;
    case Event::kSumArrives:
      for (Aggregation::Member& m : aggregations_[index(event.subject)].members()) {
        ++m.sums;
        wake(m.receiver_waits);
      }
      break;
  }
  return true;
}

// For what an actor posts, or a message that comes in over a connection.
void FlowFabric::occupy(Rank rank, Proxy proxy, std::int32_t with, double seconds) {
  const std::int32_t poster = 2 * (rank - fold_.turned_by(rank)) + static_cast<std::int32_t>(proxy);
  const double slowness = slowness_.empty() ? 1 : slowness_[index(rank)];
  posters_[index(poster)].add(with, slowness * seconds, now_);
  await_poster(poster);
}

void FlowFabric::await_poster(std::int32_t number) {
  Poster& poster = posters_[index(number)];
  if (!poster.idle()) push(poster.next(now_), Event::kPosted, number, poster.turn());
}

// A poster is done with some.
void FlowFabric::posted(std::int32_t number) {
  const bool takes = number % 2 == static_cast<std::int32_t>(Proxy::kTakes);
  for (const std::int32_t done : posters_[index(number)].take(now_)) {
    if (!takes)
      part_done(done);
    else if (Connection& c = connections_[index(done)]; c.taken++ < 0)
      push(c.latency, Event::kMessageArrives, done);
  }
  await_poster(number);
}

// A message is on its way: it arrives when its receiver has had time for it, too.
void FlowFabric::sent(std::int32_t connection) {
  Connection& c = connections_[index(connection)];
  if (c.overhead == Duration() || c.taken-- > 0) push(c.latency, Event::kMessageArrives, connection);
}

void FlowFabric::wake(std::int32_t& actor) {
  if (actor >= 0) runnable_.push_back(actor);
  actor = -1;
}

// The switch has a part of one more member; when it has everybody's, the sum sets out.
void FlowFabric::part_arrives(std::int32_t aggregation, Rank rank) {
  Aggregation& a = aggregations_[index(aggregation)];
  if (const auto bytes = a.arrive(a.member(rank))) start_way(-1 - aggregation, a.down, *bytes, 1);
}

// Returns how long it takes at the least.
double FlowFabric::start_way(std::int32_t actor, SwitchWay& way, Bytes bytes, double slowness) {
  const double raw = static_cast<double>(protocol::wire_bytes(protocol_, bytes)) * way.raw_per_wire;
  way.carried += raw;
  carry(actor, way.way, raw, way.cap / slowness, way.raw_per_wire);
  return raw / way.cap * slowness;
}

// `load`: an actor; below 0: the sum that a switch sends, of aggregation -1 - load.
void FlowFabric::carry(std::int32_t load, MaxMin::Way way, double bytes, double cap, double raw_per_wire) {
  ++busy_;
  if (load >= 0) ++actors_[index(load)].outstanding;
  carrier_->start({.number = load,
                   .way = way,
                   .path = rates_.path(way),
                   .bytes = bytes,
                   .cap = cap,
                   .raw_per_wire = raw_per_wire,
                   .service = service_of(load)});
}

// Of what a rank sends, or of the sum of what a group's first member sent.
std::uint8_t FlowFabric::service_of(std::int32_t load) const {
  if (options_.service.empty()) return 0;
  return options_.service[index(load >= 0 ? load / options_.strands : aggregations_[index(-1 - load)].group().first)];
}

void FlowFabric::through(std::int32_t load) {
  if (load < kFirstStream + kMostStreams) {
    const std::int32_t stream = load - kFirstStream;
    return push(streams_[index(stream)].pause(bursts_, now_), Event::kBackground, stream);
  }
  --busy_;
  if (load >= 0) return part_done(load);
  const std::int32_t aggregation = -1 - load;
  push(aggregations_[index(aggregation)].down.latency, Event::kSumArrives, aggregation);
}

// One part of an actor's operation is over; after the last one the operation is.
void FlowFabric::part_done(std::int32_t a) {
  Actor& actor = actors_[index(a)];
  if (--actor.outstanding > 0) return;
  if (delays_.any() && !std::exchange(actor.delayed, true)) {
    actor.outstanding = 1;
    return push(delays_.next(), Event::kLocalEnds, a);
  }
  const Operation& operation = *actor.operation;
  const Rank rank = a / options_.strands;
  if (options_.timeline != nullptr) options_.timeline->span(rank, a % options_.strands, operation, actor.since, now_);
  Duration fence;
  for (const End& end : operation.destinations) {
    if (end.kind == End::Kind::kMessage && end.last) {
      const std::int32_t c = connection_of(a, end.peer, end.strand, Way::kOut);
      fence = std::max(fence, connections_[index(c)].fence);
      sent(c);
    } else if (end.kind == End::Kind::kAggregation) {
      push(member(rank, end).up.latency, Event::kPartArrives, aggregation_index(rank, end),
           static_cast<std::uint32_t>(rank));
    } else if (end.kind == End::Kind::kMulticast) {
      fence = std::max(fence, way_through(rank, end, true).fence);
    }
  }
  for (const End& end : operation.sources) {
    if (end.kind == End::Kind::kMessage && end.last) {
      Connection& c = connect(a, end.peer, end.strand, Way::kIn);
      --c.in_flight;
      wake(c.sender_waits);
    } else if (end.kind == End::Kind::kAggregation) {
      Aggregation::Member& m = member(rank, end);
      --m.in_flight;
      wake(m.sender_waits);
    } else if (end.kind == End::Kind::kMulticast) {
      fence = std::max(fence, way_through(rank, end, false).fence);
    }
  }
  actor.operation = nullptr;
  if (fence > Duration())
    push(fence, Event::kResume, a);
  else
    runnable_.push_back(a);
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
      if (options_.costs.gpu()) c.overhead = cost->overhead;
      c.fence = cost->fence;
      c.latency = options_.costs.latency(*cost, path.latency, ranks_per_endpoint_) - c.overhead;
      c.raw_per_wire = 1 / cost->efficiency;
      c.cap = cost->channel.value() * c.raw_per_wire;
    }
    if (options_.costs.gpu()) c.way = way_along(path_of);
    limit_to_links(c.way, c.cap);
  }
  connections_.push_back(c);
  return static_cast<std::int32_t>(connections_.size() - 1);
}

// No faster than the slowest link even alone: so a single flow never has to be solved for.
void FlowFabric::limit_to_links(MaxMin::Way way, double& cap) const {
  for (const auto [r, times] : rates_.path(way)) cap = std::min(cap, rates_.capacity(r) / times);
}

SwitchWay FlowFabric::way_of(const TurnedPath& turned, const Group& group) {
  const topology::Path path = turned(0);
  const protocol::HopCost* cost = options_.costs.through_switch(name(path.type), protocol_);
  if (cost == nullptr) {
    fail(fmt::format("{} does not run from {} to {} through switches that sum{}", protocol::traits(protocol_).name,
                     topology_.name_of(devices_[index(group.first)]),
                     topology_.name_of(devices_[index(group.member(group.count - 1))]),
                     path.type != topology::PathType::kDis ? "" : ": there are none on the way"));
    return {.way = kNowhere, .latency = {}, .overhead = {}, .fence = {}, .cap = 1};
  }
  SwitchWay way{.way = way_along(turned),
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
  known.push_back({group, store, way_of(turned, group)});
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
    return way_of([&](Rank) { return path.value_or(topology::Path{}); }, group);
  };
  a.down = way(topology::path_from_switches(topology_, routes_, devices));
  for (Rank i = 0; i < group.count; ++i) {
    const Rank r = group.member(i);
    a.member(r).up = way(topology::path_into_switch(topology_, routes_, devices, devices_[index(r)]));
    places_[index(r)].aggregations.push_back(id);
  }
  return id;
}

bool FlowFabric::ready(Rank rank, int strand, const Operation& operation) {
  if (failure_) return false;
  const std::int32_t self = rank * options_.strands + strand;
  if (operation.kind == Operation::Kind::kSignal) return true;
  if (operation.kind == Operation::Kind::kWait) {
    Connection& c = connect(self, operation.peer, strand, Way::kIn);
    if (c.signals == 0) c.signal_waits = self;
    return c.signals > 0;
  }
  for (const End& end : operation.sources) {
    if (end.kind == End::Kind::kAggregation) {
      Aggregation::Member& m = member(rank, end);
      if (m.sums > 0) continue;
      m.receiver_waits = self;
      return false;
    }
    if (end.kind != End::Kind::kMessage || end.offset > 0) continue;
    Connection& c = connect(self, end.peer, end.strand, Way::kIn);
    if (c.arrived == 0) {
      c.receiver_waits = self;
      return false;
    }
  }
  for (const End& end : operation.destinations) {
    if (end.kind == End::Kind::kAggregation) {
      Aggregation::Member& m = member(rank, end);
      if (m.in_flight < protocol::traits(protocol_).slots) continue;
      m.sender_waits = self;
      return false;
    }
    if (end.kind != End::Kind::kMessage || end.offset > 0) continue;
    Connection& c = connect(self, end.peer, end.strand, Way::kOut);
    if (c.in_flight >= protocol::traits(protocol_).slots) {
      c.sender_waits = self;
      return false;
    }
  }
  return true;
}

fabric::Posted FlowFabric::post(Rank rank, int strand, const Operation& operation) {
  ++operations_;
  const std::int32_t self = rank * options_.strands + strand;
  if (operation.kind == Operation::Kind::kSignal) {
    const std::int32_t c = connection_of(self, operation.peer, strand, Way::kOut);
    push(connections_[index(c)].latency, Event::kSignalArrives, c);
    return fabric::Posted::kDone;
  }
  if (operation.kind == Operation::Kind::kWait) {
    --connect(self, operation.peer, strand, Way::kIn).signals;
    return fabric::Posted::kDone;
  }
  std::vector<std::vector<std::byte>> parts;
  if (options_.moves_data) parts = move_data(rank, operation);
  Actor& actor = actors_[index(self)];
  actor.operation = &operation;
  actor.delayed = false;
  actor.since = now_;
  actor.outstanding = 1;  // this call itself, so that nothing ends before everything has started

  const double bytes = static_cast<double>(operation.bytes);
  const double wire = static_cast<double>(protocol::wire_bytes(protocol_, operation.bytes));
  const bool gpu = options_.costs.gpu();
  const MaxMin::Way own = places_[index(rank)].memory_way;
  const double core = own < 0 ? 0 : rates_.capacity(rates_.path(own)[0].resource);
  double local = 0, flow_seconds = 0, posting = 0;
  const double slowness = slowness_.empty() ? 1 : slowness_[index(rank)];
  // Through a switch that sums: its own flow up; a sum that has come lies in this rank's memory.
  const auto account_aggregation = [&](const End& end, bool source) {
    Aggregation& a = aggregations_[index(aggregation_index(rank, end))];
    Aggregation::Member& m = a.member(rank);
    if (source) {
      --m.sums;
      if (!options_.moves_data) a.take(m);
      local += wire;
      return;
    }
    ++m.in_flight;
    a.send(m, operation.bytes, parts.empty() ? nullptr : &parts.front());
    posting += m.up.overhead.s();
    flow_seconds = std::max(flow_seconds, start_way(self, m.up, operation.bytes, slowness));
  };
  const auto account = [&](const End& end, bool source) {
    if (end.kind == End::Kind::kAggregation) return account_aggregation(end, source);
    if (end.kind == End::Kind::kMulticast) {
      SwitchWay& way = way_through(rank, end, !source);
      flow_seconds = std::max(flow_seconds, start_way(self, way, operation.bytes, slowness));
      return;
    }
    if (end.kind == End::Kind::kMessage) {
      Connection& c = connect(self, end.peer, end.strand, source ? Way::kIn : Way::kOut);
      if (end.offset == 0) source ? --c.arrived : ++c.in_flight;
      // A CPU packs and unpacks lines more slowly than it copies.
      if (!gpu) local += wire * (core > c.cap ? core / c.cap - 1 : 0);
    }
    if (!gpu || end.kind == End::Kind::kLocal || (source && end.kind == End::Kind::kMessage)) {
      local +=
          source && end.kind == End::Kind::kMessage ? wire : bytes;  // a received message lies in this rank's memory
      return;
    }
    const std::int32_t number =
        source ? connection_of(self, end.peer, strand, Way::kIn) : connection_of(self, end.peer, end.strand, Way::kOut);
    Connection& c = connections_[index(number)];
    if (end.last && c.overhead > Duration()) {
      posting += c.overhead.s();
      if (end.kind == End::Kind::kMessage) occupy(end.peer, Proxy::kTakes, number, c.overhead.s());
    }
    c.carried += wire * c.raw_per_wire;
    carry(self, c.way, wire * c.raw_per_wire, c.cap / slowness, c.raw_per_wire);
    flow_seconds = std::max(flow_seconds, wire * c.raw_per_wire / c.cap * slowness);
  };
  for (const End& end : operation.sources) account(end, true);
  for (const End& end : operation.destinations) account(end, false);
  if (gpu && posting > 0) {
    ++actor.outstanding;
    occupy(rank, Proxy::kPosts, self, posting);
  }
  if (gpu) {
    // Copying only matters where it takes longer than the slowest flow takes at the least.
    if (const double seconds = slowness * local / options_.costs.local_channel().value(); seconds > flow_seconds) {
      ++actor.outstanding;
      push(Duration::seconds(seconds), Event::kLocalEnds, self);
    }
  } else if (own >= 0) {
    places_[index(rank)].memory_carried += local;
    carry(self, own, local, core / slowness, 1);
  }
  if (--actor.outstanding == 0) {
    actor.outstanding = 1;
    push({}, Event::kLocalEnds, self);
  }
  return fabric::Posted::kPending;
}

std::byte* FlowFabric::memory_of(Rank rank, Memory memory) {
  Endpoint& e = endpoints_[index(rank)];
  if (memory == Memory::kIn) return const_cast<std::byte*>(e.call_.in);  // only ever a source
  if (memory == Memory::kOut) return e.call_.out;
  if (e.scratch_.empty()) e.scratch_.resize(index(kScratchBytes));
  return e.scratch_.data();
}

// Bytes move when the operation starts: in a schedule without races nobody can tell.
// Returns the part for a switch that sums, if the operation has one.
std::vector<std::vector<std::byte>> FlowFabric::move_data(Rank rank, const Operation& operation) {
  std::vector<std::vector<std::byte>> received, parts;
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> destinations;
  std::vector<Scalar> scales;
  bool scaled = false;
  const auto add_source = [&](const std::byte* data, const End& end, Rank owner) {
    const bool scales_this = endpoints_[index(rank)].call_.scale && fabric::scales(end);
    sources.push_back(data);
    scales.push_back(scales_this ? endpoints_[index(owner)].call_.scale.value_or(Scalar{}) : Scalar{});
    scaled |= scales_this;
  };
  for (const End& end : operation.sources) {
    if (end.kind == End::Kind::kAggregation) {
      Aggregation& a = aggregations_[index(aggregation_index(rank, end))];
      for (auto& part : a.take(a.member(rank))) {
        received.push_back(std::move(part));
        add_source(received.back().data(), end, rank);
      }
    } else if (end.kind == End::Kind::kMulticast) {
      const Group group(end);
      for (Rank i = 0; i < group.count; ++i)
        add_source(memory_of(group.member(i), end.memory) + end.offset, end, group.member(i));
    } else if (end.kind == End::Kind::kMessage) {
      auto& queue = messages(end.peer, rank, end.strand);
      const std::vector<std::byte>& message = queue.front();
      WEFT_ASSERT(end.last ? message.size() == index(end.offset + operation.bytes)
                           : message.size() >= index(end.offset + operation.bytes),
                  "sent {}, received {} at {}", message.size(), operation.bytes, end.offset);
      received.emplace_back(message.begin() + end.offset, message.begin() + end.offset + operation.bytes);
      if (end.last) queue.pop_front();
      add_source(received.back().data(), end, rank);
    } else {
      const Rank owner = end.kind == End::Kind::kRemote ? end.peer : rank;
      add_source(memory_of(owner, end.memory) + end.offset, end, owner);
    }
  }
  for (const End& end : operation.destinations) {
    if (end.kind == End::Kind::kAggregation) {
      parts.emplace_back(index(operation.bytes));
      destinations.push_back(parts.back().data());
    } else if (end.kind == End::Kind::kMulticast) {
      const Group group(end);
      for (Rank i = 0; i < group.count; ++i)
        destinations.push_back(memory_of(group.member(i), end.memory) + end.offset);
    } else if (end.kind == End::Kind::kMessage) {
      auto& queue = messages(rank, end.peer, end.strand);
      if (end.offset == 0) queue.emplace_back();
      queue.back().resize(index(end.offset + operation.bytes));
      destinations.push_back(queue.back().data() + end.offset);
    } else {
      destinations.push_back(memory_of(end.kind == End::Kind::kRemote ? end.peer : rank, end.memory) + end.offset);
    }
  }
  const fabric::Call& call = endpoints_[index(rank)].call_;
  call.fold(destinations.data(), static_cast<int>(destinations.size()), sources.data(),
            static_cast<int>(sources.size()), operation.bytes, scaled ? scales.data() : nullptr);
  return parts;
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
