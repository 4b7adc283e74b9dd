#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "move/transfer/fence.h"

// Numbers of an agent's regions. One that was given back is given out again, the oldest first, once no fresh one is
// left: peers may still ask for the region that had it. Their question names its generation, and no generation of a
// number comes twice: the counts of a later region's pages begin above those of every region that is gone.
namespace weft::transfer {

// A generation's count; the owner's tag stands above it.
inline constexpr std::uint64_t kGenerationCount = (std::uint64_t{1} << 48) - 1;

inline std::uint64_t next_generation(PageWord& page, std::uint64_t tag) {
  const std::uint64_t next = tag << 48 | ((page.generation.load() + 1) & kGenerationCount);
  page.generation.store(next);
  return next;
}

class RegionNumbers {
 public:
  explicit RegionNumbers(std::uint32_t most = kMostRegions) : most_(most) {}

  bool any_left() const { return next_ < most_ || !given_back_.empty(); }
  // Requires: any_left().
  std::uint32_t take() {
    if (next_ < most_) return next_++;
    const std::uint32_t number = given_back_.front();
    given_back_.pop_front();
    return number;
  }
  void give_back(std::uint32_t number) { given_back_.push_back(number); }

  // The page of a region that begins. `floor()` is what the generation of a region without pages of its own is.
  void begin(PageWord& page) const {
    const std::uint64_t now = page.generation.load();
    if ((now & kGenerationCount) < floor_) page.generation.store((now & ~kGenerationCount) | floor_);
  }
  void end(PageWord& page) { floor_ = std::max(floor_, next_generation(page, 0) & kGenerationCount); }
  std::uint64_t floor() const { return floor_; }

 private:
  const std::uint32_t most_;
  std::uint32_t next_ = 0;
  std::deque<std::uint32_t> given_back_;
  std::uint64_t floor_ = 0;
};

}  // namespace weft::transfer
