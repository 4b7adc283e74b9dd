// The bytes of moves, where a simulation carries them.

#include "base/check.h"
#include "model/sim/flow/flow_fabric.h"

namespace weft::sim {

using protocol::End;
using protocol::Memory;
using protocol::Operation;

std::byte* FlowFabric::memory_of(Rank rank, Memory memory) {
  Endpoint& e = endpoints_[index(rank)];
  if (memory == Memory::kIn) return const_cast<std::byte*>(e.call_.in);  // only ever a source
  if (memory == Memory::kOut) return e.call_.out;
  if (e.scratch_.empty()) e.scratch_.resize(index(capabilities_.scratch_bytes));
  return e.scratch_.data();
}

// Bytes move when the operation starts: a schedule without races has the same result.
// Returns the part for a switch that sums, if the operation has one.
std::vector<std::vector<std::byte>> FlowFabric::move_data(Rank rank, const Operation& operation) {
  std::vector<std::vector<std::byte>> received, parts;
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> destinations;
  std::vector<Scalar> scales;
  bool scaled = false;
  const auto add_source = [&](const std::byte* data, const End& end, Rank owner) {
    const bool scales_this = endpoints_[index(rank)].call_.scale && fabric::scales(end);
    sources.push_back(data);
    scales.push_back(scales_this ? endpoints_[index(owner)].call_.scale.value_or(Scalar{}) : Scalar{});
    scaled |= scales_this;
  };
  for (const End& end : operation.sources) {
    if (end.kind == End::Kind::kAggregation) {
      Aggregation& a = aggregations_[index(aggregation_index(rank, end))];
      for (auto& part : a.take(a.member(rank))) {
        received.push_back(std::move(part));
        add_source(received.back().data(), end, rank);
      }
    } else if (end.kind == End::Kind::kMulticast) {
      const Group group(end);
      for (Rank i = 0; i < group.count; ++i)
        add_source(memory_of(group.member(i), end.memory) + end.offset, end, group.member(i));
    } else if (end.kind == End::Kind::kMessage) {
      auto& queue = messages(end.peer, rank, end.strand);
      const std::vector<std::byte>& message = queue.front();
      WEFT_ASSERT(end.last ? message.size() == index(end.offset + operation.bytes)
                           : message.size() >= index(end.offset + operation.bytes),
                  "sent {}, received {} at {}", message.size(), operation.bytes, end.offset);
      received.emplace_back(message.begin() + end.offset, message.begin() + end.offset + operation.bytes);
      if (end.last) queue.pop_front();
      add_source(received.back().data(), end, rank);
    } else {
      const Rank owner = end.kind == End::Kind::kRemote ? end.peer : rank;
      add_source(memory_of(owner, end.memory) + end.offset, end, owner);
    }
  }
  for (const End& end : operation.destinations) {
    if (end.kind == End::Kind::kAggregation) {
      parts.emplace_back(index(operation.bytes));
      destinations.push_back(parts.back().data());
    } else if (end.kind == End::Kind::kMulticast) {
      const Group group(end);
      for (Rank i = 0; i < group.count; ++i)
        destinations.push_back(memory_of(group.member(i), end.memory) + end.offset);
    } else if (end.kind == End::Kind::kMessage) {
      auto& queue = messages(rank, end.peer, end.strand);
      if (end.offset == 0) queue.emplace_back();
      queue.back().resize(index(end.offset + operation.bytes));
      destinations.push_back(queue.back().data() + end.offset);
    } else {
      destinations.push_back(memory_of(end.kind == End::Kind::kRemote ? end.peer : rank, end.memory) + end.offset);
    }
  }
  const fabric::Call& call = endpoints_[index(rank)].call_;
  call.fold(destinations.data(), static_cast<int>(destinations.size()), sources.data(),
            static_cast<int>(sources.size()), operation.bytes, scaled ? scales.data() : nullptr);
  return parts;
}

}  // namespace weft::sim
