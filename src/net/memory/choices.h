#pragma once

#include <cstring>
#include <optional>
#include <string_view>

#include "net/memory/segment.h"

// Plans that ranks of a segment have chosen, by what they were chosen for. All ranks choose alike, so that one search
// is enough: where ranks outnumber cores, searching takes most of a job's start. Nobody waits for another's search.
// Thread: any.
namespace weft::net::memory {

struct ChosenPlan {
  std::string_view algorithm;  // of the registry
  std::uint8_t protocol = 0;
  std::int32_t channels = 0;
  std::int64_t slice_bytes = 0;
  bool operator==(const ChosenPlan&) const = default;
};

// What was chosen for `key`; empty: nothing is known yet. Owns: the segment, what the name refers to.
inline std::optional<ChosenPlan> find_choice(const Segment& segment, std::uint64_t key) {
  for (const Choice& c : segment.header().choices) {
    if (c.state.load(std::memory_order_acquire) != Choice::kThere || c.key != key) continue;
    return ChosenPlan{std::string_view(c.algorithm, strnlen(c.algorithm, sizeof c.algorithm)), c.protocol, c.channels,
                      c.slice_bytes};
  }
  return std::nullopt;
}

// Lets the others know. Without room, or with a name that is too long, nobody gets to know.
inline void keep_choice(const Segment& segment, std::uint64_t key, const ChosenPlan& plan) {
  if (plan.algorithm.size() >= sizeof Choice::algorithm || find_choice(segment, key)) return;
  for (Choice& c : segment.header().choices) {
    std::uint32_t empty = Choice::kEmpty;
    if (!c.state.compare_exchange_strong(empty, Choice::kWritten, std::memory_order_relaxed)) continue;
    c.key = key;
    c.protocol = plan.protocol;
    c.channels = plan.channels;
    c.slice_bytes = plan.slice_bytes;
    plan.algorithm.copy(c.algorithm, sizeof c.algorithm - 1);
    c.state.store(Choice::kThere, std::memory_order_release);
    return;
  }
}

}  // namespace weft::net::memory
