#pragma once

#include <vector>

#include "plan/cost/in_flight.h"
#include "plan/cost/links.h"
#include "plan/schedule/queue.h"

namespace weft::cost {

// Seconds until the last strand ends its first round, its second, …
using Rounds = std::vector<double>;
constexpr int kWalkedRounds = 3;
// The time after `rounds`, not necessarily whole: those after the third cost what the third cost.
// Requires: as many ends as rounds, or kWalkedRounds.
double seconds(const Rounds& ends, double rounds);
double rounds_of_channel(const schedule::Task& task, const schedule::Plan& plan);

// Walks all strands of a plan's channel 0 through their script with a clock: messages arrive a hop's latency after
// they were sent, streams of slices overlap along chains of moves.
// Thread: one at a time. All arguments must outlive it.
class Walk {
 public:
  // Requires: a script and links of this plan. `empty_messages`: as if they had no bytes; then sizes and slices do not
  // matter.
  Walk(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan, const Script& script,
       const Links& links, bool empty_messages);

  // Walks at most kWalkedRounds. Call once.
  Rounds run(double rounds);
  // CPU ranks: how long each round that was walked kept the busiest rank's core busy, in seconds.
  double work_per_round() const;
  // How long a round keeps the busiest link, over which the walked channel need not go, busy.
  double busiest_per_round() const { return empty_ ? 0 : links_.busiest * wire_; }

 private:
  using End = Script::End;
  struct Strand {
    Rank rank;
    Number next, last;  // acts
    Number times = 0;   // that the next one has been done
    double free = 0;    // when the strand can start its next step
    double taken = 0;   // when it has had time enough for all messages so far that the network brought
  };

  double walk_round();
  Number take(Strand& s);
  Number take_moves(Strand& s, const Script::Act& act, Number left);
  Stream receive(Strand& s, std::span<const End> sources, double start);
  double taking_of(const Strand& s, const End& source);
  double send(const Strand& s, std::span<const End> sources, std::span<const End> destinations, const Stream& output);
  void send_part(Rank rank, const End& into, const Stream& part);
  double posting_of(const Strand& s, std::span<const End> destinations);
  double seconds_of(std::span<const End> sources, std::span<const End> destinations) const;
  // Of a channel: its thread block's, which copies and sends within the node, and its connections' across the network.
  struct OfChannel {
    double within = 0, across = 0;
  };
  OfChannel seconds_of_channel(std::span<const End> sources, std::span<const End> destinations) const;
  double seconds_of_core(std::span<const End> ends) const;
  const Links::Link& link(const End& end) const { return links_.of[end.connection]; }
  // That one more part fills or closes.
  double messages_of(const End& to) { return in_flight_.filled_by(to.connection, !to.open); }

  const Script& script_;
  const Links& links_;
  bool gpu_, empty_;
  bool of_channel_;                        // is the protocol's rate that of a channel, which its lanes share? LL's is
  double piece_ = 0, wire_ = 0;            // bytes of a chunk in one round; with the protocol's flags
  double messages_ = 1, per_message_ = 1;  // that carry it; the part that one of them is
  std::vector<double> on_wire_;            // by connection: seconds of a piece
  double local_rate_ = 0;                  // GPU: of copies within a rank's memory
  // GPU, by rank: seconds so far that channel 0 has moved for all its lanes, and that the proxy has posted and taken
  // messages of all lanes and channels. Whatever the order in which strands come, a round cannot end
  // sooner than the busiest of these is done.
  struct Busy {
    double within = 0, across = 0, posting = 0, taking = 0;
  };
  std::vector<Busy> busy_;
  double blocks_ = 1;                // of a channel, among which its lanes are shared out
  double memory_ = 0, scratch_ = 0;  // CPU: seconds per byte of a rank's core, in buffers and in scratch
  std::vector<Strand> strands_;
  std::vector<double> core_free_;  // CPU ranks: when the core is free …
  std::vector<double> worked_;     // … and how long it has worked
  Rank cores_ = 1;                 // … and the number of cores
  int walked_ = 0;                 // rounds
  InFlight in_flight_;
  Queues<double> signals_;
  std::vector<std::vector<schedule::Queue<Stream>>> parts_;  // that switches wait to sum, by member
};

}  // namespace weft::cost
