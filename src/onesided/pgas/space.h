#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "onesided/pgas/agent.h"
#include "onesided/pgas/recorder.h"

namespace weft::pgas {

// Bytes of `count` elements; the largest Bytes where the product exceeds it, which no memory holds, so that the check
// of the address refuses it.
constexpr std::size_t bytes_of(std::size_t count, std::size_t element) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<Bytes>::max());
  std::size_t product = 0;
  return __builtin_mul_overflow(count, element, &product) || product > kMost ? kMost : product;
}

// Memory that every rank has, with the same things at the same offsets: the symmetric heap, or the program's data.
struct Region {
  std::byte* own = nullptr;  // where this rank's program knows it
  Bytes bytes = 0;           // equal on all ranks
  // Every rank's, where this rank loads and stores it, the own one included; null: only an Agent reaches it.
  std::vector<std::byte*> mapped;
  bool holds(const void* address, Bytes length) const {
    const auto offset = static_cast<std::uintptr_t>(static_cast<const std::byte*>(address) - own);
    const auto size = static_cast<std::uintptr_t>(bytes);
    return offset <= size && static_cast<std::uintptr_t>(length) <= size - offset;
  }
  // Null: not mapped.
  std::byte* at(const void* address, Rank rank) const {
    std::byte* const base = mapped[static_cast<std::size_t>(rank)];
    return base == nullptr ? nullptr : base + (static_cast<const std::byte*>(address) - own);
  }
};

// What a rank can address: symmetric memory of all ranks. A value.
// Misuse ends the process with one line that names call, rank and address: a wrong address written through would be
// silent corruption of another rank.
class Space {
 public:
  Space() = default;
  Space(Rank rank, Rank ranks) : rank_(rank), ranks_(ranks) {}

  void add(Region region) { regions_.push_back(std::move(region)); }
  // For peers that are not mapped; needed if there are any.
  void set_agent(std::shared_ptr<Agent> agent) { agent_ = std::move(agent); }
  Agent* agent() const { return agent_.get(); }
  // Null: nothing is recorded.
  void set_recorder(std::shared_ptr<Recorder> recorder) { recorder_ = std::move(recorder); }
  Recorder* recorder() const { return recorder_.get(); }
  Rank rank() const { return rank_; }
  Rank ranks() const { return ranks_; }

  bool symmetric(const void* address, Bytes length) const { return find(address, length) != nullptr; }

  // The address of the symmetric object at `address` at `rank`; null: not mapped here.
  // Requires: `rank` exists, [address, address + length) is symmetric; else the process ends.
  std::byte* at(const char* call, const void* address, Bytes length, Rank rank) const {
    expect_rank(call, rank);
    const Region* region = find(address, length);
    if (region == nullptr) [[unlikely]]
      not_symmetric(call, address, length, rank);
    return region->at(address, rank);
  }

  // Ends the process where there is no such rank: of operations without bytes, which have no address to look at.
  void expect_rank(const char* call, Rank rank) const {
    if (rank < 0 || rank >= ranks_) [[unlikely]]
      no_such_rank(call, rank);
  }

  // Requires: `address` is symmetric.
  Place place(const void* address) const {
    const Region* const region = find(address, 0);
    return {static_cast<std::int32_t>(region - regions_.data()), static_cast<const std::byte*>(address) - region->own};
  }
  // This rank's memory at a place; null: there is no such place.
  std::byte* own(Place place, Bytes length) const {
    if (place.region < 0 || static_cast<std::size_t>(place.region) >= regions_.size()) return nullptr;
    const Region& region = regions_[static_cast<std::size_t>(place.region)];
    if (place.offset < 0 || length < 0 || place.offset > region.bytes || length > region.bytes - place.offset)
      return nullptr;
    return region.at(region.own + place.offset, rank_);
  }
  // The same bytes under the address by which peers share them; other addresses stay as they are.
  void* shared(const void* address) const {
    const Region* region = find(address, 0);
    return region == nullptr ? const_cast<void*>(address) : region->at(address, rank_);
  }

  // A line on stderr, then the end of this process; peers that wait for it notice.
  [[noreturn]] void misuse(const char* call, const std::string& what) const;
  [[noreturn]] void no_such_rank(const char* call, Rank rank) const;
  [[noreturn]] void not_symmetric(const char* call, const void* address, Bytes length, Rank rank) const;

 private:
  const Region* find(const void* address, Bytes length) const {
    for (const Region& region : regions_)
      if (region.holds(address, length)) return &region;
    return nullptr;
  }

  Rank rank_ = 0, ranks_ = 1;
  std::vector<Region> regions_;
  std::shared_ptr<Agent> agent_;
  std::shared_ptr<Recorder> recorder_;
};

}  // namespace weft::pgas
