#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

// Which block of a cache is given up. Blocks are numbers from 0; a policy knows those that are present. All are final
// classes of one shape, so that a replay is compiled for each:
//   touch(block)    the block is used; it becomes present
//   evict(leased)   takes a block out and returns it, never one for which leased(block) holds; kNone: all are leased
namespace weft::kv {

inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// Doubly linked lists of blocks in arrays.
class Lists {
 public:
  Lists(std::uint32_t blocks, std::uint32_t lists) : blocks_(blocks), links_(blocks + lists) {
    for (std::uint32_t l = 0; l < lists; ++l) links_[blocks + l] = {blocks + l, blocks + l};
  }
  void push_front(std::uint32_t list, std::uint32_t block) {
    const std::uint32_t head = blocks_ + list, first = links_[head].next;
    links_[block] = {head, first};
    links_[head].next = block;
    links_[first].previous = block;
  }
  void remove(std::uint32_t block) {
    const Link link = links_[block];
    links_[link.previous].next = link.next;
    links_[link.next].previous = link.previous;
  }
  // kNone: the end.
  std::uint32_t back(std::uint32_t list) const { return shown(links_[blocks_ + list].previous); }
  std::uint32_t before(std::uint32_t block) const { return shown(links_[block].previous); }

 private:
  struct Link {
    std::uint32_t previous = 0, next = 0;
  };
  std::uint32_t shown(std::uint32_t at) const { return at < blocks_ ? at : kNone; }
  std::uint32_t blocks_;
  std::vector<Link> links_;
};

// The least recently used block goes.
class Lru {
 public:
  Lru(std::uint32_t blocks, std::int64_t) : lists_(blocks, 1), present_(blocks) {}
  bool holds(std::uint32_t block) const { return present_[block] != 0; }
  std::int64_t size() const { return size_; }
  void touch(std::uint32_t block) {
    if (holds(block))
      lists_.remove(block);
    else
      ++size_;
    present_[block] = 1;
    lists_.push_front(0, block);
  }
  // Requires: holds(block).
  void remove(std::uint32_t block) {
    lists_.remove(block);
    present_[block] = 0;
    --size_;
  }
  template <class Leased>
  std::uint32_t evict(Leased&& leased) {
    std::uint32_t victim = lists_.back(0);
    while (victim != kNone && leased(victim)) victim = lists_.before(victim);
    if (victim != kNone) remove(victim);
    return victim;
  }

 private:
  Lists lists_;
  std::vector<std::uint8_t> present_;
  std::int64_t size_ = 0;
};

// The least frequently used block goes, of several the least recently used; counts start anew with a block's entry.
class Lfu {
 public:
  static constexpr std::uint32_t kCounts = 64;  // counts above are equal
  Lfu(std::uint32_t blocks, std::int64_t) : lists_(blocks, kCounts), count_(blocks) {}
  bool holds(std::uint32_t block) const { return count_[block] != 0; }
  std::int64_t size() const { return size_; }
  void touch(std::uint32_t block) {
    if (holds(block))
      lists_.remove(block);
    else
      ++size_;
    count_[block] = static_cast<std::uint8_t>(std::min<std::uint32_t>(count_[block] + 1U, kCounts - 1));
    lowest_ = std::min<std::uint32_t>(lowest_, count_[block]);
    lists_.push_front(count_[block], block);
  }
  template <class Leased>
  std::uint32_t evict(Leased&& leased) {
    while (lowest_ < kCounts && lists_.back(lowest_) == kNone) ++lowest_;
    for (std::uint32_t count = lowest_; count < kCounts; ++count)
      for (std::uint32_t victim = lists_.back(count); victim != kNone; victim = lists_.before(victim)) {
        if (leased(victim)) continue;
        lists_.remove(victim);
        count_[victim] = 0;
        --size_;
        return victim;
      }
    return kNone;
  }

