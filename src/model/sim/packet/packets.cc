#include "model/sim/packet/packets.h"

#include <algorithm>
#include <cmath>

namespace weft::sim {
namespace {

// The receiver's room of a link that says stop is used up to this: what is under way when it does must still fit.
double headroom(double rate, Duration round_trip, double largest) { return rate * round_trip.s() + 2 * largest; }

}  // namespace

Packets::Packets(SimulationHost& around, const topology::Topology& topology, const PacketRules& rules,
                 const PacketOptions& options, Timeline* timeline, PacketStatistics* statistics)
    : around_(around),
      topology_(topology),
      rules_(rules),
      options_(options),
      timeline_(timeline),
      statistics_(statistics != nullptr ? *statistics : unwatched_),
      ways_(topology_, rules_, options_),
      random_(options.seed),
      ports_(2 * topology.links().size()),
      sending_(ports_.size()),
      buffer_of_(ports_.size(), -1),
      output_(ports_.size()),
      queued_(ports_.size()),
      awaits_room_(ports_.size()),
      congestion_(&rules_.congestion_of(options_.congestion)),
      timeout_(options_.timeout > Duration() ? options_.timeout : rules_.timeout) {}

Port& Packets::port(std::int32_t link) {
  std::optional<Port>& known = ports_[at(link)];
  if (known) return *known;
  const topology::Link& l = topology_.link(link / 2);
  const LinkRules& rules = ways_.rules_of(link);
  Port::Rules r{.rate = (link % 2 == 0 ? l.rate_ab : l.rate_ba).value(),
                .round_trip = l.latency * 2,
                .credits = rules.control == LinkRules::Control::kCredits};
  const double largest = static_cast<double>((rules.payload + rules.overhead) * std::max(1, l.count));
  r.room = r.credits ? rules.round_trips * (r.rate * r.round_trip.s() + largest) : r.rate * rules.buffer.s();
  if (options_.buffer > 0) r.room = static_cast<double>(options_.buffer);
  r.pauses = !r.credits && options_.pause;
  r.stop_at = std::max(0.0, r.room - headroom(r.rate, r.round_trip, largest));
  r.resume_at = r.stop_at * rules_.resume_part;
  r.marks = !r.credits && topology_.device(link % 2 == 0 ? l.a : l.b).kind == topology::DeviceKind::kNetworkSwitch;
  const topology::DeviceId behind = link % 2 == 0 ? l.b : l.a;
  if (!r.credits && topology_.device(behind).kind == topology::DeviceKind::kNetworkSwitch) {
    const auto [number, fresh] = buffer_numbers_.try_emplace(behind, static_cast<std::int32_t>(buffers_.size()));
    if (fresh) buffers_.push_back(shared_buffer_of(behind));
    buffer_of_[at(link)] = number->second;
    r.room = buffers_[at(number->second)].most();
  }
  return known.emplace(r, options_.weights);
}

// What all links of a switch have together; a link that pauses has headroom for each class beside that.
SharedBuffer Packets::shared_buffer_of(topology::DeviceId device) const {
  double size = 0, beside = 0;
  for (std::size_t number = 0; number < topology_.links().size(); ++number) {
    const topology::Link& l = topology_.links()[number];
    if (l.a != device && l.b != device) continue;
    const LinkRules& rules = rules_.of(topology_, l);
    const double rate = (l.b == device ? l.rate_ab : l.rate_ba).value();
    const double largest = static_cast<double>(std::max(rules.payload, options_.payload) + rules.overhead);
    size += options_.buffer > 0 ? static_cast<double>(options_.buffer) : rate * rules.buffer.s();
    beside += headroom(rate, l.latency * 2, largest) * static_cast<double>(options_.weights.size());
  }
  return {size, options_.pause ? beside : 0, options_.alpha > 0 ? options_.alpha : rules_.alpha};
}

SharedBuffer* Packets::buffer_behind(std::int32_t link) {
  const std::int32_t number = buffer_of_[at(link)];
  return number < 0 ? nullptr : &buffers_[at(number)];
}

void Packets::handle(const Timer& r) {
  switch (static_cast<Kind>(r.kind)) {
    case kSent:
      return sent(r.subject);
    case kArrives:
      return arrive(r.subject);
    case kRoom:
      awaits_room_[at(r.subject)] = false;
      return serve(r.subject);
    case kReady:
      return offer_when_due(r.subject);
    case kThrough:
      return finish(r.subject);
    case kHearStop:
      return port(r.subject).set_paused(r.detail, true);
    case kHearGo:
      port(r.subject).set_paused(r.detail, false);
      return serve(r.subject);
    case kResend:
      return resend(r.subject);
    case kNotice:
      return slow_down(r.subject);
    case kTimer:
      return timer_expired(r.subject, r.detail);
    case kGap:
      return hear_gap(r.subject);
    case kTimeout:
      return time_out(r.subject);
  }
}

double Packets::size_of(const Packet& p) const {
  const Way& way = way_of(p);
  return way.bytes_on(way.hops[at(p.hop)], p.payload, carried_[p.load].load.raw_per_wire);
}

// A packet in a device's input queue.
void Packets::enter(std::int32_t queue, std::int32_t packet) {
  Packet& p = packets_[packet];
  const std::int32_t link = hop_of(p).link;
  double& queued = queued_[at(link)];
  queued += size_of(p);
  if (queued > statistics_.longest) {
    statistics_.longest = queued;
    statistics_.at = link;
  }
  mark(p, link);
  queues_[queue].packets.push_back(packet);
  if (queues_[queue].packets.size() == 1) offer(queue);
}

// The queue's first packet wants to go on.
void Packets::offer(std::int32_t queue) {
  const Packet& p = packets_[queues_[queue].packets.front()];
  const std::int32_t link = hop_of(p).link;
  port(link).add(flow_of(p).service, queue);
  serve(link);
}

void Packets::serve(std::int32_t link) {
  if (sending_[at(link)].queue >= 0) return;
  Port& out = port(link);
  const auto size_of_first = [&](Port::Queue q) { return size_of(packets_[queues_[q].packets.front()]); };
  if (const auto turn = out.take_turn(around_.time(), size_of_first)) return send(link, *turn);
  const auto room = out.next_room();
  if (!room || awaits_room_[at(link)]) return;
  awaits_room_[at(link)] = true;
  around_.remind(*room - around_.time(), {.kind = kRoom, .subject = link});
}

void Packets::send(std::int32_t link, const Port::Turn& turn) {
  const Queue& queue = queues_[turn.queue];
  Packet p = packets_[queue.packets.front()];
  Port& out = port(link);
  const double size = size_of(p);
  if (queue.source < 0) queued_[at(link)] -= size;
  Duration takes = Duration::seconds(size / out.rules().rate);
  ++statistics_.sent;
  Sending& sending = sending_[at(link)];
  sending = {.queue = turn.queue};
  Carried& c = carried_[p.load];
  if (c.delivery && queue.source >= 0) ++c.alive;
  if (!survives(p, turn, size, takes)) {
    lose(p);
  } else {
    p.room = rooms_.add({.link = link, .service = turn.service, .size = size, .packets = 1});
    if (SharedBuffer* buffer = buffer_behind(link)) {
      buffer->add(size);
      const std::int32_t output = hop_of(hop_of(p).next[0], p).link;
      rooms_[p.room].output = output;
      output_[at(output)] += size;
    }
    signal_pause(link, turn.service);
    const std::int32_t moving = packets_.add(p);
    if (hop_of(p).next.empty())
      sending.delivers = moving;
    else
      around_.remind(until_it_can_go_on(p, takes), {.kind = kArrives, .subject = moving});
  }
  around_.remind(takes, {.kind = kSent, .subject = link});
  if (timeline_ != nullptr) timeline_->level(link, around_.time(), 1);
}

// Does the packet get to the other side, where it finds room? `takes`: also what the link needs to send it again.
bool Packets::survives(const Packet& p, const Port::Turn& turn, double size, Duration& takes) {
  const std::int32_t link = hop_of(p).link;
  Port& out = port(link);
  if (options_.loss > 0 && !out.rules().credits && chance(options_.loss)) return false;
  if (options_.bit_error_rate > 0) {
    const double corrupt = -std::expm1(8 * size * std::log1p(-options_.bit_error_rate));
    if (!out.rules().credits && chance(corrupt)) return false;
    // The link sees the wrong check sum a round trip later and begins again; what followed was for nothing.
    for (const Duration once = takes; out.rules().credits && chance(corrupt); ++statistics_.retried)
      takes += once + out.rules().round_trip;
  }
  if (const SharedBuffer* buffer = buffer_behind(link)) {
    const double queue = output_[at(hop_of(hop_of(p).next[0], p).link)];
    if (!(options_.pause ? buffer->takes(size) : buffer->takes(queue, size))) return false;
  }
  return out.fill(turn.service, size);
}

// From when a packet sets out until the next device can begin to send it on: when its head is there (cut-through) and
// no gap opens behind it, or when all of it is there.
Duration Packets::until_it_can_go_on(const Packet& p, Duration takes) {
  const Way& way = way_of(p);
  const Way::Hop& hop = way.hops[at(p.hop)];
  using Switching = PacketOptions::Switching;
  if (options_.switching == Switching::kStore ||
      (options_.switching == Switching::kByLink && !ways_.rules_of(hop.link).cut_through))
    return takes;
  Duration out = takes;
  for (const std::int32_t n : hop.next) {
    const Way::Hop& next = way.hops[at(n)];
    const double size = way.bytes_on(next, p.payload, carried_[p.load].load.raw_per_wire);
    out = std::min(out, Duration::seconds(size / port(next.link).rules().rate));
  }
  const Duration head = Duration::seconds(static_cast<double>(hop.overhead) / port(hop.link).rules().rate);
  return std::min(takes, std::max(head, takes - out));
}

// The link has sent the packet: it has left the device, and another one may.
void Packets::sent(std::int32_t link) {
  const auto [queue, delivers] = std::exchange(sending_[at(link)], {});
  Queue& q = queues_[queue];
  const std::int32_t gone = q.packets.front();
  q.packets.pop_front();
  const std::int32_t room = packets_[gone].room;
  packets_.remove(gone);
  if (timeline_ != nullptr) timeline_->level(link, around_.time(), -1);
  if (q.source >= 0) {
    const std::int32_t load = sources_[q.source].load;
    if (carried_[load].delivery) --carried_[load].alive;
    prepare(q.source);
    retire(load);
  } else if (!q.packets.empty()) {
    offer(queue);
  }
  if (room >= 0) release(room);
  serve(link);
  if (delivers >= 0) deliver(delivers);
}

// A packet can go on from the device behind its hop: to one link, as copies to several, or into a sum.
void Packets::arrive(std::int32_t packet) {
  const Packet p = packets_[packet];
  const Track& track = track_of(p);
  const std::vector<std::int32_t>& nexts = track.way.hops[at(p.hop)].next;
  if (nexts.size() == 1 && track.way.hops[at(nexts[0])].before == 1) {
    packets_[packet].hop = nexts[0];
    return enter(track.queues[at(nexts[0])], packet);
  }
  std::vector<std::int32_t> on;
  for (const std::int32_t next : nexts)
    if (completes(p, next)) on.push_back(next);
  packets_.remove(packet);
  rooms_[p.room].packets = on.size();
  if (on.empty()) {
    rooms_[p.room].packets = 1;
    return release(p.room);  // a part, which the switch keeps as a sum
  }
  for (const std::int32_t next : on) {
    Packet copy = p;
    copy.hop = next;
    enter(track.queues[at(next)], packets_.add(copy));
  }
}

// Has the switch with this packet all parts of what it sends over the hop?
bool Packets::completes(const Packet& p, std::int32_t hop) {
  const Way& way = way_of(p);
  const std::int32_t needed = way.hops[at(hop)].before;
  if (needed == 1) return true;
  auto& parts = carried_[p.load].parts;
  const auto entry = parts.try_emplace(p.number * static_cast<std::int64_t>(way.hops.size()) + hop).first;
  if (++entry->second < needed) return false;
  parts.erase(entry);
  return true;
}

// A packet has left the input queue that the room is of.
void Packets::release(std::int32_t number) {
  Room& room = rooms_[number];
  if (--room.packets > 0) return;
  const auto [link, service, size, none, output] = room;
  rooms_.remove(number);
  port(link).empty(service, size, around_.time());
  if (output >= 0) {
    buffer_behind(link)->remove(size);
    output_[at(output)] -= size;
  }
  signal_pause(link, service);
  if (port(link).wanted()) serve(link);
}

// The receiver of a link signals stop or go on to its sender, if that changes.
void Packets::signal_pause(std::int32_t link, std::size_t service) {
  Port& p = port(link);
  if (!p.rules().pauses) return;
  double stop_at = p.rules().stop_at, resume_at = p.rules().resume_at;
  if (const SharedBuffer* buffer = buffer_behind(link)) {
    constexpr double kPackets = 2;  // below the threshold, before a paused sender goes on
    const LinkRules& rules = ways_.rules_of(link);
    stop_at = buffer->threshold();
    resume_at = stop_at - kPackets * static_cast<double>(rules.payload + rules.overhead);
  }
  const auto stop = p.says(service, stop_at, resume_at);
  if (!stop) return;
  statistics_.pauses += *stop;
  around_.remind(p.rules().round_trip, {.kind = static_cast<std::uint8_t>(*stop ? kHearStop : kHearGo),
                                        .subject = link,
                                        .detail = static_cast<std::uint32_t>(service)});
}

std::function<std::unique_ptr<Carrier>(Carrier::SimulationHost&)> packet_carrier(const topology::Topology& topology,
                                                                                 const PacketOptions& options,
                                                                                 Timeline* timeline,
                                                                                 PacketStatistics* statistics) {
  return [&topology, options, timeline, statistics](Carrier::SimulationHost& around) {
    return std::make_unique<Packets>(around, topology, PacketRules::shipped(), options, timeline, statistics);
  };
}

}  // namespace weft::sim
