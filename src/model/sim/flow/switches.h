#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "machine/switched_paths.h"
#include "model/sim/flow/max_min.h"
#include "plan/protocol/hop_costs.h"
#include "plan/protocol/operation.h"

namespace weft::sim {

// One direction of a group's way through switches that sum or copy: a single flow, which uses every link of it at once.
struct SwitchWay {
  MaxMin::Way way = -1;
  Duration latency, overhead, fence;
  double cap = 0;           // raw link bytes per second
  double raw_per_wire = 1;  // raw link bytes per wire byte
  double carried = 0;       // raw link bytes, so far
};

// The ranks that an operation's end names.
struct Group {
  Rank first = -1, count = 0, stride = 1;

  explicit Group(const protocol::End& end) : first(end.peer), count(end.count), stride(end.stride) {}
  Rank member(Rank i) const { return first + i * stride; }
  Rank place_of(Rank rank) const { return (rank - first) / stride; }
  bool operator==(const Group&) const = default;
};

// Messages that a switch sums: one of every member makes a turn, whose sum comes to every member. Turns follow each
// other. Counts only; the fabric says what time it is.
class Aggregation {
 public:
  struct Member {
    SwitchWay up;
    int in_flight = 0;  // parts sent whose sums have not been taken
    int sums = 0;       // that came and were not taken
    std::int64_t sent = 0, arrived = 0, taken = 0;
    std::int32_t sender_waits = -1, receiver_waits = -1;  // actors
  };

  Aggregation(const Group& group, int strand)
      : group_(group), strand_(strand), members_(static_cast<std::size_t>(group.count)) {}

  const Group& group() const { return group_; }
  int strand() const { return strand_; }
  Member& member(Rank rank) { return members_[static_cast<std::size_t>(group_.place_of(rank))]; }
  std::vector<Member>& members() { return members_; }
  const std::vector<Member>& members() const { return members_; }

  // A member's next part; `data`: its bytes where the fabric carries any, else null.
  void send(Member& member, Bytes bytes, std::vector<std::byte>* data);
  // That part is at the switch. The bytes that start down, if the oldest turn's is complete with it.
  std::optional<Bytes> arrive(Member& member);
  // The member takes its oldest sum: the bytes of all parts in the order of the members, or nothing.
  std::vector<std::vector<std::byte>> take(Member& member);

  SwitchWay down;

 private:
  struct Turn {
    Bytes bytes = 0;
    Rank missing = 0, untaken = 0;
    std::vector<std::vector<std::byte>> parts;
  };
  Turn& turn(std::int64_t number) { return turns_[static_cast<std::size_t>(number - first_turn_)]; }

  Group group_;
  int strand_;
  std::vector<Member> members_;
  std::deque<Turn> turns_;
  std::int64_t first_turn_ = 0;
};

}  // namespace weft::sim
