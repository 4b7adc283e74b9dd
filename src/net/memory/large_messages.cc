#include "net/memory/endpoint.h"

namespace weft::net::memory {

using protocol::End;
using protocol::Operation;

// A move with messages that are large enough for either way of storing: how, their senders try. Where the message that
// came goes on in the same move both times are the move's: each trial differs from what it is compared with by its own
// way only.
void Endpoint::move_counted(const Operation& operation) {
  timed_loads_.clear();
  timed_stores_.clear();
  for (const End& end : operation.sources) {
    if (!counts(end, operation.bytes)) continue;
    const Link& l = link(end.peer, end.strand);
    const std::uint64_t number = l.received + 1;
    const std::uint64_t place = number - l.in->tail.timed_from.load(std::memory_order_relaxed);
    if (place < TimedLoads::kMost) timed_loads_.push_back({l.in, number, place});
  }
  for (const End& end : operation.destinations) {
    if (!counts(end, operation.bytes)) continue;
    Link& l = link(end.peer, end.strand);
    l.choice.begin(call_.streams_slots);
    if (l.choice.times(l.sent + 1, l.out_simple.bytes(), *l.out)) timed_stores_.push_back(&l.choice);
  }
  const auto size = static_cast<std::size_t>(operation.bytes);
  if (timed_loads_.empty() && timed_stores_.empty()) {
    move_any(operation);
  } else {
    const auto start = StoreChoice::Clock::now();
    move_any(operation);
    const auto took = StoreChoice::Clock::now() - start;
    for (StoreChoice* const choice : timed_stores_) choice->stored(took, size);
    const std::uint64_t entry = StoreChoice::per_byte(took, size);
    for (const TimedLoad& load : timed_loads_)
      load.in->loads.of[load.place].store(load.number << 32 | entry, std::memory_order_relaxed);
  }
  for (const End& end : operation.destinations)
    if (counts(end, operation.bytes)) link(end.peer, end.strand).choice.passed(size);
}

}  // namespace weft::net::memory
