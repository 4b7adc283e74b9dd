// The fabric itself: who sits where, and events in the order of virtual time.

#include "model/sim/flow/flow_fabric.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/sim/flow/flows.h"

namespace weft::sim {

namespace {

constexpr double kDownRate = 1e-6;  // of a link's rate is what is left of it while it is down: flows wait, none is lost
constexpr Bytes kScratchBytes = Bytes{64} << 20;  // a fraction of a percent of a GPU's memory

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

void FlowFabric::push(Duration delay, const Event& event) {
  busy_ += event.keeps_going();
  events_waiting_.push(now_, delay, event);
}

Duration FlowFabric::launch_time() const {
  const Duration* latency = options_.costs.launch(protocol_);
  return latency != nullptr ? *latency : Duration{};
}

void FlowFabric::keep_whole(topology::LinkId link) {
  for (const MaxMin::Resource direction : {2 * link, 2 * link + 1})
    whole_.emplace(direction, rates_.capacity(direction));
}

void FlowFabric::launch() {
  now_ = {};
  if (options_.why) path_.emplace(actors_.size(), launch_time());
  for (std::int32_t a = 0; a < static_cast<std::int32_t>(actors_.size()); ++a) push(launch_time(), Event::Resume{a});
  const auto& flaps = options_.disturbances.flaps;
  for (const auto& flap : flaps) keep_whole(flap.link);
  for (const auto& change : options_.disturbances.changes) keep_whole(change.link);
  for (std::size_t f = 0; f < flaps.size(); ++f)
    push(flaps[f].period * (1 - flaps[f].down), Event::Flap{static_cast<std::int32_t>(f), 1});
  const auto& changes = options_.disturbances.changes;
  for (std::size_t c = 0; c < changes.size(); ++c) push(changes[c].at, Event::Change{static_cast<std::int32_t>(c)});
  for (std::size_t s = 0; s < streams_.size(); ++s)
    push(streams_[s].pause(bursts_, now_), Event::Background{static_cast<std::int32_t>(s)});
  const Computing& computing = options_.computing;
  kernels_.assign(index(std::min(computing.ranks, fold_.representatives())), Kernel(computing));
  for (Rank r = 0; r < static_cast<Rank>(kernels_.size()); ++r)
    push(computing.alone, Event::Computed{r, kernels_[index(r)].turn()});
}

void FlowFabric::hold(Rank rank, int blocks) {
  if (index(rank) >= kernels_.size()) return;
  Kernel& kernel = kernels_[index(rank)];
  kernel.hold(blocks * options_.computing.held_by_channel, now_);
  const std::uint32_t turn = kernel.turn();
  if (kernel.runs()) push(kernel.left(), Event::Computed{rank, turn});
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

bool FlowFabric::is_stale(const Event& event) const {
  if (event.kind() == Event::Kind::kTimer) return !carrier_->due(event.timer());
  if (event.kind() != Event::Kind::kComputed) return false;
  const auto computed = event.as<Event::Computed>();
  return !kernels_[index(computed.rank)].is_turn(computed.turn);
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
  const auto [time, order, event, key] = events_waiting_.pop();
  busy_ -= event.keeps_going();
  if (is_stale(event)) return true;
  if (++events_ > options_.max_events) {
    failure_ =
        Error{Code::kNoResources, Blame::kOperation,
              fmt::format("stopped after {} events at {:.3f} us of virtual time", options_.max_events, now_.us())};
    return false;
  }
  now_ = time;
  event.visit([this](const auto& what) { happens(what); });
  return true;
}

inline void FlowFabric::happens(Event::LocalEnds ends) {
  ending_ = CriticalPath::Part::kCopy;
  part_done(ends.actor);
}

inline void FlowFabric::happens(Event::MessageArrives message) {
  Connection& c = connections_[index(message.connection)];
  ++c.arrived;
  wake(c.receiver_waits, path_ ? path_->arrived(message.connection) : -1);
}

inline void FlowFabric::happens(Event::SignalArrives signal) {
  Connection& c = connections_[index(signal.connection)];
  ++c.signals;
  wake(c.signal_waits, signal.step);
}

inline void FlowFabric::happens(Event::SignalsArrive signals) {
  for (const std::int32_t c : signals_[index(signals.signals)].connections) {
    ++connections_[index(c)].signals;
    wake(connections_[index(c)].signal_waits, signals_[index(signals.signals)].step);
  }
  free_signals_.push_back(signals.signals);
}

inline void FlowFabric::happens(Event::SumArrives sum) {
  for (Aggregation::Member& m : aggregations_[index(sum.aggregation)].members()) {
    ++m.sums;
    wake(m.receiver_waits, path_ ? last_part_[index(sum.aggregation)] : -1, CriticalPath::Edge::kSum);
  }
}

// Either happens again a period later.
inline void FlowFabric::happens(Event::Flap event) {
  const Disturbances::Flap& flap = options_.disturbances.flaps[index(event.flap)];
  const bool down = event.down == 1;
  for (const MaxMin::Resource direction : {2 * flap.link, 2 * flap.link + 1})
    carrier_->set_capacity(direction, rates_.capacity(direction) * (down ? kDownRate : 1 / kDownRate));
  push(flap.period * (down ? flap.down : 1 - flap.down), Event::Flap{event.flap, down ? 0 : 1});
}

inline void FlowFabric::happens(Event::Change event) {
  const Disturbances::Change& change = options_.disturbances.changes[index(event.change)];
  for (const MaxMin::Resource direction : {2 * change.link, 2 * change.link + 1})
    carrier_->set_capacity(direction, rates_.capacity(direction) * change.factor);
}

inline void FlowFabric::happens(Event::Background background) {
  carrier_->start(streams_[index(background.stream)].load(kFirstStream + background.stream));
}

inline void FlowFabric::happens(Event::Computed computed) {
  kernels_[index(computed.rank)].end();
  computed_ = now_;
}

}  // namespace weft::sim
