#include "plan/schedule/verify/form.h"

#include <algorithm>

namespace weft::schedule::symbolic {
namespace {
using Kind = Finding::Kind;
}

Form::Form(const Schedule& schedule, Report& report)
    : s_(schedule), report_(report), at_(schedule), senders_(at_.connections(), -1), takers_(at_.connections(), -1) {}

bool Form::accepts(const Strand& self, const Step& now) {
  const Shape& shape = s_.shape;
  if (now.kind != Step::Kind::kMove) {
    if (now.peer >= 0 && now.peer < shape.ranks && now.peer != self.rank) return true;
    report_.fail(Kind::kBadOperand, self, -1, now.peer, "names rank {}, which is not a peer", now.peer);
  } else if (now.sources.empty() || now.destinations.empty()) {
    report_.fail(Kind::kBadOperand, self, now.chunk, -1, "moves nothing or nowhere");
  } else if (now.chunk < 0 || now.chunk >= shape.chunks) {
    report_.fail(Kind::kBadOperand, self, now.chunk, -1, "moves chunk {} of {}", now.chunk, shape.chunks);
  } else {
    const auto side = [&](const Operands& operands, bool destination) {
      return std::all_of(operands.begin(), operands.end(),
                         [&](const Operand& o) { return accepts(self, now, o, operands, destination); });
    };
    return side(now.sources, false) && side(now.destinations, true);
  }
  return false;
}

bool Form::accepts(const Strand& self, const Step& now, const Operand& o, const Operands& side, bool destination) {
  const Rank ranks = s_.shape.ranks;
  const bool group = o.kind == Operand::Kind::kMulticast || o.kind == Operand::Kind::kAggregation;
  const bool peer = o.kind == Operand::Kind::kMessage || o.kind == Operand::Kind::kRemote;
  if (o.lane < Operand::kSameLane || o.lane >= s_.lanes) {
    report_.fail(Kind::kBadOperand, self, now.chunk, o.peer, "names lane {} of {}", o.lane, s_.lanes);
  } else if (peer && (o.peer < 0 || o.peer >= ranks || o.peer == self.rank)) {
    report_.fail(Kind::kBadOperand, self, now.chunk, o.peer, "names rank {}, which is not a peer", o.peer);
  } else if (group &&
             (o.stride < 1 || o.peer < 0 || !o.group().contains(self.rank) || o.group().member(o.count - 1) >= ranks)) {
    report_.fail(Kind::kBadOperand, self, now.chunk, o.peer,
                 "names a group of ranks that it is not in, or that do not exist");
  } else if (o.kind == Operand::Kind::kAggregation && std::count(side.begin(), side.end(), o) > 1) {
    report_.fail(Kind::kBadOperand, self, now.chunk, o.peer, "uses an aggregation twice in one step");
  } else if (o.message()) {
    own_connection(self, now, o, side, destination);
  } else if (o.memory() && !in_memory(self, now, o)) {
    report_.fail(Kind::kBadOperand, self, o.chunk, o.peer,
                 "names chunk {}, which the buffer does not hold or the step does not move", o.chunk);
  } else if (destination && o.memory() && o.buffer == Buffer::kIn) {
    report_.fail(Kind::kBadOperand, self, o.chunk, o.peer, "writes chunk {} of the input", o.chunk);
  } else if (destination && o.memory() && std::count(side.begin(), side.end(), o) > 1) {
    report_.fail(Kind::kBadOperand, self, o.chunk, o.peer, "writes chunk {} twice in one step", o.chunk);
  }
  return !report_.failed();
}

bool Form::in_memory(const Strand& self, const Step& now, const Operand& o) const {
  if (o.buffer == Buffer::kScratch) return o.chunk >= 0 && o.chunk < s_.scratch;
  if (o.chunk != now.chunk) return false;
  for (const Rank owner : owners(self, o))
    if (!holds(s_.shape, o.buffer, o.chunk, owner)) return false;
  return true;
}

// A step moves at most one message over a connection, and each end of a connection belongs to one strand: otherwise
// which message is meant would depend on which strand comes first.
void Form::own_connection(const Strand& self, const Step& now, const Operand& o, const Operands& side,
                          bool destination) {
  const int lane = at_.lane_of(self, o);
  const auto same = std::count_if(side.begin(), side.end(), [&](const Operand& other) {
    return other.kind == o.kind && other.peer == o.peer && at_.lane_of(self, other) == lane;
  });
  const char* verb = destination ? "sends to" : "receives from";
  if (same > 1)
    return report_.fail(Kind::kBadOperand, self, now.chunk, o.peer, "{} rank {} {} times in one step", verb, o.peer,
                        same);
  int& owner = destination ? senders_[at_.outgoing(self, o)] : takers_[at_.incoming(self, o)];
  if (owner < 0) owner = self.lane;
  if (owner != self.lane)
    report_.fail(Kind::kRace, self, now.chunk, o.peer,
                 "{} rank {} on the connection of lane {}, which lane {} uses unordered", verb, o.peer, lane, owner);
}

}  // namespace weft::schedule::symbolic
