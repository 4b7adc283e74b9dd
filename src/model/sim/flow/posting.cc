// What an operation waits for before it is posted, and what it occupies from then on.

#include <algorithm>

#include "model/sim/flow/flow_fabric.h"

namespace weft::sim {

using protocol::End;
using protocol::Operation;

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
    if (c.in_flight >= c.slots) {
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
