#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/protocol/protocol.h"

namespace weft::protocol {

// The cost of a message beyond its bytes on one kind of path.
struct HopCost {
  Duration least;          // from the sender having the data to the receiver seeing it, at the least …
  double trips = 1;        // … and at least this often the path's own latency
  Duration added;          // what software adds to the path's own latency
  Duration overhead;       // of it, what keeps the sending channel busy
  Duration fence;          // how long a channel rests after each message
  BytesPerSecond channel;  // the most one channel moves, wire bytes
  BytesPerSecond crowded;  // the same where CPU ranks share cores; zero: no other
  double efficiency = 1;   // payload over raw link rate
  double lines = 0;        // cache lines that a channel has under way at once, each for a trip; 0: not bound by them
  // The most that all ranks and channels of a node send together on machines of more than two nodes, and of two, wire
  // bytes: what a host's memory and its proxies carry. Zero: no such bound.
  BytesPerSecond node = {}, node_of_two = {};
  int messages = 0;  // that a connection has under way at once; 0: as many as the protocol's slots
};

// The cost table of one kind of endpoint. Every number comes from a data file with source and date. A value.
class HopCosts {
 public:
  enum class Endpoint { kGpu, kCpu };

  // What the machine at hand is, as far as entries of the table are for certain machines only: "sm90", "efa-100".
  using Conditions = std::vector<std::string>;

  // The shipped table (data/protocol/hop_costs.json).
  static HopCosts shipped(Endpoint endpoint, const Conditions& conditions = {});
  // An entry with `on` counts only under that condition, and replaces the named numbers of the entry before it for the
  // same path and protocol. Errors (bad input): not JSON, another schema, a number without source and date, a number
  // that is not positive.
  static Result<HopCosts> parse(std::string_view file, std::string_view text, Endpoint endpoint,
                                const Conditions& conditions = {});
  // The shipped table with the numbers of a calibration (weft.calibration/1) in place of its own. Errors: as parse.
  static Result<HopCosts> calibrated(Endpoint endpoint, const Conditions& conditions, std::string_view file,
                                     std::string_view calibration);

  // `path`: the field's name of the path type, e.g. "NVL". Null: this protocol does not run over such a path.
  const HopCost* find(std::string_view path, Protocol protocol) const;
  // The same where a group of ranks uses switches that sum or copy on such paths.
  const HopCost* through_switch(std::string_view path, Protocol protocol) const;
  // Ranks that a network joins: only Simple crosses it. Every path costs `hop`, or, if given, `within` where it stays
  // inside a machine. `streams`: what ranks fetch from each other there is streamed.
  static HopCosts over_network(const HopCost& hop, Duration launch, Duration rank_switch,
                               const HopCost* within = nullptr, bool streams = true);
  bool network() const { return network_; }
  // Where weft's slots in memory were measured: what crosses from core to core by plain copies and by streamed ones.
  // Requires: both are positive.
  HopCosts with_slots(BytesPerSecond plain, BytesPerSecond streamed) const;
  // What starts a collective takes `each` instead of the table's, for all protocols, and the host nothing: replayed
  // from a CUDA graph. Requires: each is not negative.
  HopCosts with_launches(Duration each) const;
  // True if ranks store what others fetch past their caches, where `ranks_per_endpoint` share a core.
  bool streams(int ranks_per_endpoint) const { return ranks_per_endpoint > 1 ? streams_crowded_ : streams_; }
  // Between cores that see each other's cache lines after `trip`: what crosses line by line is bound by that.
  HopCosts between_cores(Duration trip) const;

  // The time from the sender having the data to the receiver seeing it, over a path with this latency of its own. CPU
  // ranks that share their cores with others see a message when it is their turn.
  Duration latency(const HopCost& cost, Duration path, int ranks_per_endpoint) const {
    return std::max({cost.least, path * cost.trips + cost.added, scheduling_delay(ranks_per_endpoint)});
  }
  // HopCost::node on a machine of `nodes`.
  static BytesPerSecond node(const HopCost& cost, std::int32_t nodes) {
    return nodes > 2 ? cost.node : cost.node_of_two;
  }
  static BytesPerSecond channel(const HopCost& cost, int ranks_per_endpoint) {
    return ranks_per_endpoint > 1 && cost.crowded.value() > 0 ? cost.crowded : cost.channel;
  }
  // The time until a CPU rank that shares its core runs: a switch to each of the others and, as the sender's core and
  // the receiver's are not in step, one more (bench/results/2026-11-22-shared-cores.md).
  Duration scheduling_delay(int ranks_per_endpoint) const {
    return ranks_per_endpoint > 1 ? min_scheduling_delay(ranks_per_endpoint) + switch_ : Duration();
  }
  // The least that it can be.
  Duration min_scheduling_delay(int ranks_per_endpoint) const { return switch_ * (ranks_per_endpoint - 1); }
  // Once per collective call; null as above.
  const Duration* launch(Protocol protocol) const;
  // Factors of CPU ranks, by the names and with the sources of data/protocol/hop_costs.json.
  struct Factors {
    double receive = 0, poll = 0;  // parts of a message's trip that ranks of the same core wait for
    double scheduling_round = 0;   // messages that a switch among ranks of a core costs, in back-to-back calls
    double exposed_hop = 1;        // part of a message's latency that remains in back-to-back calls
    double fused_store = 1;        // part of a copy's time where a sum is stored in its place
  };
  const Factors& factors() const { return factors_; }
  HopCosts with_factors(const Factors& factors) const;
  // One host thread starting a call on one GPU; several GPUs of a thread are started one after the other.
  Duration host_launch(int channels) const { return host_launch_ + host_channel_ * (channels - 1); }
  // The rate at which one channel of an endpoint copies within its own memory; zero: bounded by its links only.
  BytesPerSecond local_channel() const { return local_; }
  // CPU ranks: what one of them puts into memory for others to fetch (decisions 0078, 0079 and 0129).
  BytesPerSecond handed_over() const;
  // From one rank to another on the same core; zero where ranks do not share.
  Duration rank_switch() const { return switch_; }
  bool gpu() const { return gpu_; }

 private:
  struct Hop {
    std::string path;
    Protocol protocol;
    HopCost cost;
  };
  struct Launch {
    Protocol protocol;
    Duration latency;
  };
  std::vector<Hop> hops_;
  std::vector<Launch> launches_;
  BytesPerSecond local_;
  bool streams_ = true, streams_crowded_ = false;
  Duration switch_;
  Factors factors_;
  Duration host_launch_, host_channel_;
  bool gpu_ = true;
  bool network_ = false;
};

}  // namespace weft::protocol
