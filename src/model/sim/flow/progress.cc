// Loads and messages on their way, and what ends an operation.

#include <algorithm>
#include <utility>

#include "model/sim/flow/flow_fabric.h"

namespace weft::sim {

using protocol::End;
using protocol::Operation;

// Occupies the rank's proxy for an actor's post, or for a message that comes in over a connection.
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
  if (!poster.idle()) push(poster.next(now_), Event::Posted{number, poster.turn()});
}

void FlowFabric::happens(Event::Posted event) {
  const std::int32_t number = event.poster;
  if (!posters_[index(number)].is_turn(event.turn)) return;
  const bool takes = number < first_host_ && number % 2 == static_cast<std::int32_t>(Proxy::kTakes);
  using Part = CriticalPath::Part;
  for (const std::int32_t done : posters_[index(number)].take(now_)) {
    ending_ = number < first_host_ ? Part::kProxy : number < first_block_ ? Part::kHost : Part::kCopy;
    if (!takes)
      part_done(done);
    else if (Connection& c = connections_[index(done)]; c.taken++ < 0)
      push(c.latency, Event::MessageArrives{done});
  }
  await_poster(number);
}

// A message is on its way: it arrives when its receiver has had time for it, too.
void FlowFabric::sent(std::int32_t connection) {
  Connection& c = connections_[index(connection)];
  if (c.overhead == Duration() || c.taken-- > 0) push(c.latency, Event::MessageArrives{connection});
}

void FlowFabric::wake(std::int32_t& actor, std::int32_t step, CriticalPath::Edge edge) {
  if (actor >= 0) runnable_.push_back(actor);
  if (path_) path_->wake(actor, step, edge);
  actor = -1;
}

// The switch has a part of one more member; when it has everybody's, the sum sets out.
void FlowFabric::happens(Event::PartArrives part) {
  Aggregation& a = aggregations_[index(part.aggregation)];
  if (const auto bytes = a.arrive(a.member(part.rank))) start_way(-1 - part.aggregation, a.down, *bytes, 1);
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
    return push(streams_[index(stream)].pause(bursts_, now_), Event::Background{stream});
  }
  --busy_;
  ending_ = CriticalPath::Part::kTransfer;
  if (load >= 0) return part_done(load);
  const std::int32_t aggregation = -1 - load;
  push(aggregations_[index(aggregation)].down.latency, Event::SumArrives{aggregation});
}

// One part of an actor's operation is over; after the last one the operation is.
void FlowFabric::part_done(std::int32_t a) {
  Actor& actor = actors_[index(a)];
  if (--actor.outstanding > 0) return;
  if (delays_.any() && !std::exchange(actor.delayed, true)) {
    actor.outstanding = 1;
    if (path_) path_->delayed(a, now_);
    return push(delays_.next(), Event::LocalEnds{a});
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
      push(member(rank, end).up.latency, Event::PartArrives{aggregation, rank});
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
    push(fence, Event::Resume{a});
  else
    runnable_.push_back(a);
}

}  // namespace weft::sim
