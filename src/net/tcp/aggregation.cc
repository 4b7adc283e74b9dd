// What an endpoint does with a node of the network that sums messages: its side, and what the node asks of its own.

#include <algorithm>

#include "net/tcp/endpoint.h"

namespace weft::net::tcp {

using protocol::End;
using protocol::Operation;

namespace {

bool is_sum(const End& end) { return end.kind == End::Kind::kAggregation; }

bool has_sum(const Operation& operation) {
  return std::any_of(operation.sources.begin(), operation.sources.end(), is_sum) ||
         std::any_of(operation.destinations.begin(), operation.destinations.end(), is_sum);
}

}  // namespace

// Parts go to the node and sums come from it, as messages.
const Operation& Endpoint::through_node(const Operation& operation) {
  if (node_ < 0 || !has_sum(operation)) return operation;
  through_node_ = operation;
  for (auto* ends : {&through_node_.sources, &through_node_.destinations})
    for (End& end : *ends) {
      if (!is_sum(end)) continue;
      end.kind = End::Kind::kMessage;
      end.peer = node_;
    }
  return through_node_;
}

void Endpoint::announce_parts(const Operation& operation) {
  if (node_ < 0) return;
  for (const End& end : operation.destinations) {
    if (!is_sum(end) || end.offset > 0) continue;
    Peer& p = peer(node_);
    if (!p.started) open_connections(node_);
    Stream& s = p.streams[static_cast<std::size_t>(end.strand)];
    const Sum sum{.first = end.peer, .count = end.count, .stride = end.stride, .reduction = call_.reduction};
    Header header = part_of(sum, static_cast<std::uint16_t>(end.strand), s.sent + 1);
    header.taken = static_cast<std::uint32_t>(s.taken);
    p.wires[0]->send(header, nullptr, Block(), true);
    note_busy(*p.wires[0]);
  }
}

void Endpoint::note_part(Wire& wire, const Header& h) {
  const Sum sum = sum_of(h);
  Stream& s = stream(wire.peer(), h.strand);
  const std::int64_t last = Bytes{sum.first} + Bytes{sum.count - 1} * sum.stride;
  const bool sound = rank_ == node_ && sum.count > 0 && sum.stride > 0 && sum.first >= 0 && last < ranks_ &&
                     wire.peer() >= sum.first && wire.peer() <= last && (wire.peer() - sum.first) % sum.stride == 0;
  if (!sound || h.number <= s.taken || h.number > s.taken + kSlots)
    return damaged(wire, fmt::format("message {} of strand {}: not a part of a sum of {} ranks from rank {} on",
                                     h.number, h.strand, sum.count, sum.first));
  s.in[(h.number - 1) % kSlots].sum = sum;
}

std::optional<Endpoint::Part> Endpoint::part_of_sum(Rank from, int strand) {
  const Incoming& head = stream(from, strand).head();
  if (!head.sum || !head.begun || head.total < 0 || head.received < head.total) return std::nullopt;
  return Part{*head.sum, head.total, head.tag};
}

// Whom the node waits for, if it has said so; until then, another rank of the group.
Rank Endpoint::blocker_behind_node(const Operation& operation) {
  compare_calls(node_);
  const Rank culprit = culprit_behind(node_, std::max<std::chrono::milliseconds>(options_.timeout / 4, kLately));
  if (culprit != node_) return culprit;
  for (const auto* ends : {&operation.sources, &operation.destinations})
    for (const End& end : *ends)
      if (is_sum(end)) return end.peer != rank_ ? end.peer : end.peer + end.stride;
  return node_;
}

}  // namespace weft::net::tcp
