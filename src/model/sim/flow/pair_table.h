#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace weft::sim {

// Numbers of connections by sender, receiver and strand: an open-addressed table, which every operation asks several
// times. Requires: ranks below 2^24, strands below 2^16.
class PairTable {
 public:
  PairTable() : slots_(std::size_t{1} << (64 - shift_)) {}

  // The number to read or set; below 0: none yet. Valid until the next call.
  std::int32_t& at(Rank from, Rank to, int strand) {
    if (2 * used_ >= slots_.size()) grow();
    Slot& slot = find(key_of(from, to, strand));
    if (slot.key == kFree) {
      slot.key = key_of(from, to, strand);
      ++used_;
    }
    return slot.number;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    std::int32_t number = -1;
  };

  static std::uint64_t key_of(Rank from, Rank to, int strand) {
    return static_cast<std::uint64_t>(from) << 40 | static_cast<std::uint64_t>(to) << 16 |
           static_cast<std::uint64_t>(strand);
  }
  Slot& find(std::uint64_t key) {
    const std::size_t mask = slots_.size() - 1;
    // Fibonacci hashing. The sender is in the key's high bits, which only the product's high bits know.
    std::size_t i = static_cast<std::size_t>((key * 0x9e3779b97f4a7c15) >> shift_);
    while (slots_[i].key != kFree && slots_[i].key != key) i = (i + 1) & mask;
    return slots_[i];
  }
  void grow() {
    std::vector<Slot> before(2 * slots_.size());
    before.swap(slots_);
    --shift_;
    for (const Slot& slot : before)
      if (slot.key != kFree) find(slot.key) = slot;
  }

  int shift_ = 58;  // so that the product's high bits number the slots
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace weft::sim
