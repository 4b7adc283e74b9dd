#pragma once

#include <cstring>
#include <optional>
#include <string_view>

#include "net/memory/segment.h"

// Plans that ranks of a segment have chosen, by what they were chosen for. All ranks choose alike, so that one search
// is enough: where ranks outnumber cores, searching takes most of a job's start. There ranks wait for the search of the
// one that claimed it, but not for ever: it may have ended.
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

// States of a Choice beyond its own: its key is there, and its plan is being searched, or will not come.
inline constexpr std::uint32_t kSearched = 3, kGivenUp = 4;

inline Choice* choice_in(const Segment& segment, std::uint64_t key, std::uint32_t state) {
  for (Choice& c : segment.header().choices)
    if (c.state.load(std::memory_order_acquire) == state && c.key == key) return &c;
  return nullptr;
}
inline bool is_searched(const Segment& segment, std::uint64_t key) {
  return choice_in(segment, key, kSearched) != nullptr;
}

// This rank searches; ends with keep_choice() or with the destructor, which says that nothing comes.
class SearchClaim {
 public:
  SearchClaim(const Segment& segment, std::uint64_t key) {
    for (Choice& c : segment.header().choices) {
      std::uint32_t empty = Choice::kEmpty;
      if (!c.state.compare_exchange_strong(empty, Choice::kWritten, std::memory_order_relaxed)) continue;
      c.key = key;
      c.state.store(kSearched, std::memory_order_release);
      claimed_ = &c;
      return;
    }
  }
  ~SearchClaim() {
    std::uint32_t searched = kSearched;
    if (claimed_ != nullptr) claimed_->state.compare_exchange_strong(searched, kGivenUp, std::memory_order_release);
  }
  SearchClaim(const SearchClaim&) = delete;

 private:
  Choice* claimed_ = nullptr;
};

// Lets the others know. Without room, or with a name that is too long, nobody gets to know.
inline void keep_choice(const Segment& segment, std::uint64_t key, const ChosenPlan& plan) {
  if (plan.algorithm.size() >= sizeof Choice::algorithm || find_choice(segment, key)) return;
  for (Choice& first : segment.header().choices) {
    // A place that this key has been claimed for, else the first that is free.
    Choice* const claimed = choice_in(segment, key, kSearched);
    Choice& c = claimed != nullptr ? *claimed : first;
    std::uint32_t before = claimed != nullptr ? kSearched : Choice::kEmpty;
    if (!c.state.compare_exchange_strong(before, Choice::kWritten, std::memory_order_relaxed)) continue;
    c.key = key;
    c.protocol = plan.protocol;
    c.channels = plan.channels;
    c.slice_bytes = plan.slice_bytes;
    std::memset(c.algorithm, 0, sizeof c.algorithm);
    plan.algorithm.copy(c.algorithm, sizeof c.algorithm - 1);
    c.state.store(Choice::kThere, std::memory_order_release);
    return;
  }
}

}  // namespace weft::net::memory
