#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "plan/schedule/queue.h"
#include "plan/schedule/verify/form.h"
#include "plan/schedule/verify/value.h"

namespace weft::schedule::symbolic {

constexpr int kEntry = -1;  // as an epoch's step: the rank's call

// A chunk of a rank's memory.
struct Cell {
  Value value;
  AccessHistory history;
};

struct Message {
  Value value;
  ChunkId chunk = -1;
  Clock clock;
  bool open = false;  // more parts of the same message follow
};

// From one lane of one rank to another rank. Whole messages are seen, not their parts.
struct Connection {
  Queue<Message> parts;
  int whole = 0;  // messages of which all parts were sent and not all were taken
  Queue<Clock> signals;
};

// What a group's members sent into a switch, in order, and how many sums each of them has taken.
struct Aggregation {
  std::vector<std::vector<Message>> sent;
  std::vector<std::size_t> taken;
};

// What a strand waits for.
struct Blocker {
  Rank peer = -1;  // -1: not blocked
  enum class Reason { kMessage, kSignal, kSlot, kOrder } reason = Reason::kMessage;
  int lane = -1;  // of the peer, where only one can help
};

// Carries a schedule out symbolically, up to where no strand can go on or the first thing that is wrong.
class Execution {
 public:
  // Keeps references to the schedule and the report.
  Execution(const Schedule& schedule, VerifyOptions options, Report& report);

  // The counts of what was done; the counterexample stays in the report.
  Proof run();

  const std::vector<Strand>& strands() const { return strands_; }
  const Strand& of(Rank rank, int lane) const { return strands_[at_.strand(rank, lane)]; }
  bool finished(const Strand& strand) const { return strand.next == s_.strand(strand.rank, strand.lane).size(); }
  // The cause that keeps the next step of an unfinished strand from being executed.
  Blocker blocker(const Strand& self) { return blocker(self, s_.strand(self.rank, self.lane)[self.next]); }

  const Connection& connection(const Strand& source, Rank destination) const {
    return connections_[at_.connection(source.rank, source.lane, destination)];
  }
  template <class Look>
  void for_aggregations(Look&& look) const {  // look(group, lane, aggregation)
    for (const auto& [key, a] : aggregations_) {
      const auto& [first, count, stride, lane] = key;
      look(Group{first, count, stride}, lane, a);
    }
  }

  Cell& cell(Rank rank, Buffer buffer, ChunkId chunk);
  // Calls work(cell, chunk or slot) on all memory of a rank that exists.
  template <class Work>
  void for_own_cells(Rank rank, Work&& work) {
    for (const Buffer buffer : {Buffer::kIn, Buffer::kOut})
      for (ChunkId c = 0; c < s_.shape.chunks; ++c)
        if (holds(s_.shape, buffer, c, rank)) work(cell(rank, buffer, c), c);
    for (ChunkId slot = 0; slot < s_.scratch; ++slot) work(cell(rank, Buffer::kScratch, slot), slot);
  }
  std::size_t index(const Strand& strand) const { return at_.strand(strand.rank, strand.lane); }
  Epoch epoch(const Strand& self) const {
    return {static_cast<int>(index(self)), self.clock.at(index(self)), static_cast<int>(self.next)};
  }

 private:
  void enter(Strand& strand);
  void prepare_orders();
  void follow_orders(Strand& self);
  bool step(Strand& self);
  void move(Strand& self, const Step& now);
  bool stays_where_it_is(const Strand& self, const Step& now);
  Value reduced(Strand& self, const Step& now);
  Value read(Strand& self, const Step& now, const Operand& o);
  Value take(Strand& self, const Step& now, Rank sender, Message sent, bool open);
  void write(Strand& self, const Step& now, const Operand& o, const Value& value);
  void race(const Strand& self, const Operand& o, Rank owner, const Epoch& other);
  Blocker blocker(const Strand& self, const Step& now);
  Aggregation& aggregation(const Strand& self, const Operand& o);

  const Schedule& s_;
  VerifyOptions options_;
  Report& report_;
  Numbering at_;
  Form form_;
  ChunkId per_rank_;  // cells: input and output chunks, scratch slots
  std::vector<Cell> cells_;
  std::vector<Strand> strands_;
  std::vector<Connection> connections_;
  std::map<std::tuple<Rank, Rank, Rank, int>, Aggregation> aggregations_;  // by group and lane
  std::map<std::pair<std::size_t, int>, Clock> ends_;  // of the steps that orders wait for: [strand, step]
  Proof proof_;
};

}  // namespace weft::schedule::symbolic
