#pragma once

#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "cost/connections.h"
#include "cost/mail.h"

namespace weft::cost {

// Walks all strands of a plan's channel 0 through their stories with a clock: messages arrive a hop's latency after
// they were sent, streams of slices overlap along chains of moves, rounds after the third cost what the third cost.
// Thread: one at a time. All arguments must outlive it.
class Walk {
 public:
  // Requires: opened connections.
  Walk(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan, Connections& connections);

  // Seconds until the last strand ends; `empty_messages`: as if they had no bytes.
  double run(bool empty_messages);

 private:
  using Way = Connections::Way;
  struct Strand {
    Rank rank;
    int lane;
    double free = 0;   // when the strand can start its next step
    double taken = 0;  // when it has had time enough for all messages so far that the network brought
    Generator<schedule::Step> steps = {};
    const schedule::Step* step = nullptr;
  };

  double walk_round();
  bool take(Strand& s);
  bool take_own(Strand& s, const schedule::Step& step);
  bool take_move(Strand& s, const schedule::Step& step);
  Stream receive(Strand& s, const schedule::Step& step, double start);
  double taking_of(const Strand& s, const schedule::Operand& o);
  double send(const Strand& s, const schedule::Step& step, Stream output);
  void send_part(Rank rank, const schedule::Operand& o, int lane, Stream part);
  double messages_of(const Strand& s, const schedule::Operand& o);
  std::uint64_t queue_of(const schedule::Operand& o, const Strand& s);
  double posting_of(const Strand& s, const schedule::Step& step);
  double seconds_of(const Strand& s, const schedule::Step& step);
  double seconds_of_core(const Strand& s, const schedule::Step& step);
  double wire_piece() const;
  double bytes() const { return empty_ ? 0 : piece_; }

  const MachineView& machine_;
  const schedule::Task& task_;
  const schedule::Plan& plan_;
  Connections& connections_;
  // How much of a chunk one round of channel 0 moves, how many rounds there are, and slices in each.
  double piece_ = 0, rounds_ = 0, slices_ = 1;
  bool empty_ = false;
  std::vector<Strand> strands_;
  std::vector<double> core_free_;  // CPU ranks: when the core is free
  Mail mail_;
  std::unordered_map<std::uint64_t, schedule::Queue<double>> signals_;
  std::map<std::tuple<Rank, int, int>, schedule::Queue<double>> own_signals_;  // from a lane to another of its rank
  std::unordered_map<std::uint64_t, std::vector<schedule::Queue<Stream>>>
      parts_;  // that switches wait to sum, by member
};

}  // namespace weft::cost
