#pragma once

#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "exec/fabric/fabric.h"
#include "machine/routes.h"
#include "model/sim/flow/background.h"
#include "model/sim/flow/carrier.h"
#include "model/sim/flow/computing.h"
#include "model/sim/flow/critical_path.h"
#include "model/sim/flow/disturbances.h"
#include "model/sim/flow/event_queue.h"
#include "model/sim/flow/flow_event.h"
#include "model/sim/flow/fold.h"
#include "model/sim/flow/max_min.h"
#include "model/sim/flow/pair_table.h"
#include "model/sim/flow/poster.h"
#include "model/sim/flow/switches.h"
#include "model/sim/flow/timeline.h"
#include "plan/protocol/hop_costs.h"

namespace weft::sim {

struct FlowOptions {
  protocol::HopCosts costs;
  int strands = 1;          // per rank
  int lanes = 1;            // strands that are one channel: its thread block sends and copies for all of them
  bool moves_data = false;  // also carry bytes, so that results can be checked
  std::int64_t max_events = std::int64_t{1} << 40;
  Rank turn = 0;  // ranks that stand for all, see Fold; 0: all. Requires, else: GPU ranks, no switch sums messages,
                  // no disturbances
  std::vector<Rank> places = {};  // which endpoint each rank sits on; empty: in order
  Disturbances disturbances = {};
  Background background = {};              // requires, if any: nothing is folded
  Computing computing = {};                // beside the calls
  std::vector<std::uint8_t> service = {};  // class of what each rank sends; empty: 0
  Timeline* timeline = nullptr;            // gets what happens, if given; must outlive the fabric
  bool why = false;                        // keep what every step waited for, see critical_path
  // Who carries bytes instead of Flows, if given. Requires, else: nothing is folded.
  std::function<std::unique_ptr<Carrier>(Carrier::SimulationHost&)> carrier = {};
};

// Switches sum and copy where the topology's do (fact "reduces"): NVSwitches memory, those of the network messages.
inline constexpr int kMostStrands = 128;  // connections between two ranks; a choice of the model's
protocol::Capabilities flow_capabilities(const topology::Topology& topology, int strands = kMostStrands);

// A fabric in virtual time: messages are flows over the topology's links with max-min fair shares, plus a latency per
// path and protocol. Deterministic. Ranks that sit on the same device share its links.
//   GPU ranks  a move loads its own memory at the channel's copy rate while its messages, loads and stores cross the
//              links, and posts its messages one after the other; it is done when the slowest of these is. Messages
//              then arrive what is left of the latency later, or when the receiver, who takes one after the other, has
//              had time for them (decision 0112).
//              Through switches that sum or copy, a move over a group is one flow that uses all links of the group's
//              way at once; a switch that sums messages sends a sum when it has a part of every member.
//   CPU ranks  a move takes all its operands' bytes through the core's link.
// Thread: one at a time. Owns: all its state; topology and routes must outlive it.
class FlowFabric : private Carrier::SimulationHost {
 public:
  class Endpoint;

  // Errors (bad input): two ranks that must talk have no path, or none that the protocol runs over: found when they
  // talk. kUnsupported (operation): folded ranks turn out not to be alike.
  FlowFabric(const topology::Topology& topology, const topology::Routes& routes, Rank ranks, FlowOptions options);
  ~FlowFabric();

  Endpoint& endpoint(Rank rank);
  // The number of simulated ranks: all of them, or those that stand for all.
  Rank representatives() const { return fold_.representatives(); }
  int strands() const { return options_.strands; }

  // Calls resume(rank, strand) for every strand at the start and whenever what it waited for has happened, until
  // nothing is left to happen. Returns the time of the last event. Errors: kNoResources past max_events, or where loads
  // wait for each other (packets with too little room); a problem of talk().
  template <class Resume>
  Result<Duration> run(Resume&& resume) {
    launch();
    while (!failure_) {
      while (!runnable_.empty()) {
        const std::int32_t actor = runnable_.front();
        runnable_.pop_front();
        resume(actor / options_.strands, actor % options_.strands);
      }
      if (!step()) break;
    }
    if (failure_) return tl::make_unexpected(*failure_);
    return now_;
  }

