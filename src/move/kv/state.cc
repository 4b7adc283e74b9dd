#include "move/kv/state.h"

namespace weft::kv::detail {
namespace {

tl::unexpected<Error> closed() { return failure(Code::kPeerLeft, Blame::kOperation, "the store has been closed"); }

}  // namespace

StoreState::Held StoreState::match(std::span<const BlockKey> keys) {
  const std::lock_guard guard(mutex);
  if (!cache) return {};
  Cache::Lease lease = cache->match(keys);
  asked += static_cast<std::int64_t>(keys.size());
  found += static_cast<std::int64_t>(lease.pages.size());
  if (lease.pages.empty()) return {};
  Held held{.id = next_id++, .pages = lease.pages};
  leases.emplace(held.id, std::move(lease));
  return held;
}

Result<StoreState::Held> StoreState::begin(std::span<const BlockKey> keys) {
  const std::lock_guard guard(mutex);
  if (!cache) return closed();
  WEFT_TRY(Cache::Writing writing, cache->begin(keys));
  Held held{.id = next_id++, .pages = writing.pages, .first_block = writing.first_block};
  writings.emplace(held.id, std::move(writing));
  return held;
}

void StoreState::end(std::uint64_t lease) {
  const std::lock_guard guard(mutex);
  const auto found_lease = leases.find(lease);
  if (found_lease == leases.end()) return;
  cache->end(found_lease->second);
  leases.erase(found_lease);
}

// From here on the writing is its caller's alone. Requires: the mutex, as of enter().
Result<Cache::Writing> StoreState::take(std::uint64_t writing) {
  if (!cache) return closed();
  const auto known = writings.find(writing);
  if (known == writings.end()) return bad_input("this writing has ended");
  Cache::Writing taken = std::move(known->second);
  writings.erase(known);
  return taken;
}

std::int64_t StoreState::enter(Cache::Writing& writing) {
  const std::int64_t entered = cache->commit(writing);
  committed += entered;
  return entered;
}

Result<std::int64_t> StoreState::commit(std::uint64_t writing) {
  std::unique_lock lock(mutex);
  WEFT_TRY(Cache::Writing taken, take(writing));
  ++sealing;
  lock.unlock();
  Status good;
  for (std::size_t i = 0; i < taken.pages.size() && good; ++i) good = agent->seal(region, taken.pages[i]);
  lock.lock();
  --sealing;
  sealed.notify_all();
  if (good) return enter(taken);
  cache->abandon(taken);
  return tl::make_unexpected(good.error());
}

Result<std::int64_t> StoreState::commit_written(std::uint64_t writing) {
  const std::lock_guard guard(mutex);
  WEFT_TRY(Cache::Writing taken, take(writing));
  for (std::size_t i = 0; i < taken.pages.size(); ++i) {
    if (agent->sealed(region, taken.pages[i])) continue;
    const std::int64_t block = taken.first_block + static_cast<std::int64_t>(i);
    cache->abandon(taken);
    return failure(Code::kMismatch, Blame::kOperation, "block {} was not written whole with its checksum", block);
  }
  return enter(taken);
}

void StoreState::abandon(std::uint64_t writing) {
  const std::lock_guard guard(mutex);
  const auto known = writings.find(writing);
  if (known == writings.end()) return;
  cache->abandon(known->second);
  writings.erase(known);
}

Counters StoreState::counters() const {
  const std::lock_guard guard(mutex);
  Counters c{.pages = pages,
             .leases = static_cast<std::int64_t>(leases.size()),
             .writings = static_cast<std::int64_t>(writings.size()),
             .asked = asked,
             .found = found,
             .committed = committed,
             .expired = expired};
  if (!cache) return c;
  c.blocks = cache->blocks();
  c.evicted = cache->evicted();
  c.reloaded = cache->reloaded();
  c.lost = cache->lost();
  if (const BlockTier* const tier = cache->tier(); tier != nullptr) {
    c.tier_blocks = tier->blocks();
    c.recovered = tier->recovered();
    c.damaged = tier->damaged();
  }
  return c;
}

Result<std::string> StoreState::metadata() const {
  const std::lock_guard guard(mutex);
  if (!cache) return closed();
  return agent->metadata(std::span<const transfer::Registration>(&region, 1));
}

void StoreState::close() {
  std::unique_lock lock(mutex);
  sealed.wait(lock, [this] { return sealing == 0; });
  if (!cache) return;
  if (write_back) (void)cache->flush();
  leases.clear();
  writings.clear();
  cache.reset();
  (void)agent->deregister(region);
}

}  // namespace weft::kv::detail
