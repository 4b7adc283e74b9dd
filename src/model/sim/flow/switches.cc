#include "model/sim/flow/switches.h"

namespace weft::sim {

void Aggregation::send(Member& member, Bytes bytes, std::vector<std::byte>* data) {
  const std::int64_t number = member.sent++;
  while (first_turn_ + static_cast<std::int64_t>(turns_.size()) <= number)
    turns_.push_back({.missing = group_.count, .untaken = group_.count, .parts = {}});
  Turn& t = turn(number);
  t.bytes = bytes;
  if (data == nullptr) return;
  t.parts.resize(members_.size());
  t.parts[static_cast<std::size_t>(&member - members_.data())] = std::move(*data);
}

std::optional<Bytes> Aggregation::arrive(Member& member) {
  Turn& t = turn(member.arrived++);
  if (--t.missing > 0) return std::nullopt;
  return t.bytes;
}

std::vector<std::vector<std::byte>> Aggregation::take(Member& member) {
  Turn& t = turn(member.taken++);
  if (--t.untaken > 0) return t.parts;
  auto parts = std::move(t.parts);
  turns_.pop_front();  // every other member has taken it, and so all earlier ones
  ++first_turn_;
  return parts;
}

}  // namespace weft::sim