  std::int64_t events() const { return events_; }
  std::int64_t operations() const { return operations_; }  // that were posted
  Duration now() const { return now_; }
  // Starting a call on a rank.
  Duration launch_time() const;
  // Inside run: resumes a strand once more after a time in which it is busy with something of its own.
  void resume_after(Rank rank, int strand, Duration delay) {
    push(delay, Event::Resume{rank * options_.strands + strand});
  }
  // Adds `blocks` to those that a call's kernel holds on a rank; a negative number takes them away.
  void hold(Rank rank, int blocks);
  // When the last rank had computed what it should.
  Duration computed() const { return computed_; }
  // The busiest link direction: its share of the capacity over the whole run, and its name, e.g. "gpu3 -> nvswitch0".
  struct Bottleneck {
    std::string link;
    double utilisation = 0;
  };
  Bottleneck busiest() const;
  // What the time was spent on, with `why`. Requires: the run has ended.
  CriticalPath::Walked critical_path() const;
  // "gpu3 -> nvswitch0"; of folded ranks one of those links.
  std::string name_of(MaxMin::Resource resource) const;

 private:
  static constexpr MaxMin::Way kNowhere = 0;  // the first one, which crosses nothing
  // Loads of streams are numbered from here up; actors' are not below 0, and those of switches just below.
  static constexpr std::int32_t kFirstStream = std::numeric_limits<std::int32_t>::min();
  static constexpr std::int32_t kMostStreams = 1 << 30;
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

  struct Connection {
    MaxMin::Way way = kNowhere;
    Duration latency;                         // after the sender is done with a message
    Duration overhead;                        // how long a message keeps the sender busy at least
    Duration fence;                           // how long the sender rests after a message
    double cap = 0;                           // raw link bytes per second that one channel can use
    double raw_per_wire = 1;                  // raw link bytes per wire byte
    double carried = 0;                       // raw link bytes, so far
    const protocol::HopCost* cost = nullptr;  // null: a message to itself
    bool crosses = false;                     // the network
    int slots = 0;                            // messages under way at once
    int in_flight = 0, arrived = 0, signals = 0;
    int taken = 0;  // messages that the receiver has had time for but that are not sent; if below 0, the reverse
    std::int32_t receiver_waits = -1, sender_waits = -1, signal_waits = -1;  // actors
  };
  struct Place {  // where one rank's switched connections are
    struct GroupEntry {
      Group group;
      bool store;  // else loads
      SwitchWay way;
    };
    std::vector<GroupEntry> groups;  // of memory that switches sum and copy
    std::vector<std::int32_t> aggregations;
    MaxMin::Way memory_way = -1;  // CPU ranks
    double memory_carried = 0;    // bytes, so far
  };
  struct Several {  // ranks that a strand signals or waits for at once
    SmallList<protocol::End, 2> ranks;
    std::vector<std::int32_t> connections;
    std::size_t left = 0;  // of those that are waited for, the first ones, which are not known to have signalled
  };
  struct Actor {
    const protocol::Operation* operation = nullptr;  // under way
    int outstanding = 0;
    bool delayed = false;  // by jitter
    std::uint8_t next_known = 0;
    Duration since;
    // The connections it used last: a strand mostly has few peers, and asks for each several times per operation.
    struct Known {
      Rank peer = -1;
      std::int32_t way = -1;  // 2 * strand + (1 if outgoing)
      std::int32_t connection = -1;
    };
    std::array<Known, 4> known;
    std::unique_ptr<Several> several[2];  // signalled at once, and waited for, last; most strands have none
  };
  using Event = FlowEvent;

