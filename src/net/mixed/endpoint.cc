#include "net/mixed/endpoint.h"

#include <algorithm>

namespace weft::net::mixed {

using protocol::End;
using protocol::Memory;
using protocol::Operation;
using Kind = Operation::Kind;

static_assert(fabric::Endpoint<Endpoint>);

namespace {

static_assert(memory::kLaneStrand == messages::kLaneStrand);
constexpr int kStrands = std::min(memory::kStrands, messages::kStrands);
constexpr Bytes kSlice = std::min<Bytes>(memory::kSlotBytes, messages::kSlotBytes);
// The end of a rank's scratch holds one slice per strand, the lane's among them, that is on its way from one side to
// the other.
static_assert(memory::kLaneStrand == kStrands);
constexpr Bytes kScratch =
    static_cast<Bytes>(std::min(memory::kScratchBytes, messages::kScratchBytes)) - (kStrands + 1) * kSlice;

bool is_message(const End& end) { return end.kind == End::Kind::kMessage; }
bool crosses(const End& end) { return is_message(end) || end.kind == End::Kind::kAggregation; }

}  // namespace

fabric::Capabilities capabilities(std::string_view name) {
  return {.name = name, .max_strands = kStrands, .max_slice = kSlice, .scratch_bytes = kScratch};
}

Endpoint::Endpoint(std::string_view name, memory::Endpoint& near, messages::Endpoint& far, std::vector<Rank> members)
    : near_(near),
      far_(far),
      members_(std::move(members)),
      local_(static_cast<std::size_t>(far.ranks()), -1),
      capabilities_(mixed::capabilities(name)) {
  capabilities_.aggregation = far_.capabilities().aggregation;
  for (std::size_t i = 0; i < members_.size(); ++i)
    local_[static_cast<std::size_t>(members_[i])] = static_cast<Rank>(i);
  far_.use_scratch(near_.segment().scratch(near_.rank()));
}

void Endpoint::begin(const fabric::Call& call) {
  near_.begin(call);
  far_.begin(call);
}

// Both sides have the same call.
void Endpoint::exchange_call(fabric::Call& call) {
  fabric::Call same = call;
  near_.exchange_call(call);
  far_.exchange_call(same);
}

End Endpoint::in_segment(End end) const {
  if (is_message(end)) end.peer = local(end.peer);
  return end;
}

End Endpoint::stage(int strand) const { return {.memory = Memory::kScratch, .offset = kScratch + strand * kSlice}; }

bool Endpoint::touches(const SmallList<End, 2>& ends, bool near) const {
  return std::any_of(ends.begin(), ends.end(), [&](const End& e) { return crosses(e) && near_message(e) == near; });
}

const Operation& Endpoint::near_sources(const Operation& operation) {
  asked_.bytes = operation.bytes;
  asked_.sources.clear();
  for (const End& end : operation.sources)
    if (near_message(end)) asked_.sources.push_back(in_segment(end));
  return asked_;
}

const Endpoint::Parts& Endpoint::split(int strand, const Operation& operation) {
  parts_.near.bytes = parts_.far.bytes = operation.bytes;
  for (auto* ends : {&parts_.near.sources, &parts_.near.destinations, &parts_.far.sources, &parts_.far.destinations,
                     &parts_.near_messages})
    ends->clear();
  const bool from_afar = touches(operation.sources, false);
  parts_.near_sends = from_afar;
  Operation& first = from_afar ? parts_.far : parts_.near;
  Operation& second = from_afar ? parts_.near : parts_.far;
  for (const End& end : operation.sources) {
    if (!from_afar) {
      first.sources.push_back(in_segment(end));
    } else if (near_message(end)) {
      // It lies in the same mapping as the scratch.
      parts_.near_messages.push_back(in_segment(end));
      const std::byte* at = near_.received(in_segment(end));
      first.sources.push_back({.memory = Memory::kScratch, .offset = at - near_.segment().scratch(near_.rank())});
    } else {
      first.sources.push_back(end);
    }
  }
  const bool goes_on = touches(operation.destinations, from_afar);  // to the side that did not compute
  End between = stage(strand);
  bool kept = false;  // the result lies in a local destination anyway
  for (const End& end : operation.destinations) {
    if (crosses(end) && near_message(end) == from_afar) {
      second.destinations.push_back(from_afar ? in_segment(end) : end);
      continue;
    }
    first.destinations.push_back(from_afar ? end : in_segment(end));
    if (crosses(end) || kept) continue;
    between = end;
    kept = true;
  }
  if (!goes_on) return parts_;
  if (!kept) first.destinations.push_back(between);
  second.sources.push_back(between);
  return parts_;
}

Endpoint::Missing Endpoint::missing(int strand, const Operation& operation) {
  if (operation.kind != Kind::kMove) {
    if (!is_near(operation.peer)) return far_.ready(strand, operation) ? kNothing : kFar;
    Operation near = operation;
    near.peer = local(operation.peer);
    return near_.ready(strand, near) ? kNothing : kNear;
  }
  if (!near_.ready(strand, near_sources(operation))) return kNear;
  const Parts& parts = split(strand, operation);
  if (!near_.ready(strand, parts.near)) return kNear;
  if (!parts.far.destinations.empty() || !parts.far.sources.empty())
    if (!far_.ready(strand, parts.far)) return kFar;
  // The near part may overwrite what is still on its way out.
  if (far_.writer_in_the_way(parts.near) < 0) return kNothing;
  far_.unsettled();
  return far_.writer_in_the_way(parts.near) < 0 ? kNothing : kFar;
}

fabric::Posted Endpoint::post(int strand, const Operation& operation) {
  if (operation.kind != Kind::kMove) {
    if (!is_near(operation.peer)) return far_.post(strand, operation);
    Operation near = operation;
    near.peer = local(operation.peer);
    return near_.post(strand, near);
  }
  const Parts& parts = split(strand, operation);
  const auto near = [&] {
    if (!parts.near.sources.empty()) near_.post(strand, parts.near);
  };
  if (!parts.near_sends) near();
  if (!parts.far.sources.empty()) far_.post(strand, parts.far);
  for (const End& end : parts.near_messages) near_.release(end, operation.bytes);
  if (parts.near_sends) near();
  return fabric::Posted::kDone;
}

Rank Endpoint::blocker(int strand, const Operation& operation) {
  const Missing side = missing(strand, operation);
  if (side == kNothing) return -1;
  if (operation.kind != Kind::kMove) return operation.peer;
  if (side == kFar) {
    if (const Rank peer = far_.blocker(strand, parts_.far); peer >= 0) return peer;
    return far_.writer_in_the_way(parts_.near);
  }
  Rank peer = near_.blocker(strand, near_sources(operation));
  if (peer < 0) peer = near_.blocker(strand, split(strand, operation).near);
  return peer < 0 ? -1 : members_[static_cast<std::size_t>(peer)];
}

Rank Endpoint::mismatched() const {
  const Rank near = near_.mismatched();
  return near >= 0 ? members_[static_cast<std::size_t>(near)] : far_.mismatched();
}

fabric::Disagreement Endpoint::disagreement() const {
  if (near_.mismatched() < 0) return far_.disagreement();
  fabric::Disagreement found = near_.disagreement();
  found.peer = members_[static_cast<std::size_t>(found.peer)];
  return found;
}

Rank Endpoint::unread() {
  const Rank near = near_.unread();
  return near >= 0 ? members_[static_cast<std::size_t>(near)] : far_.unread();
}

void Endpoint::compare_calls(Rank peer) {
  if (is_near(peer))
    near_.compare_calls(local(peer));
  else
    far_.compare_calls(peer);
}

}  // namespace weft::net::mixed
