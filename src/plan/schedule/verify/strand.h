#pragma once

#include <span>
#include <vector>

#include "plan/schedule/schedule.h"
#include "plan/schedule/verify/races.h"

namespace weft::schedule::symbolic {

// A rank's lane on its way through its steps.
struct Strand {
  Rank rank;
  int lane;
  std::size_t next = 0;  // step
  Clock clock;
  std::span<const Order> orders;  // of its own steps that are still to come
};

// The indices of a schedule's strands and connections in arrays. A connection leads from a strand to a rank.
class Numbering {
 public:
  explicit Numbering(const Schedule& schedule)
      : ranks_(static_cast<std::size_t>(schedule.shape.ranks)), lanes_(static_cast<std::size_t>(schedule.lanes)) {}

  std::size_t strands() const { return ranks_ * lanes_; }
  std::size_t strand(Rank rank, int lane) const {
    return static_cast<std::size_t>(rank) * lanes_ + static_cast<std::size_t>(lane);
  }
  std::size_t connections() const { return strands() * ranks_; }
  std::size_t connection(Rank source, int lane, Rank destination) const {
    return strand(source, lane) * ranks_ + static_cast<std::size_t>(destination);
  }
  std::size_t outgoing(const Strand& self, const Operand& o) const {
    return connection(self.rank, lane_of(self, o), o.peer);
  }
  std::size_t incoming(const Strand& self, const Operand& o) const {
    return connection(o.peer, lane_of(self, o), self.rank);
  }
  static int lane_of(const Strand& self, const Operand& o) { return o.lane == Operand::kSameLane ? self.lane : o.lane; }

 private:
  std::size_t ranks_, lanes_;
};

// The ranks whose memories an operand names.
inline std::vector<Rank> owners(const Strand& self, const Operand& o) {
  if (o.kind == Operand::Kind::kLocal) return {self.rank};
  if (o.kind == Operand::Kind::kRemote) return {o.peer};
  std::vector<Rank> all;
  for (Rank i = 0; i < o.count; ++i) all.push_back(o.group().member(i));
  return all;
}

}  // namespace weft::schedule::symbolic
