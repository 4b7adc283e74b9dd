#include <algorithm>
#include <utility>

#include "model/sim/packet/packets.h"
#include "model/sim/packet/shortest_ways.h"

namespace weft::sim {

using topology::DeviceKind;

namespace {

constexpr std::size_t kMostTracks = 64;  // ways that a flow's packets are spread over

}  // namespace

std::int32_t Packets::flow_of(const Load& load) {
  const std::size_t service = load.service;
  const auto key = reinterpret_cast<std::uintptr_t>(load.path.data()) * options_.weights.size() + service;
  const auto [known, fresh] = flow_numbers_.try_emplace(key, static_cast<std::int32_t>(flows_.size()));
  if (!fresh) return known->second;
  Flow flow{.tracks = {}, .service = service};
  const std::size_t most = options_.spread == PacketOptions::Spread::kFlow ? 1 : kMostTracks;
  for (const std::vector<MaxMin::Use>& path : shortest_ways(topology_, load.path, most))
    flow.tracks.push_back(track_of(path, service));
  double slowest = 0;
  bool lossy = false;
  for (const Way::Hop& hop : flow.way().hops) {
    const Port::Rules& rules = port(hop.link).rules();
    slowest = slowest == 0 ? rules.rate : std::min(slowest, rules.rate);
    lossy |= !rules.credits;
  }
  if (lossy && options_.congestion_control) flow.control.emplace(*congestion_, slowest);
  const auto starts = std::ranges::count_if(flow.way().hops, [](const Way::Hop& hop) { return hop.before == 0; });
  flow.repeats = lossy && starts == 1 && flow.way().ends == 1;
  flows_.push_back(std::move(flow));
  return known->second;
}

Packets::Track Packets::track_of(MaxMin::Path path, std::size_t service) {
  Track track{.way = ways_.way(path)};
  for (const Way::Hop& hop : track.way.hops)
    track.queues.push_back(hop.from < 0 ? -1 : queue_between(track.way.hops[at(hop.from)].link, hop.link, service));
  return track;
}

// Of the flow's next packet: in turn, or where the fewest bytes wait, after the last one that was chosen.
std::int32_t Packets::choose_track(Flow& flow) const {
  const std::size_t tracks = flow.tracks.size();
  if (options_.spread == PacketOptions::Spread::kAdaptive && tracks > 1) {
    const auto waiting = [&](std::size_t track) {
      double bytes = 0;
      for (const Way::Hop& hop : flow.tracks[track].way.hops) bytes += queued_[at(hop.link)];
      return bytes;
    };
    std::size_t best = flow.turn;
    double least = waiting(best);
    for (std::size_t i = 1; i < tracks; ++i) {
      const std::size_t other = (flow.turn + i) % tracks;
      if (const double bytes = waiting(other); bytes < least) {
        best = other;
        least = bytes;
      }
    }
    flow.turn = best;
  }
  const std::size_t chosen = flow.turn;
  flow.turn = (chosen + 1) % tracks;
  return static_cast<std::int32_t>(chosen);
}

// The queue of packets that came over one link and go on over another.
std::int32_t Packets::queue_between(std::int32_t from, std::int32_t link, std::size_t service) {
  const auto out = static_cast<std::uint64_t>(options_.virtual_queues ? link + 1 : 0);
  const std::uint64_t key =
      (static_cast<std::uint64_t>(from) * (ports_.size() + 1) + out) * options_.weights.size() + service;
  const auto [known, fresh] = queue_numbers_.try_emplace(key, -1);
  if (fresh) known->second = queues_.add({});
  return known->second;
}

void Packets::start(const Load& load) {
  const auto payload = std::max<Bytes>(1, static_cast<Bytes>(load.bytes / load.raw_per_wire + 0.5));
  Carried c{.load = load, .payload = payload, .since = around_.time()};
  if (load.path.empty()) {  // within one device
    around_.remind(Duration::seconds(load.bytes / load.cap), {.kind = kThrough, .subject = carried_.add(std::move(c))});
    return;
  }
  c.flow = flow_of(load);
  const Way& way = flows_[at(c.flow)].way();
  c.packets = (payload + way.payload - 1) / way.payload;
  c.missing = c.packets * way.ends;
  if (const Flow& flow = flows_[at(c.flow)]; flow.repeats) {
    const bool any_order =
        flow.tracks.size() > 1 && (!options_.recovery_given || options_.recovery == Delivery::Recovery::kSelective);
    c.delivery.emplace(c.packets, any_order ? Delivery::Recovery::kSelective : options_.recovery,
                       any_order ? options_.reorder : 0);
  }
  const std::int32_t number = carried_.add(std::move(c));
  std::vector<std::int32_t> sources;
  for (std::size_t h = 0; h < way.hops.size(); ++h)
    if (way.hops[h].before == 0)
      sources.push_back(sources_.add({.load = number, .hop = static_cast<std::int32_t>(h), .paced = around_.time()}));
  carried_[number].sources = sources;
  for (const std::int32_t source : sources) {
    sources_[source].queue = queues_.add({.source = source});
    prepare(source);
  }
}

// The sender's next packet, if its queue has none.
void Packets::prepare(std::int32_t number) {
  Source& source = sources_[number];
  Carried& c = carried_[source.load];
  Queue& queue = queues_[source.queue];
  if (queue.packets.empty()) {
    if (c.ended || (!c.delivery && source.next == c.packets)) return;
    Flow& flow = flows_[at(c.flow)];
    const Bytes full = flow.way().payload;
    const std::optional<std::int64_t> next = c.delivery ? c.delivery->next() : source.next++;
    if (!next) return;
    const std::int64_t packet = *next;
    if (c.delivery) ++c.alive;
    queue.packets.push_back(packets_.add({.load = source.load,
                                          .hop = source.hop,
                                          .number = packet,
                                          .way = choose_track(flow),
                                          .payload = std::min(full, c.payload - packet * full)}));
  }
  offer_when_due(number);
}

// Offers the sender's packet, or does so later if its load or its flow may not go faster.
void Packets::offer_when_due(std::int32_t number) {
  constexpr double kBurst = 8;  // packets that a sender which was held up may send faster than its cap
  Source& source = sources_[number];
  const Carried& c = carried_[source.load];
  Flow& flow = flows_[at(c.flow)];
  const Duration now = around_.time();
  const bool throttled = flow.control && flow.control->throttled();
  const Duration due = throttled ? std::max(source.paced, flow.free) : source.paced;
  if (due > now) return around_.remind(due - now, {.kind = kReady, .subject = number});
  const double bytes =
      static_cast<double>(packets_[queues_[source.queue].packets.front()].payload) * c.load.raw_per_wire;
  const Duration takes = Duration::seconds(bytes / c.load.cap);
  source.paced = std::max(source.paced, now - takes * kBurst) + takes;
  if (flow.control) {
    flow.free = std::max(now, flow.free) + Duration::seconds(bytes / flow.control->rate());
    flow.control->sent(bytes);
  }
  offer(source.queue);
}

// A packet is at an end of its way.
void Packets::deliver(std::int32_t number) {
  const Packet p = packets_[number];
  packets_.remove(number);
  release(p.room);
  Carried& c = carried_[p.load];
  if (p.marked) notify_congestion(c.flow);
  if (flows_[at(c.flow)].tracks.size() > 1) {
    statistics_.reordered += p.number < c.latest;
    c.latest = std::max(c.latest, p.number);
  }
  if (c.delivery) {
    --c.alive;
    const Delivery::Arrival arrival = c.delivery->arrives(p.number);
    if (arrival.gap) {
      c.gaps.push_back(*arrival.gap);
      ++c.alive;
      around_.remind(flows_[at(c.flow)].way().latency * 2, {.kind = kGap, .subject = p.load});
    }
    if (!arrival.accepted) {
      ++statistics_.discarded;
      // What overtook it may have been the message's last packet, which no gap reports then.
      if (flows_[at(c.flow)].tracks.size() > 1 && !c.ended) await_acknowledgement(p.load);
      return retire(p.load);
    }
    c.accepted = around_.time();
  }
  if (--c.missing > 0) return;
  if (c.delivery) ++c.alive;  // the reminder
  // No earlier than its sender can have been done.
  const Duration least = c.since + Duration::seconds(c.load.bytes / c.load.cap);
  around_.remind(std::max(Duration(), least - around_.time()), {.kind = kThrough, .subject = p.load});
}

// The load ends at once; its number is free when none of its packets and reminders is left.
void Packets::finish(std::int32_t number) {
  Carried& c = carried_[number];
  const std::int32_t load = c.load.number;
  c.ended = true;
  if (c.delivery) --c.alive;
  retire(number);
  around_.through(load);
}

void Packets::retire(std::int32_t number) {
  if (!carried_[number].ended || carried_[number].alive > 0) return;
  for (const std::int32_t source : carried_[number].sources) {
    queues_.remove(sources_[source].queue);
    sources_.remove(source);
  }
  carried_.remove(number);
}

// The sender repeats after its receiver has reported a gap, or after the timeout. In a tree the device that sent the
// packet sends it again. (No timer runs without a loss: a longer pause costs no repetition.)
void Packets::lose(Packet p) {
  ++statistics_.lost;
  Carried& c = carried_[p.load];
  if (c.delivery) {
    --c.alive;
    return await_acknowledgement(p.load);
  }
  p.room = -1;
  p.marked = false;
  around_.remind(rules_.resend, {.kind = kResend, .subject = packets_.add(p)});
}

void Packets::await_acknowledgement(std::int32_t number) {
  Carried& c = carried_[number];
  if (std::exchange(c.timed, true)) return;
  ++c.alive;
  c.accepted = std::max(c.accepted, c.since);
  around_.remind(timeout_, {.kind = kTimeout, .subject = number});
}

void Packets::resend(std::int32_t packet) {
  const Packet& p = packets_[packet];
  const std::int32_t queue = track_of(p).queues[at(p.hop)];
  if (queue >= 0) return enter(queue, packet);
  for (const std::int32_t source : carried_[p.load].sources) {
    if (sources_[source].hop != p.hop) continue;
    queues_[sources_[source].queue].packets.push_back(packet);
    if (queues_[sources_[source].queue].packets.size() == 1) offer_when_due(source);
  }
}

void Packets::send_more(const Carried& c) {
  const std::int32_t source = c.sources.front();
  if (queues_[sources_[source].queue].packets.empty()) prepare(source);
}

void Packets::hear_gap(std::int32_t number) {
  Carried& c = carried_[number];
  --c.alive;
  c.delivery->reported(c.gaps.front());
  c.gaps.pop_front();
  if (!c.ended) send_more(c);
  retire(number);
}

void Packets::time_out(std::int32_t number) {
  Carried& c = carried_[number];
  if (c.ended || c.missing == 0) {
    --c.alive;
    return retire(number);
  }
  const Duration due = c.accepted + timeout_, now = around_.time();
  if (due > now) return around_.remind(due - now, {.kind = kTimeout, .subject = number});
  ++statistics_.timeouts;
  c.accepted = now;
  c.delivery->times_out();
  around_.remind(timeout_, {.kind = kTimeout, .subject = number});
  send_more(c);
}

// Switches mark what has to wait long for an output of a link that may drop packets.
void Packets::mark(Packet& p, std::int32_t link) {
  const Port::Rules& rules = port(link).rules();
  if (!rules.marks || !flow_of(p).control) return;
  const CongestionRules& when = *congestion_;
  const double wait = queued_[at(link)] / rules.rate;
  if (wait <= when.mark_from.s()) return;
  const double part = (wait - when.mark_from.s()) / (when.mark_full.s() - when.mark_from.s());
  if (part < 1 && !chance(part * when.mark_most)) return;
  p.marked = true;
  ++statistics_.marked;
}

// The receiver of a marked packet notifies the sender, a trip back later, at most once per interval.
void Packets::notify_congestion(std::int32_t number) {
  Flow& flow = flows_[at(number)];
  const Duration now = around_.time();
  if (flow.noticed && now - *flow.noticed < congestion_->notice_interval) return;
  flow.noticed = now;
  around_.remind(flow.way().latency * 2, {.kind = kNotice, .subject = number});
}

void Packets::slow_down(std::int32_t number) {
  Flow& flow = flows_[at(number)];
  flow.control->notice(around_.time());
  around_.remind(congestion_->timer, {.kind = kTimer, .subject = number, .detail = ++flow.timer});
}

void Packets::timer_expired(std::int32_t number, std::uint32_t timer) {
  Flow& flow = flows_[at(number)];
  if (flow.timer != timer) return;
  flow.control->timer_expired(around_.time());
  if (flow.control->throttled())
    around_.remind(congestion_->timer, {.kind = kTimer, .subject = number, .detail = ++flow.timer});
}

}  // namespace weft::sim
