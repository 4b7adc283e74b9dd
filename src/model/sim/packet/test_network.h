#pragma once

#include <deque>
#include <vector>

#include "model/sim/flow/event_queue.h"
#include "model/sim/packet/packets.h"

namespace weft::sim {

// Hosts at one switch, or two hosts at one link, and a carrier of packets on them: for tests. All links have one rate
// and latency; payload and header of a packet are given, so that times can be calculated by hand.
class TestNetwork : public Carrier::SimulationHost {
 public:
  static constexpr double kRate = 1e9;  // bytes per second: a byte takes 1 ns
  static constexpr Bytes kPayload = 1000, kOverhead = 100;
  static constexpr Duration kLatency = Duration::picoseconds(500'000);  // of a link

  // `hosts` at a switch of this model ("ib", "roce": how its links are controlled); 2 hosts without model: one link.
  TestNetwork(int hosts, const std::string& model, const PacketOptions& options, Duration pause_buffer = {})
      : options_(options) {
    using topology::DeviceKind, topology::LinkKind;
    for (int h = 0; h < hosts; ++h) machine_.add({.kind = DeviceKind::kGpu, .node = 0, .index = h});
    topology::Link link{.kind = LinkKind::kNetwork,
                        .rate_ab = BytesPerSecond(kRate),
                        .rate_ba = BytesPerSecond(kRate),
                        .latency = kLatency};
    if (model.empty()) {
      link.b = 1;
      machine_.connect(link);
    } else {
      link.b = machine_.add({.kind = DeviceKind::kNetworkSwitch, .model = model});
      for (link.a = 0; link.a < hosts; ++link.a) machine_.connect(link);
    }
    PacketRules rules = PacketRules::shipped();
    for (LinkRules& r : rules.links) {
      r.payload = kPayload;
      r.overhead = kOverhead;
      if (pause_buffer > Duration()) r.buffer = pause_buffer;
    }
    packets_.emplace(*this, machine_, rules, options_, nullptr, &statistics);
  }
  // Any machine, with packets of one size without headers.
  TestNetwork(topology::Topology machine, Bytes payload, const PacketOptions& options)
      : options_(options), machine_(std::move(machine)) {
    PacketRules rules = PacketRules::shipped();
    for (LinkRules& r : rules.links) {
      r.payload = payload;
      r.overhead = 0;
    }
    packets_.emplace(*this, machine_, rules, options_, nullptr, &statistics);
  }

  // Hosts' links to the switch: 2 h up, 2 h + 1 down.
  MaxMin::Path path(const std::vector<MaxMin::Resource>& links) {
    std::vector<MaxMin::Use>& uses = paths_.emplace_back();
    for (const MaxMin::Resource link : links) uses.push_back({link});
    return uses;
  }
  // Starts a load now; returns its number.
  int send(MaxMin::Path path, Bytes bytes, double cap = kRate, std::size_t service = 0) {
    ends.emplace_back();
    const int number = static_cast<int>(ends.size()) - 1;
    packets_->start({.number = number,
                     .path = path,
                     .bytes = static_cast<double>(bytes),
                     .cap = cap,
                     .service = static_cast<std::uint8_t>(service)});
    ++under_way_;
    return number;
  }
  // Until all loads are through, or until then; false: not all are.
  bool run(Duration until = Duration::max()) {
    while (under_way_ > 0 && !events_.empty() && events_.next_time() <= until) {
      const auto event = events_.pop();
      now_ = event.time;
      packets_->handle(event.payload);
    }
    return under_way_ == 0;
  }

  std::vector<Duration> ends;  // by load
  std::vector<int> order;      // of their ends
  PacketStatistics statistics;

 private:
  Duration time() const override { return now_; }
  void remind(Duration delay, const Carrier::Timer& r) override { events_.push(now_, delay, r); }
  void through(std::int32_t load) override {
    ends[static_cast<std::size_t>(load)] = now_;
    order.push_back(load);
    --under_way_;
  }

  PacketOptions options_;
  topology::Topology machine_;
  EventQueue<Carrier::Timer> events_;
  Duration now_;
  int under_way_ = 0;
  std::deque<std::vector<MaxMin::Use>> paths_;
  std::optional<Packets> packets_;
};

}  // namespace weft::sim