 private:
  Lists lists_;
  std::vector<std::uint8_t> count_;
  std::uint32_t lowest_ = kCounts;
  std::int64_t size_ = 0;
};

// Yang and others, "FIFO queues are all you need for cache eviction" (SOSP 2023): a small queue of a tenth for blocks
// that are new, a main queue for those used again, and the names of as many as the cache holds that left the small one
// unused. A block that was used once more moves to the main queue, where the paper asks for twice.
class S3Fifo {
 public:
  S3Fifo(std::uint32_t blocks, std::int64_t capacity)
      : lists_(blocks, 3),
        where_(blocks),
        used_(blocks),
        small_most_(std::max<std::int64_t>(1, capacity / 10)),
        ghosts_most_(std::max<std::int64_t>(1, capacity)) {}
  bool holds(std::uint32_t block) const { return where_[block] == kSmall || where_[block] == kMain; }
  std::int64_t size() const { return counts_[kSmall] + counts_[kMain]; }
  void touch(std::uint32_t block) {
    if (holds(block)) {
      used_[block] = static_cast<std::uint8_t>(std::min(used_[block] + 1, 3));
      return;
    }
    const bool known = where_[block] == kGhost;
    if (known) take(block);
    used_[block] = 0;
    put(known ? kMain : kSmall, block);
  }
  template <class Leased>
  std::uint32_t evict(Leased&& leased) {
    // Blocks move on at most a few times each before one goes; leased ones are passed over where they stand.
    for (std::int64_t left = 5 * size() + 1; left > 0; --left) {
      const bool small = counts_[kSmall] >= small_most_ || counts_[kMain] == 0;
      std::uint32_t block = oldest(small ? kSmall : kMain, leased);
      if (block == kNone) block = oldest(small ? kMain : kSmall, leased);
      if (block == kNone) return kNone;
      const bool was_small = where_[block] == kSmall;
      if (used_[block] > 0) {
        used_[block] = was_small ? std::uint8_t{0} : static_cast<std::uint8_t>(used_[block] - 1);
        take(block);
        put(kMain, block);
        continue;
      }
      take(block);
      if (was_small) {
        put(kGhost, block);
        if (counts_[kGhost] > ghosts_most_) take(lists_.back(kGhost - 1));
      }
      return block;
    }
    return kNone;
  }

 private:
  enum : std::uint8_t { kAbsent, kSmall, kMain, kGhost };
  template <class Leased>
  std::uint32_t oldest(std::uint8_t list, Leased&& leased) const {
    std::uint32_t block = lists_.back(list - 1U);
    while (block != kNone && leased(block)) block = lists_.before(block);
    return block;
  }
  void put(std::uint8_t list, std::uint32_t block) {
    lists_.push_front(list - 1U, block);
    where_[block] = list;
    ++counts_[list];
  }
  void take(std::uint32_t block) {
    lists_.remove(block);
    --counts_[where_[block]];
    where_[block] = kAbsent;
  }
  Lists lists_;
  std::vector<std::uint8_t> where_, used_;
  std::int64_t counts_[4] = {};
  std::int64_t small_most_, ghosts_most_;
};

// Bélády's: the block whose next use is farthest away goes. It knows the future, so no policy has more hits.
class Clairvoyant {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  Clairvoyant(std::uint32_t blocks, std::int64_t) : next_(blocks), present_(blocks) {}
  bool holds(std::uint32_t block) const { return present_[block] != 0; }
  std::int64_t size() const { return size_; }
  void touch(std::uint32_t block, std::uint64_t next_use) {
    size_ += holds(block) ? 0 : 1;
    present_[block] = 1;
    next_[block] = next_use;
    queue_.push({next_use, block});
  }
  template <class Leased>
  std::uint32_t evict(Leased&&) {
    while (!queue_.empty()) {
      const auto [next, block] = queue_.top();
      queue_.pop();
      if (!holds(block) || next_[block] != next) continue;  // it has been used since
      present_[block] = 0;
      --size_;
      return block;
    }
    return kNone;
  }

 private:
  std::vector<std::uint64_t> next_;
  std::vector<std::uint8_t> present_;
  std::priority_queue<std::pair<std::uint64_t, std::uint32_t>> queue_;
  std::int64_t size_ = 0;
};

}  // namespace weft::kv
