#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

// How a page changes its owner while others may still be copying. Every page has a generation, every copier a pin.
//
//   copier   pin = region; reads the generation: another one than it was given -> unpins and fails; copies; reads the
//            generation again: changed -> the data is not delivered; unpins
//   owner    changes the generation; notes all pins of the region; gives the page out again once each of these pins has
//            changed or its process has ended
//
// All accesses are sequentially consistent, so that either the copier sees the new generation or the owner sees the
// pin. A pin counts up, so that "has changed" cannot be missed: count << 24 | 1 + region, or count << 24 | 0.
// `Step` is called before every shared access; fence_test.cc interleaves and kills copiers there.
namespace weft::transfer {

struct PageWord {
  std::atomic<std::uint64_t> generation;
  std::atomic<std::uint32_t> checksum;  // CRC-32C of the page, if sealed
  std::atomic<std::uint32_t> sealed;
};
static_assert(sizeof(PageWord) == 16);

using PinWord = std::atomic<std::uint64_t>;
inline constexpr unsigned kRegionBits = 24;  // of a pin
inline constexpr std::uint32_t kMostRegions = (1U << kRegionBits) - 2;

// The pinned region's number + 1; 0: none.
inline std::uint32_t pinned(std::uint64_t word) { return static_cast<std::uint32_t>(word & ((1U << kRegionBits) - 1)); }

struct NoStep {
  void operator()() const {}
};

template <class Step = NoStep>
void pin(PinWord& word, std::uint32_t region, Step&& step = {}) {
  const std::uint64_t count = word.load(std::memory_order_relaxed) >> kRegionBits;
  step();
  word.store((count + 1) << kRegionBits | (region + 1));
}
template <class Step = NoStep>
void unpin(PinWord& word, Step&& step = {}) {
  const std::uint64_t count = word.load(std::memory_order_relaxed) >> kRegionBits;
  step();
  word.store((count + 1) << kRegionBits);
}
template <class Step = NoStep>
bool holds(const PageWord& page, std::uint64_t generation, Step&& step = {}) {
  step();
  return page.generation.load() == generation;
}

// What the owner waits for after it has changed a generation.
class Grace {
 public:
  struct Seen {
    std::uint32_t slot = 0;
    std::uint64_t word = 0;
  };

  // `pin_of(slot)`: the slot's PinWord.
  template <class PinOf, class Step = NoStep>
  static Grace begin(std::uint32_t slots, std::uint32_t region, PinOf&& pin_of, Step&& step = {}) {
    Grace grace;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      step();
      const std::uint64_t word = pin_of(slot).load();
      if (pinned(word) == region + 1) grace.seen_.push_back({slot, word});
    }
    return grace;
  }
  // `ended(slot)`: has the process that holds the slot ended?
  template <class PinOf, class Ended, class Step = NoStep>
  bool over(PinOf&& pin_of, Ended&& ended, Step&& step = {}) {
    std::erase_if(seen_, [&](const Seen& seen) {
      step();
      return pin_of(seen.slot).load() != seen.word || ended(seen.slot);
    });
    return seen_.empty();
  }
  const std::vector<Seen>& seen() const { return seen_; }

 private:
  std::vector<Seen> seen_;
};

}  // namespace weft::transfer
