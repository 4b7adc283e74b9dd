#include "sim/flow/flow_fabric.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/check.h"
#include "sim/flow/flows.h"

namespace weft::sim {

using protocol::End;
using protocol::Operation;

namespace {

constexpr double kDownRate = 1e-6;  // of a link's rate is what is left of it while it is down: flows wait, none is lost
constexpr Bytes kScratchBytes = Bytes{64} << 20;  // a fraction of a percent of a GPU's memory

// Loads of streams are numbered from here up; actors' are not below 0, and those of switches just below.
constexpr std::int32_t kFirstStream = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kMostStreams = 1 << 30;

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
      fold_(topology, ranks, options_.turn > 0 ? options_.turn : ranks, rates_,
            links_have_numbers() && (options_.turn <= 0 || options_.turn == ranks)),  // folded links are classes
      carrier_(carrier_of(*this)),
      delays_(options_.disturbances.jitter),
      bursts_(options_.background.seed) {
  capabilities_.moves_data = options_.moves_data;
  WEFT_REQUIRE(rates_.add_way({}) == kNowhere);
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
  actors_.resize(index(std::int64_t{fold_.representatives()} * options_.strands));
  const std::vector<Rank>& places = options_.places;
  for (Rank r = 0; r < ranks; ++r)
    devices_.push_back(available[index(places.empty() ? r : places[index(r)]) % available.size()]);
  for (Rank r = 0; r < fold_.representatives(); ++r) endpoints_.emplace_back(this, r);
  WEFT_REQUIRE(options_.lanes > 0 && options_.strands % options_.lanes == 0);
  std::unordered_map<std::int32_t, std::int32_t> numbers;  // of nodes
  for (Rank r = 0; r < fold_.representatives(); ++r) {
    const std::int32_t node = topology_.device(devices_[index(r)]).node;
    Host host{.number = numbers.try_emplace(node, static_cast<std::int32_t>(numbers.size())).first->second};
    for (Rank other = r + fold_.representatives();
         other < ranks && topology_.device(devices_[index(other)]).node == node; other += fold_.representatives())
      ++host.images;
    hosts_.push_back(host);
  }
  first_host_ = 2 * fold_.representatives();
  first_block_ = first_host_ + static_cast<std::int32_t>(numbers.size());
  const int channels = options_.lanes > 1 ? options_.strands / options_.lanes : 0;
  posters_.resize(index(first_block_ + std::int64_t{2} * fold_.representatives() * channels));
  for (const Background::Stream& stream : options_.background.streams) {
    const MaxMin::Way way = way_along(stream.path, {});
    streams_.emplace_back(stream, way, rates_.path(way), options_.carrier != nullptr);
  }
  if (options_.costs.gpu()) return;
  for (Rank r = 0; r < ranks; ++r) {
    // A core's one link leads to its CPU, forward or backward.
    const topology::DeviceId core = devices_[index(r)];
    const topology::LinkId link = topology.links_of(core).front();
    const topology::Path path{.hops = {{link, topology.link(link).a == core}}};
    places_[index(r)].memory_way = way_along(path, {});
  }
}

FlowFabric::~FlowFabric() = default;

std::unique_ptr<Carrier> FlowFabric::carrier_of(Carrier::SimulationHost& self) {
  if (options_.carrier) return options_.carrier(self);
  return std::make_unique<Flows>(self, rates_, options_.timeline);
}

FlowFabric::Endpoint::Endpoint(FlowFabric* fabric, Rank rank) : fabric_(fabric), rank_(rank) {}

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
  if (options_.why) path_.emplace(actors_.size(), launch_time());
  for (std::int32_t a = 0; a < static_cast<std::int32_t>(actors_.size()); ++a) push(launch_time(), Event::kResume, a);
  const auto& flaps = options_.disturbances.flaps;
  for (std::size_t f = 0; f < flaps.size(); ++f)
    push(flaps[f].period * (1 - flaps[f].down), Event::kFlap, static_cast<std::int32_t>(f), 1);
  const auto& changes = options_.disturbances.changes;
  for (std::size_t c = 0; c < changes.size(); ++c) push(changes[c].at, Event::kChange, static_cast<std::int32_t>(c));
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

CriticalPath::Walked FlowFabric::critical_path() const {
  if (!path_) return {};
  const std::vector<double> bytes = carried();
  // The link of a path that was busiest over the whole run.
  const auto link_of = [&](MaxMin::Way way) {
    MaxMin::Resource busiest = -1;
    double most = -1;
    for (const auto [r, times] : rates_.path(way)) {
      const double share = index(r) < bytes.size() ? bytes[index(r)] / rates_.capacity(r) : 0;
      if (share > most) busiest = r, most = share;
    }
    return CriticalPath::Limit{busiest < 0 ? std::string() : name_of(busiest),
                               busiest < 0 ? 0 : rates_.capacity(busiest)};
  };
  return path_->walk(now_, link_of, [&](std::int32_t actor) { return actor / options_.strands; });
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
      ending_ = CriticalPath::Part::kCopy;
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
      wake(connections_[index(event.subject)].receiver_waits, path_ ? path_->arrived(event.subject) : -1);
      break;
    case Event::kSignalArrives:
      ++connections_[index(event.subject)].signals;
      wake(connections_[index(event.subject)].signal_waits, static_cast<std::int32_t>(event.version));
      break;
    case Event::kSignalsArrive:
      for (const std::int32_t c : signals_[index(event.subject)].connections) {
        ++connections_[index(c)].signals;
        wake(connections_[index(c)].signal_waits, signals_[index(event.subject)].step);
      }
      free_signals_.push_back(event.subject);
      break;
    case Event::kFlap:
      flap(event.subject, event.version == 1);
      break;
    case Event::kChange: {
      const Disturbances::Change& change = options_.disturbances.changes[index(event.subject)];
      for (const MaxMin::Resource direction : {2 * change.link, 2 * change.link + 1})
        carrier_->set_capacity(direction, rates_.capacity(direction) * change.factor);
      break;
    }
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
        wake(m.receiver_waits, path_ ? last_part_[index(event.subject)] : -1, CriticalPath::Edge::kSum);
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

// A part of an actor's operation that others of its node or its channel share.
void FlowFabric::serve(std::int32_t poster, std::int32_t actor, double seconds) {
  ++actors_[index(actor)].outstanding;
  posters_[index(poster)].add(actor, seconds, now_);
  await_poster(poster);
}

void FlowFabric::await_poster(std::int32_t number) {
  Poster& poster = posters_[index(number)];
  if (!poster.idle()) push(poster.next(now_), Event::kPosted, number, poster.turn());
}

// A poster is done with some.
void FlowFabric::posted(std::int32_t number) {
  const bool takes = number < first_host_ && number % 2 == static_cast<std::int32_t>(Proxy::kTakes);
  using Part = CriticalPath::Part;
  for (const std::int32_t done : posters_[index(number)].take(now_)) {
    ending_ = number < first_host_ ? Part::kProxy : number < first_block_ ? Part::kHost : Part::kCopy;
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

void FlowFabric::wake(std::int32_t& actor, std::int32_t step, CriticalPath::Edge edge) {
  if (actor >= 0) runnable_.push_back(actor);
  if (path_) path_->wake(actor, step, edge);
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
  if (load >= 0 && path_) path_->loads(load, way, bytes / cap, cap);
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
  ending_ = CriticalPath::Part::kTransfer;
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
    if (path_) path_->delayed(a, now_);
    return push(delays_.next(), Event::kLocalEnds, a);
  }
  const Operation& operation = *actor.operation;
  const Rank rank = a / options_.strands;
  if (options_.timeline != nullptr) options_.timeline->span(rank, a % options_.strands, operation, actor.since, now_);
  Duration fence;
  if (operation.kind == Operation::Kind::kSignal) signal(a, operation);
  for (const End& end : operation.destinations) {
    if (end.kind == End::Kind::kMessage && end.last) {
      const std::int32_t c = connection_of(a, end.peer, end.strand, Way::kOut);
      fence = std::max(fence, connections_[index(c)].fence);
      if (path_) path_->sent(c, a);
      sent(c);
    } else if (end.kind == End::Kind::kAggregation) {
      const std::int32_t aggregation = aggregation_index(rank, end);
      if (path_) {
        last_part_.resize(std::max(last_part_.size(), index(aggregation) + 1), -1);
        last_part_[index(aggregation)] = path_->step_of(a);
      }
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
      wake(c.sender_waits, path_ ? path_->step_of(a) : -1, CriticalPath::Edge::kSlot);
    } else if (end.kind == End::Kind::kAggregation) {
      Aggregation::Member& m = member(rank, end);
      --m.in_flight;
      wake(m.sender_waits, path_ ? path_->step_of(a) : -1, CriticalPath::Edge::kSlot);
    } else if (end.kind == End::Kind::kMulticast) {
      fence = std::max(fence, way_through(rank, end, false).fence);
    }
  }
  actor.operation = nullptr;
  if (path_) path_->end(a, now_, ending_, fence);
  if (fence > Duration())
    push(fence, Event::kResume, a);
  else
    runnable_.push_back(a);
}

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
    return push(connections_[index(c)].latency, Event::kSignalArrives, c, static_cast<std::uint32_t>(step));
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
    push(latency, Event::kSignalsArrive, number);
  }
}

bool FlowFabric::ready(Rank rank, int strand, const Operation& operation) {
  if (failure_) return false;
  const std::int32_t self = rank * options_.strands + strand;
  if (operation.kind == Operation::Kind::kSignal) return true;
  if (operation.kind == Operation::Kind::kWait) {
    if (!operation.destinations.empty()) return signalled_by_all(self, several(self, operation));
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
  const auto begin = [&]() -> Actor& {
    Actor& actor = actors_[index(self)];
    actor.operation = &operation;
    actor.delayed = false;
    actor.since = now_;
    if (path_) path_->begin(self, now_, slowness_.empty() ? 1 : slowness_[index(rank)]);
    actor.outstanding = 1;  // this call itself, so that nothing ends before everything has started
    return actor;
  };
  if (operation.kind == Operation::Kind::kSignal) {
    Duration overhead;
    if (operation.destinations.empty())
      overhead = connect(self, operation.peer, strand, Way::kOut).overhead;
    else
      for (const std::int32_t c : several(self, operation).connections) overhead += connections_[index(c)].overhead;
    if (overhead == Duration()) {
      if (path_) path_->begin(self, now_, 1);
      signal(self, operation);
      return fabric::Posted::kDone;
    }
    begin();
    occupy(rank, Proxy::kPosts, self, overhead.s());  // it is posted as messages are
    return fabric::Posted::kPending;
  }
  if (operation.kind == Operation::Kind::kWait) {
    if (path_) path_->begin(self, now_, 1);
    if (!operation.destinations.empty()) {
      Several& all = several(self, operation);
      for (const std::int32_t c : all.connections) --connections_[index(c)].signals;
      all.left = all.connections.size();
      return fabric::Posted::kDone;
    }
    --connect(self, operation.peer, strand, Way::kIn).signals;
    return fabric::Posted::kDone;
  }
  std::vector<std::vector<std::byte>> parts;
  if (options_.moves_data) parts = move_data(rank, operation);
  Actor& actor = begin();
  const double bytes = static_cast<double>(operation.bytes);
  const double wire = static_cast<double>(protocol::wire_bytes(protocol_, operation.bytes));
  const bool gpu = options_.costs.gpu();
  const MaxMin::Way own = places_[index(rank)].memory_way;
  const double core = own < 0 ? 0 : rates_.capacity(rates_.path(own)[0].resource);
  double local = 0, flow_seconds = 0, posting = 0;
  struct {
    double within = 0, across = 0;
  } sending;  // seconds in which the channel's thread block sends within the node, and its connections across the
              // network
  // LL's rates are NCCL's for all that a channel's block does; those of the others stay those of connections.
  const bool of_channel = protocol_ == protocol::Protocol::kLL;
  double through_host = 0;  // seconds of the node's host
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
    if (end.kind == End::Kind::kMessage && c.cost != nullptr) {
      if (of_channel) (c.crosses ? sending.across : sending.within) += wire / c.cost->channel.value();
      if (const double most = protocol::HopCosts::node(*c.cost, topology_.nodes()).value(); most > 0)
        through_host += wire / most;
    }
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
    if (through_host > 0)
      serve(first_host_ + hosts_[index(rank)].number, self, through_host * hosts_[index(rank)].images);
    // Copying and sending to several peers only matter where they take longer than the slowest flow takes at the least,
    // or where the channel has other strands.
    const double block = slowness * std::max(local / options_.costs.local_channel().value(), sending.within),
                 seconds = std::max(block, slowness * sending.across);
    if (options_.lanes > 1 && of_channel) {
      const std::int32_t channel = first_block_ + 2 * (self / options_.lanes);
      if (block > 0) serve(channel, self, block);
      if (sending.across > 0) serve(channel + 1, self, slowness * sending.across);
    } else if (seconds > flow_seconds) {
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

}  // namespace weft::sim
