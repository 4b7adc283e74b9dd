#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "model/sim/flow/carrier.h"
#include "model/sim/flow/timeline.h"
#include "model/sim/packet/dcqcn.h"
#include "model/sim/packet/delivery.h"
#include "model/sim/packet/pool.h"
#include "model/sim/packet/port.h"
#include "model/sim/packet/shared_buffer.h"
#include "model/sim/packet/statistics.h"
#include "model/sim/packet/way.h"

namespace weft::sim {

// Carries loads as packets: every link sends one packet at a time, every device has an input queue per link (and
// output), outputs serve the queues in turn and only into room that the next device has (credits), or until it says
// stop (PFC). Where packets queue, ECN marks them and DCQCN slows their flow (all loads of one way) down.
//   Links that count credits repeat corrupted packets. Elsewhere these are lost, as are packets that find no room in a
//   switch's buffer, which all its links share (shared_buffer.h). Senders repeat them (delivery.h): every load is one
//   message of a queue pair. What switches copy or sum is sent again by the device that lost it.
//   A bundle of links is one fast link. Deterministic for a seed.
class Packets : public Carrier {
 public:
  // `around`, `topology`, and what is not null of `timeline` and `statistics` must outlive this.
  Packets(SimulationHost& around, const topology::Topology& topology, const PacketRules& rules,
          const PacketOptions& options, Timeline* timeline = nullptr, PacketStatistics* statistics = nullptr);

  // Requires: a class that the options have.
  void start(const Load& load) override;
  void handle(const Timer& reminder) override;
  void set_capacity(MaxMin::Resource resource, double capacity) override { port(resource).set_rate(capacity); }

 private:
  enum Kind : std::uint8_t {
    kSent,
    kArrives,
    kRoom,
    kReady,
    kThrough,
    kHearStop,
    kHearGo,
    kResend,
    kNotice,
    kTimer,
    kGap,
    kTimeout
  };
  struct Packet {
    std::int32_t load = -1, hop = 0;
    std::int32_t room = -1;  // that it takes up; a sender's: none
    std::int64_t number = 0;
    std::int32_t way = 0;  // of its flow
    Bytes payload = 0;
    bool marked = false;
  };
  struct Room {  // in the input queue behind a link
    std::int32_t link = 0;
    std::size_t service = 0;
    double size = 0;
    std::size_t packets = 0;   // that share it: copies
    std::int32_t output = -1;  // of the switch, for which the packet waits in a shared buffer; none: not shared
  };
  struct Queue {
    std::deque<std::int32_t> packets = {};  // the first one may be under way
    std::int32_t source = -1;               // whose queue it is; none: a device's
  };
  struct Source {  // one sender of a load
    std::int32_t load = -1, hop = 0, queue = -1;
    std::int64_t next = 0;  // packet, without `delivery`
    Duration paced;         // when the load's cap allows it
  };
  struct Track {  // one of the ways that a flow's packets take
    Way way;
    std::vector<std::int32_t> queues = {};  // by hop, where a packet waits for that hop
  };
  struct Flow {                 // all loads of one path and class
    std::vector<Track> tracks;  // several: packets are spread
    std::size_t service = 0;
    bool repeats = false;                                  // its senders repeat lost packets
    std::size_t turn = 0;                                  // the track of the next packet, where they take turns
    const Way& way() const { return tracks.front().way; }  // for what all have: payload, latency, ends
    std::optional<Dcqcn> control = {};
    Duration free = {};                    // when control allows the next packet
    std::optional<Duration> noticed = {};  // when the sender was last notified of congestion
    std::uint32_t timer = 0;               // of the reminder that counts
  };
  struct Carried {  // a load under way
    Load load;
    std::int32_t flow = -1;
    Bytes payload = 0;
    std::int64_t packets = 0, missing = 0;  // of one sender; arrivals at all ends
    Duration since;
    std::vector<std::int32_t> sources = {};
    std::optional<Delivery> delivery = {};  // of a flow that repeats
    std::deque<Delivery::Gap> gaps = {};    // under way to the sender
    std::int64_t alive = 0;                 // with `delivery`: its packets and reminders that are not over
    Duration accepted;                      // when the receiver last accepted a packet
    std::int64_t latest = -1;               // the highest packet that has come, where they are spread
    bool timed = false, ended = false;      // a timeout waits; all has arrived
    std::unordered_map<std::int64_t, std::int32_t> parts = {};  // that a switch has, by packet and hop
  };
  struct Sending {
    std::int32_t queue = -1;     // whose first packet is under way; none: idle
    std::int32_t delivers = -1;  // the packet that is there then
  };

