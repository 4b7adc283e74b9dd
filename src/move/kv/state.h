#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "base/forks.h"
#include "move/kv/cache.h"

namespace weft::kv::detail {

// The owner of what a Lease or a Writing stands for: it ends them. Thread: any.
class Holder {
 public:
  Holder() = default;
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  virtual ~Holder() = default;
  virtual void end(std::uint64_t lease) = 0;
  virtual Result<std::int64_t> commit(std::uint64_t writing) = 0;
  virtual void abandon(std::uint64_t writing) = 0;

  const Owner owner;
};

// A cache with what is out of it, by number. Its store, its server's thread, and open leases share it. Thread: any.
struct StoreState final : Holder {
  struct Held {
    std::uint64_t id = 0;  // 0: no page was found
    std::vector<transfer::Page> pages;
    std::int64_t first_block = 0;
  };

  Held match(std::span<const BlockKey> keys);
  Result<Held> begin(std::span<const BlockKey> keys);
  void end(std::uint64_t lease) override;
  // Of this process: makes the pages' checksums.
  Result<std::int64_t> commit(std::uint64_t writing) override;
  // Of a peer, which has written the checksums with the pages. Errors: kMismatch: a page has none.
  Result<std::int64_t> commit_written(std::uint64_t writing);
  void abandon(std::uint64_t writing) override;
  void count_expired() {
    const std::lock_guard guard(mutex);
    ++expired;
  }
  Counters counters() const;
  // The metadata of the store's agent and region. Errors: the store has been closed.
  Result<std::string> metadata() const;
  // Everything that is out ends; calls fail from here on.
  void close();

  // Constant from open() on.
  std::int64_t page_bytes = 0, block_tokens = 0, pages = 0;
  transfer::Registration region;

  // By the mutex. Without a cache the store has been closed.
  mutable std::mutex mutex;
  transfer::Agent* agent = nullptr;
  std::optional<Cache> cache;
  bool write_back = false;
  std::map<std::uint64_t, Cache::Lease> leases;
  std::map<std::uint64_t, Cache::Writing> writings;
  std::uint64_t next_id = 1;
  std::int64_t asked = 0, found = 0, committed = 0, expired = 0;
  std::int64_t sealing = 0;  // commits that make checksums without the mutex; close() waits for them
  std::condition_variable sealed;

 private:
  Result<Cache::Writing> take(std::uint64_t writing);
  std::int64_t enter(Cache::Writing& writing);
};

// Whether a method can use its object, a "store" or a "client". Errors (bad input): it was moved from; it is the
// parent's of a forked process.
template <class Pointer>
Status usable(const Pointer& state, const char* what) {
  if (state == nullptr) return bad_input("the {} is empty: it was moved from", what);
  if (state->owner.inherited()) [[unlikely]]
    return bad_input("this process was forked after the {} had been opened: it needs one of its own", what);
  return {};
}

}  // namespace weft::kv::detail
