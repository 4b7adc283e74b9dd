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

FlowFabric::Actor& FlowFabric::begin(std::int32_t number, const Operation& operation) {
  Actor& actor = actors_[index(number)];
  actor.operation = &operation;
  actor.delayed = false;
  actor.since = now_;
  if (path_) path_->begin(number, now_, slowness_.empty() ? 1 : slowness_[index(number / options_.strands)]);
  actor.outstanding = 1;  // the posting itself, so that nothing ends before everything has started
  return actor;
}

fabric::Posted FlowFabric::post_signal(Rank rank, int strand, const Operation& operation) {
  const std::int32_t self = rank * options_.strands + strand;
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
  begin(self, operation);
  occupy(rank, Proxy::kPosts, self, overhead.s());  // it is posted as messages are
  return fabric::Posted::kPending;
}

fabric::Posted FlowFabric::post_wait(Rank rank, int strand, const Operation& operation) {
  const std::int32_t self = rank * options_.strands + strand;
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

// A move that is posted: its parts set out one after the other, and it occupies what they all need.
class FlowFabric::Posting {
 public:
  Posting(FlowFabric& fabric, Rank rank, int strand, const Operation& operation)
      : fabric_(fabric),
        rank_(rank),
        strand_(strand),
        self_(rank * fabric.options_.strands + strand),
        operation_(operation),
        gpu_(fabric.options_.costs.gpu()),
        of_channel_(fabric.protocol_ == protocol::Protocol::kLL),
        memory_way_(fabric.places_[index(rank)].memory_way),
        core_(memory_way_ < 0 ? 0 : fabric.rates_.capacity(fabric.rates_.path(memory_way_)[0].resource)),
        slowness_(fabric.slowness_.empty() ? 1 : fabric.slowness_[index(rank)]),
        wire_(static_cast<double>(protocol::wire_bytes(fabric.protocol_, operation.bytes))) {}

  void run() {
    if (fabric_.options_.moves_data) parts_ = fabric_.move_data(rank_, operation_);
    Actor& actor = fabric_.begin(self_, operation_);
    for (const End& end : operation_.sources) account(end, true);
    for (const End& end : operation_.destinations) account(end, false);
    if (gpu_)
      occupy_device(actor);
    else if (memory_way_ >= 0)
      occupy_core();
    if (--actor.outstanding == 0) {
      actor.outstanding = 1;
      fabric_.push({}, Event::LocalEnds{self_});
    }
  }

 private:
  void account(const End& end, bool source) {
    if (end.kind == End::Kind::kAggregation) return account_aggregation(end, source);
    if (end.kind == End::Kind::kMulticast) {
      SwitchWay& way = fabric_.way_through(rank_, end, !source);
      flow_seconds_ = std::max(flow_seconds_, fabric_.start_way(self_, way, operation_.bytes, slowness_));
      return;
    }
    if (end.kind == End::Kind::kMessage) {
      Connection& c = fabric_.connect(self_, end.peer, end.strand, source ? Way::kIn : Way::kOut);
      if (end.offset == 0) source ? --c.arrived : ++c.in_flight;
      // A CPU packs and unpacks lines more slowly than it copies.
      if (!gpu_) local_ += wire_ * (core_ > c.cap ? core_ / c.cap - 1 : 0);
    }
    // A received message lies in this rank's memory.
    const bool received = source && end.kind == End::Kind::kMessage;
    if (!gpu_ || end.kind == End::Kind::kLocal || received)
      local_ += received ? wire_ : static_cast<double>(operation_.bytes);
    else
      account_links(end, source);
  }

  // Through a switch that sums: its own flow up; a sum that has come lies in this rank's memory.
  void account_aggregation(const End& end, bool source) {
    Aggregation& a = fabric_.aggregations_[index(fabric_.aggregation_index(rank_, end))];
    Aggregation::Member& m = a.member(rank_);
    if (source) {
      --m.sums;
      if (!fabric_.options_.moves_data) a.take(m);
      local_ += wire_;
      return;
    }
    ++m.in_flight;
    a.send(m, operation_.bytes, parts_.empty() ? nullptr : &parts_.front());
    posting_ += m.up.overhead.s();
    flow_seconds_ = std::max(flow_seconds_, fabric_.start_way(self_, m.up, operation_.bytes, slowness_));
  }

  // Bytes that leave a GPU, or that it loads from a peer, cross links.
  void account_links(const End& end, bool source) {
    const std::int32_t number = source ? fabric_.connection_of(self_, end.peer, strand_, Way::kIn)
                                       : fabric_.connection_of(self_, end.peer, end.strand, Way::kOut);
    Connection& c = fabric_.connections_[index(number)];
    if (end.kind == End::Kind::kMessage && c.cost != nullptr) {
      if (of_channel_) (c.crosses ? sending_.across : sending_.within) += wire_ / c.cost->channel.value();
      if (const double most = protocol::HopCosts::node(*c.cost, fabric_.topology_.nodes()).value(); most > 0)
        through_host_ += wire_ / most;
    }
    if (end.last && c.overhead > Duration()) {
      posting_ += c.overhead.s();
      if (end.kind == End::Kind::kMessage) fabric_.occupy(end.peer, Proxy::kTakes, number, c.overhead.s());
    }
    const double raw = wire_ * c.raw_per_wire;
    c.carried += raw;
    fabric_.carry(self_, c.way, raw, c.cap / slowness_, c.raw_per_wire);
    flow_seconds_ = std::max(flow_seconds_, raw / c.cap * slowness_);
  }

  void occupy_device(Actor& actor) {
    if (posting_ > 0) {
      ++actor.outstanding;
      fabric_.occupy(rank_, Proxy::kPosts, self_, posting_);
    }
    const Host& host = fabric_.hosts_[index(rank_)];
    if (through_host_ > 0) fabric_.serve(fabric_.first_host_ + host.number, self_, through_host_ * host.images);
    // Copying and sending to several peers only matter where they take longer than the slowest flow takes at the least,
    // or where the channel has other strands.
    const FlowOptions& options = fabric_.options_;
    const double block = slowness_ * std::max(local_ / options.costs.local_channel().value(), sending_.within),
                 seconds = std::max(block, slowness_ * sending_.across);
    if (options.lanes > 1 && of_channel_) {
      const std::int32_t channel = fabric_.first_block_ + 2 * (self_ / options.lanes);
      if (block > 0) fabric_.serve(channel, self_, block);
      if (sending_.across > 0) fabric_.serve(channel + 1, self_, slowness_ * sending_.across);
    } else if (seconds > flow_seconds_) {
      ++actor.outstanding;
      fabric_.push(Duration::seconds(seconds), Event::LocalEnds{self_});
    }
  }

  void occupy_core() {
    fabric_.places_[index(rank_)].memory_carried += local_;
    fabric_.carry(self_, memory_way_, local_, core_ / slowness_, 1);
  }

  FlowFabric& fabric_;
  const Rank rank_;
  const int strand_;
  const std::int32_t self_;
  const Operation& operation_;
  const bool gpu_;
  // LL's rates are NCCL's for all that a channel's block does; those of the others stay those of connections.
  const bool of_channel_;
  const MaxMin::Way memory_way_;
  const double core_, slowness_, wire_;
  std::vector<std::vector<std::byte>> parts_;
  double local_ = 0;                       // bytes
  double flow_seconds_ = 0, posting_ = 0;  // of the slowest flow; of the proxy
  struct {
    double within = 0, across = 0;
  } sending_;  // seconds in which the channel's thread block sends within the node, and its connections across the
               // network
  double through_host_ = 0;  // seconds of the node's host
};

fabric::Posted FlowFabric::post(Rank rank, int strand, const Operation& operation) {
  ++operations_;
  if (operation.kind == Operation::Kind::kSignal) return post_signal(rank, strand, operation);
  if (operation.kind == Operation::Kind::kWait) return post_wait(rank, strand, operation);
  Posting(*this, rank, strand, operation).run();
  return fabric::Posted::kPending;
}

}  // namespace weft::sim
