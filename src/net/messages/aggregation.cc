// What an endpoint does with a node of the network that sums messages: its side, and what the node asks of its own.

#include <algorithm>

#include "net/messages/endpoint.h"

namespace weft::net::messages {

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
    const Stream& s = stream(node_, end.strand);
    const Sum sum{.first = end.peer, .count = end.count, .stride = end.stride, .reduction = call_.reduction};
    Frame frame = part_of(sum, static_cast<std::uint16_t>(end.strand), s.sent() + 1);
    frame.taken = static_cast<std::uint32_t>(s.taken());
    send(node_, frame, nullptr, Block(), true);
  }
}

void Endpoint::note_part(Rank r, const Frame& f) {
  const Sum sum = sum_of(f);
  Stream& s = stream(r, f.strand);
  const std::int64_t last = Bytes{sum.first} + Bytes{sum.count - 1} * sum.stride;
  const bool sound = rank_ == node_ && sum.count > 0 && sum.stride > 0 && sum.first >= 0 && last < ranks_ &&
                     r >= sum.first && r <= last && (r - sum.first) % sum.stride == 0;
  if (!sound || f.number <= s.taken() || f.number > s.taken() + kMostUnderWay)
    return damaged(r, fmt::format("message {} of strand {}: not a part of a sum of {} ranks from rank {} on", f.number,
                                  f.strand, sum.count, sum.first));
  s.message(f.number).sum = sum;
}

std::optional<Endpoint::Part> Endpoint::part_of_sum(Rank from, int strand) {
  const auto guard = hub_->guard();
  const Incoming& head = stream(from, strand).head();
  if (!head.sum || !head.begun || head.total < 0 || head.received < head.total) return std::nullopt;
  return Part{*head.sum, head.total, head.tag};
}

// Whom the node waits for, if it has said so; until then, another rank of the group.
Rank Endpoint::blocker_behind_node(const Operation& operation) {
  compare_calls(node_);
  const Rank culprit =
      failures_.end_behind(node_, std::max<std::chrono::milliseconds>(timeout_ / 4, FailureDetector::kLately));
  if (culprit >= 0 && culprit != node_) return culprit;
  for (const auto* ends : {&operation.sources, &operation.destinations})
    for (const End& end : *ends)
      if (is_sum(end)) return end.peer != rank_ ? end.peer : end.peer + end.stride;
  return node_;
}

}  // namespace weft::net::messages