  // Packets, flapping links and timelines name links by their numbers.
  bool links_have_numbers() const {
    return options_.carrier || !options_.disturbances.flaps.empty() || !options_.disturbances.changes.empty() ||
           options_.timeline != nullptr;
  }
  std::unique_ptr<Carrier> carrier_of(Carrier::SimulationHost& self);
  void launch();
  bool step();
  // The two tasks of a rank's proxy: it hands messages to the network, and takes them from it.
  enum class Proxy : std::int32_t { kPosts, kTakes };
  void occupy(Rank rank, Proxy proxy, std::int32_t with, double seconds);
  void serve(std::int32_t poster, std::int32_t actor, double seconds);
  void await_poster(std::int32_t poster);
  void sent(std::int32_t connection);
  Several& several(std::int32_t actor, const protocol::Operation& operation);
  bool signalled_by_all(std::int32_t actor, Several& several);
  void signal(std::int32_t actor, const protocol::Operation& operation);
  void push(Duration delay, const Event& event);
  Duration time() const override { return now_; }
  void remind(Duration delay, const Carrier::Timer& timer) override { events_waiting_.push(now_, delay, timer); }
  void remind_anew(Duration delay, const Carrier::Timer& timer) override {
    events_waiting_.push(now_, delay, timer, timer.subject);
  }
  void happens(const Event::Timer& timer) { carrier_->handle(timer); }
  void happens(Event::LocalEnds ends);
  void happens(Event::Posted posted);
  void happens(Event::MessageArrives message);
  void happens(Event::SignalArrives signal);
  void happens(Event::SignalsArrive signals);
  void happens(Event::PartArrives part);
  void happens(Event::SumArrives sum);
  void happens(Event::Resume resume) { runnable_.push_back(resume.actor); }
  void happens(Event::Flap flap);
  void happens(Event::Change change);
  void happens(Event::Background background);
  void happens(Event::Computed computed);
  // Is it superseded by a later one?
  bool is_stale(const Event& event) const;
  void carry(std::int32_t load, MaxMin::Way way, double bytes, double cap, double raw_per_wire);
  std::uint8_t service_of(std::int32_t load) const;
  double start_way(std::int32_t actor, SwitchWay& way, Bytes bytes, double slowness);
  void through(std::int32_t load) override;
  void part_done(std::int32_t actor);
  void wake(std::int32_t& actor, std::int32_t step = -1, CriticalPath::Edge edge = CriticalPath::Edge::kMessage);
  enum class Way : std::int8_t { kIn, kOut };
  std::int32_t connection_of(std::int32_t actor, Rank peer, int strand, Way way);
  Connection& connect(std::int32_t actor, Rank peer, int strand, Way way) {
    return connections_[static_cast<std::size_t>(connection_of(actor, peer, strand, way))];
  }
  std::int32_t connection_index(Rank from, Rank to, int strand);
  std::int32_t open(Rank from, Rank to, int strand);
  std::vector<double> carried() const;
  std::vector<topology::DeviceId> devices_of(const Group& group, Rank by) const;
  MaxMin::Way way_along(const topology::Path& path, const Fold::Images& turned);
  void fail(std::string message);
  void keep_whole(topology::LinkId link);
  void limit_to_links(MaxMin::Way way, double& cap) const;
  SwitchWay way_of(const topology::Path& path, const Fold::Images& turned, const Group& group);
  SwitchWay& way_through(Rank rank, const protocol::End& end, bool store);
  std::int32_t aggregation_index(Rank rank, const protocol::End& end);
  Aggregation::Member& member(Rank rank, const protocol::End& end) {
    return aggregations_[static_cast<std::size_t>(aggregation_index(rank, end))].member(rank);
  }
  std::deque<std::vector<std::byte>>& messages(Rank from, Rank to, int strand) {
    return messages_[connection_index(from, to, strand)];
  }
  bool ready(Rank rank, int strand, const protocol::Operation& operation);
  class Posting;  // of a move
  fabric::Posted post(Rank rank, int strand, const protocol::Operation& operation);
  fabric::Posted post_signal(Rank rank, int strand, const protocol::Operation& operation);
  fabric::Posted post_wait(Rank rank, int strand, const protocol::Operation& operation);
  Actor& begin(std::int32_t actor, const protocol::Operation& operation);
  std::vector<std::vector<std::byte>> move_data(Rank rank, const protocol::Operation& operation);
  std::byte* memory_of(Rank rank, protocol::Memory memory);

