#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

namespace weft::training {

// The sizes that c10/cuda/CUDACachingAllocator.cpp of PyTorch 1.13 to 2.9 rounds and splits by, in bytes.
inline constexpr std::int64_t kMinBlock = 512;            // sizes of blocks are multiples of it
inline constexpr std::int64_t kSmallSize = 1 << 20;       // the largest request of the small pool
inline constexpr std::int64_t kSmallBuffer = 2 << 20;     // a segment, or page, of the small pool
inline constexpr std::int64_t kLargeBuffer = 20 << 20;    // a segment of requests below kMinLargeAlloc; a large page
inline constexpr std::int64_t kMinLargeAlloc = 10 << 20;  // from here on a request has a segment of its own …
inline constexpr std::int64_t kRoundLarge = 2 << 20;      // … rounded up to this

// Settings of PYTORCH_CUDA_ALLOC_CONF, and what the device lends. A value.
struct AllocatorSettings {
  bool expandable = false;                                            // expandable_segments:True
  std::int64_t max_split = std::numeric_limits<std::int64_t>::max();  // bytes of max_split_size_mb
  std::int64_t capacity = std::int64_t{1} << 50;                      // bytes that segments may take together
};

// PyTorch's caching allocator without the memory: which block serves a request, what is split and merged, and when the
// device is asked for a segment. Requests up to 1 MiB and larger ones have pools of their own; a free block serves its
// own stream alone. Garbage collection and roundup_power2_divisions are off, as they are by default.
class CachingAllocator {
 public:
  using Handle = std::int32_t;

  struct Segment {
    std::int64_t bytes = 0, allocated = 0;
    bool small = false, expandable = false;
    int stream = 0;
  };

  explicit CachingAllocator(const AllocatorSettings& settings = {}) : settings_(settings) {}

  // Empty: out of memory, after all cached segments that are free as a whole were given back to the device.
  // Requires: bytes > 0.
  std::optional<Handle> allocate(std::int64_t bytes, int stream = 0);
  // Requires: a handle that allocate returned and that was not freed since.
  void free(Handle handle);
  // torch.cuda.empty_cache: gives free segments and free pages back.
  void release_cached();

  // Bytes that callers asked for, of their blocks, and of all segments; and the highest that these were.
  std::int64_t requested() const { return requested_; }
  std::int64_t allocated() const { return allocated_; }
  std::int64_t reserved() const { return reserved_; }
  std::int64_t peak_requested() const { return peak_requested_; }
  std::int64_t peak_allocated() const { return peak_allocated_; }
  std::int64_t peak_reserved() const { return peak_reserved_; }
  std::int64_t retries() const { return retries_; }  // requests that the device refused at first
  void reset_peaks();                                // to what they are now

  // By address. A segment that can expand is one per range of mapped pages.
  std::vector<Segment> segments() const;

 private:
  struct Block {
    std::int64_t address = 0, size = 0, requested = 0;
    int stream = 0;
    Handle previous = -1, next = -1;  // neighbours of the same segment
    bool small = false, allocated = false, mapped = true, expandable = false, used = false;
  };
  struct Key {
    int stream;
    std::int64_t size, address;
    Handle handle;
    auto operator<=>(const Key&) const = default;
  };
  // In order. There are few at a time, so that a vector is faster than a tree.
  class Keys {
   public:
    using Iterator = std::vector<Key>::const_iterator;
    Iterator begin() const { return keys_.begin(); }
    Iterator end() const { return keys_.end(); }
    Iterator lower_bound(const Key& key) const { return std::lower_bound(keys_.begin(), keys_.end(), key); }
    void insert(const Key& key) { keys_.insert(lower_bound(key), key); }
    void erase(const Key& key) { keys_.erase(lower_bound(key)); }
    void erase(Iterator at) { keys_.erase(at); }

   private:
    std::vector<Key> keys_;
  };
  struct Pool {
    Keys free;      // by stream, size, address
    Keys unmapped;  // by stream, address (size 0)
  };

  Block& at(Handle h) { return blocks_[static_cast<std::size_t>(h)]; }
  const Block& at(Handle h) const { return blocks_[static_cast<std::size_t>(h)]; }
  Pool& pool(bool small) { return pools_[small ? 1 : 0]; }
  Key key(Handle h) const { return {at(h).stream, at(h).mapped ? at(h).size : 0, at(h).address, h}; }
  Keys& set_of(Handle h) { return at(h).mapped ? pool(at(h).small).free : pool(at(h).small).unmapped; }

  Handle made(const Block& block);
  void forget(Handle h);
  std::optional<Handle> cached(bool small, std::int64_t size, int stream);
  std::optional<Handle> from_device(bool small, std::int64_t size, int stream);
  std::optional<Handle> expanded(bool small, std::int64_t size, int stream);
  Handle expandable_block(bool small, std::int64_t size, int stream);
  std::optional<Handle> mapped(Handle h, std::int64_t size);
  void unmap(Handle h);
  void split(Handle h, std::int64_t size);
  void merge(Handle into, Handle other);
  bool available(Handle h) const { return h >= 0 && !at(h).allocated; }
  std::int64_t expandable_size(Handle h) const;
  void reserve(std::int64_t bytes);

  AllocatorSettings settings_;
  std::deque<Block> blocks_;
  std::vector<Handle> spare_;  // entries of blocks_ that are not used
  Pool pools_[2];
  std::int64_t next_address_ = 0;
  std::int64_t requested_ = 0, allocated_ = 0, reserved_ = 0;
  std::int64_t peak_requested_ = 0, peak_allocated_ = 0, peak_reserved_ = 0, retries_ = 0;
};

}  // namespace weft::training
