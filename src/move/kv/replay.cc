#include "move/kv/replay.h"

#include <algorithm>

#include "move/kv/policy.h"

namespace weft::kv {
namespace {

// Of every place in `blocks`, the number of the request that uses its block next.
std::vector<std::uint64_t> next_uses(const Trace& trace) {
  std::vector<std::uint64_t> next(trace.blocks.size()), seen(trace.distinct, Clairvoyant::kNever);
  for (std::size_t r = trace.requests(); r-- > 0;) {
    const auto blocks = trace.of(r);
    const auto first = static_cast<std::size_t>(blocks.data() - trace.blocks.data());
    for (std::size_t i = 0; i < blocks.size(); ++i) next[first + i] = seen[blocks[i]];
    for (const std::uint32_t block : blocks) seen[block] = r;
  }
  return next;
}

template <class Kept>
Hits run(const Trace& trace, std::int64_t capacity) {
  constexpr bool kForesees = std::is_same_v<Kept, Clairvoyant>;
  const std::vector<std::uint64_t> next = kForesees ? next_uses(trace) : std::vector<std::uint64_t>();
  Kept kept(trace.distinct, capacity);
  Hits hits{.requests = trace.requests(), .blocks = trace.blocks.size()};
  for (std::size_t r = 0; r < trace.requests(); ++r) {
    const auto blocks = trace.of(r);
    std::size_t prefix = 0;
    while (prefix < blocks.size() && kept.holds(blocks[prefix])) ++prefix;
    hits.hit_blocks += prefix;
    hits.hit_requests += prefix > 0;
    for (std::size_t i = blocks.size(); i-- > 0;) {
      if constexpr (kForesees)
        kept.touch(blocks[i], next[static_cast<std::size_t>(blocks.data() - trace.blocks.data()) + i]);
      else
        kept.touch(blocks[i]);
    }
    while (kept.size() > capacity) kept.evict([](std::uint32_t) { return false; });
  }
  return hits;
}

}  // namespace

std::string_view name(Policy policy) {
  constexpr std::string_view kNames[] = {"lru", "lfu", "s3fifo", "optimum"};
  const auto at = static_cast<std::size_t>(policy);
  return at < std::size(kNames) ? kNames[at] : "unknown";
}

Result<Policy> parse_policy(const std::string& text) {
  for (const Policy policy : kPolicies)
    if (text == name(policy)) return policy;
  if (text == "s3-fifo") return Policy::kS3Fifo;  // as its authors write it
  return bad_input("unknown policy '{}'; there are lru, lfu, s3fifo, optimum, and all", text);
}

Hits replay(const Trace& trace, std::int64_t capacity, Policy policy) {
  switch (policy) {
    case Policy::kLru:
      return run<Lru>(trace, capacity);
    case Policy::kLfu:
      return run<Lfu>(trace, capacity);
    case Policy::kS3Fifo:
      return run<S3Fifo>(trace, capacity);
    case Policy::kClairvoyant:
      break;
  }
  return run<Clairvoyant>(trace, capacity);
}

}  // namespace weft::kv