  const topology::Topology& topology_;
  const topology::Routes& routes_;
  FlowOptions options_;
  protocol::Protocol protocol_ = protocol::Protocol::kSimple;
  std::vector<topology::DeviceId> devices_;  // by rank
  int ranks_per_endpoint_ = 1;
  protocol::Capabilities capabilities_;  // of every endpoint
  std::vector<Endpoint> endpoints_;
  std::vector<Place> places_;
  // Of actors, and of connections: 2 * rank + Proxy; then of actors: what a node's host sends, from first_host_ on, and
  // what a channel's thread block copies and sends within its node, and the channel across the network: two by two from
  // first_block_ on.
  std::vector<Poster> posters_;
  std::int32_t first_host_ = 0, first_block_ = 0;
  struct Host {
    std::int32_t number = 0;  // of the node
    int images = 1;           // ranks of the node for which the rank stands
  };
  std::vector<Host> hosts_;  // by simulated rank
  MaxMin rates_;
  std::unordered_map<MaxMin::Resource, double> whole_;  // of links that flap or change: what they carry before
  Fold fold_;
  std::unique_ptr<Carrier> carrier_;
  std::vector<Connection> connections_;
  PairTable opened_;                                                               // by sender, receiver and strand
  std::unordered_map<std::int32_t, std::deque<std::vector<std::byte>>> messages_;  // of connections, where data moves
  std::deque<Aggregation> aggregations_;
  std::vector<Actor> actors_;
  std::vector<double> slowness_;  // by rank; empty: none is slow
  Delays delays_;
  std::vector<BackgroundSource> streams_;
  std::mt19937_64 bursts_;       // when streams send
  std::vector<Kernel> kernels_;  // by rank, of those that compute
  Duration computed_;
  struct Signals {  // under way together
    std::vector<std::int32_t> connections;
    std::int32_t step = -1;  // that sent them
  };
  std::vector<Signals> signals_;
  std::vector<std::int32_t> free_signals_;
  EventQueue<Event> events_waiting_;
  std::int64_t busy_ = 0;  // loads under way and events that keep the simulation going
  std::deque<std::int32_t> runnable_;
  Duration now_;
  std::int64_t events_ = 0, operations_ = 0;
  std::optional<CriticalPath> path_;  // with `why`
  CriticalPath::Part ending_ = CriticalPath::Part::kNothing;
  std::vector<std::int32_t> last_part_;  // with `why`, by aggregation: the step that sent the latest part
  std::optional<Error> failure_;
};

// One rank's view of the fabric.
class FlowFabric::Endpoint {
 public:
  Endpoint(FlowFabric* fabric, Rank rank);

  const fabric::Capabilities& capabilities() const { return fabric_->capabilities_; }
  Rank rank() const { return rank_; }
  void begin(const fabric::Call& call) {
    call_ = call;
    fabric_->protocol_ = call.protocol;
  }
  bool ready(int strand, const protocol::Operation& operation) { return fabric_->ready(rank_, strand, operation); }
  fabric::Posted post(int strand, const protocol::Operation& operation) {
    return fabric_->post(rank_, strand, operation);
  }
  bool finished(int strand) const {
    return fabric_->actors_[static_cast<std::size_t>(rank_ * fabric_->options_.strands + strand)].operation == nullptr;
  }

 private:
  friend class FlowFabric;
  FlowFabric* fabric_;
  Rank rank_;
  fabric::Call call_;
  std::vector<std::byte> scratch_;
};

inline FlowFabric::Endpoint& FlowFabric::endpoint(Rank rank) { return endpoints_[static_cast<std::size_t>(rank)]; }

static_assert(fabric::Endpoint<FlowFabric::Endpoint>);

}  // namespace weft::sim