  // packets.cc: links and devices
  Port& port(std::int32_t link);
  double size_of(const Packet& packet) const;
  void enter(std::int32_t queue, std::int32_t packet);
  void offer(std::int32_t queue);
  void serve(std::int32_t link);
  void send(std::int32_t link, const Port::Turn& turn);
  void sent(std::int32_t link);
  bool survives(const Packet& packet, const Port::Turn& turn, double size, Duration& takes);
  SharedBuffer* buffer_behind(std::int32_t link);
  SharedBuffer shared_buffer_of(topology::DeviceId device) const;
  Duration until_it_can_go_on(const Packet& packet, Duration takes);
  void arrive(std::int32_t packet);
  bool completes(const Packet& packet, std::int32_t hop);
  void release(std::int32_t room);
  void signal_pause(std::int32_t link, std::size_t service);
  // senders.cc: loads and congestion
  std::int32_t flow_of(const Load& load);
  Track track_of(MaxMin::Path path, std::size_t service);
  std::int32_t choose_track(Flow& flow) const;
  std::int32_t queue_between(std::int32_t from, std::int32_t link, std::size_t service);
  void prepare(std::int32_t source);
  void offer_when_due(std::int32_t source);
  void deliver(std::int32_t packet);
  void finish(std::int32_t carried);
  void retire(std::int32_t carried);
  void send_more(const Carried& carried);
  void hear_gap(std::int32_t carried);
  void time_out(std::int32_t carried);
  void lose(Packet packet);
  void await_acknowledgement(std::int32_t carried);
  void resend(std::int32_t packet);
  void mark(Packet& packet, std::int32_t link);
  void notify_congestion(std::int32_t flow);
  void slow_down(std::int32_t flow);
  void timer_expired(std::int32_t flow, std::uint32_t timer);

  Flow& flow_of(const Packet& p) { return flows_[at(carried_[p.load].flow)]; }
  const Flow& flow_of(const Packet& p) const { return flows_[at(carried_[p.load].flow)]; }
  const Track& track_of(const Packet& p) const { return flow_of(p).tracks[at(p.way)]; }
  const Way& way_of(const Packet& p) const { return track_of(p).way; }
  const Way::Hop& hop_of(std::int32_t hop, const Packet& p) const { return way_of(p).hops[at(hop)]; }
  const Way::Hop& hop_of(const Packet& p) const { return way_of(p).hops[at(p.hop)]; }
  bool chance(double probability) { return std::uniform_real_distribution<double>(0, 1)(random_) < probability; }
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  SimulationHost& around_;
  const topology::Topology& topology_;
  PacketRules rules_;
  PacketOptions options_;
  Timeline* timeline_;
  PacketStatistics unwatched_;
  PacketStatistics& statistics_;
  Ways ways_;
  std::mt19937_64 random_;
  std::vector<std::optional<Port>> ports_;  // by link, once used
  std::vector<Sending> sending_;            // by link
  std::vector<std::int32_t> buffer_of_;     // by link: of the switch behind it, in buffers_; none: not shared
  std::vector<SharedBuffer> buffers_;       // of switches, once used
  std::vector<double> output_;              // by link: bytes in a shared buffer that wait for it, or set out to
  std::vector<double> queued_;              // by link: bytes in input queues that wait for it
  std::vector<bool> awaits_room_;           // by link: a reminder is under way
  std::deque<Flow> flows_;
  std::unordered_map<std::uint64_t, std::int32_t> flow_numbers_;   // by way and class
  std::unordered_map<std::uint64_t, std::int32_t> queue_numbers_;  // by links and class
  const CongestionRules* congestion_;
  Duration timeout_;
  std::unordered_map<topology::DeviceId, std::int32_t> buffer_numbers_;  // by switch
  Pool<Packet> packets_;
  Pool<Room> rooms_;
  Pool<Queue> queues_;
  Pool<Source> sources_;
  Pool<Carried> carried_;
};

// The value of FlowOptions::carrier for packets by the shipped rules.
std::function<std::unique_ptr<Carrier>(Carrier::SimulationHost&)> packet_carrier(const topology::Topology& topology,
                                                                                 const PacketOptions& options,
                                                                                 Timeline* timeline,
                                                                                 PacketStatistics* statistics);

}  // namespace weft::sim
