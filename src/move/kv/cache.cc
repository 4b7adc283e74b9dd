#include "move/kv/cache.h"

#include <algorithm>
#include <cstring>

#include "move/kv/object_tier.h"

namespace weft::kv {
namespace {

constexpr std::uint16_t kOwner = 1;  // of all pages of a store
constexpr std::int64_t kMostPages = 1 << 20;
constexpr Bytes kMostPageBytes = Bytes{1} << 40;

}  // namespace

std::vector<BlockKey> block_keys(std::string_view salt, std::span<const Token> tokens, std::int64_t block_tokens) {
  std::vector<BlockKey> keys;
  BlockKey before = net::link::sha256("weft kv tenant: " + std::string(salt));
  const auto size = static_cast<std::size_t>(block_tokens);
  std::string text;
  for (std::size_t at = 0; at + size <= tokens.size(); at += size) {
    text.assign(reinterpret_cast<const char*>(before.data()), before.size());
    text.append(reinterpret_cast<const char*>(tokens.data() + at), size * sizeof(Token));
    before = net::link::sha256(text);
    keys.push_back(before);
  }
  return keys;
}

Result<Cache> Cache::open(transfer::Agent& agent, const CacheOptions& options) {
  for (const auto& [what, value, most] : {std::tuple{"pages", options.pages, kMostPages},
                                          {"page_bytes", options.page_bytes, kMostPageBytes},
                                          {"block_tokens", options.block_tokens, kMostPages}})
    if (value < 1 || value > most) return bad_input("a store: {} {}: 1 to {}", what, value, most);
  if (options.policy > Policy::kClairvoyant)
    return bad_input("policy {} is none: there are 0 to {}", static_cast<int>(options.policy),
                     static_cast<int>(Policy::kS3Fifo));
  if (options.policy == Policy::kClairvoyant)
    return bad_input("the optimum needs the future; a store has lru, lfu and s3fifo");
  WEFT_TRY(const auto region, agent.allocate(options.pages * options.page_bytes, options.page_bytes));
  const auto pages = static_cast<std::uint32_t>(options.pages);
  Kept kept = Lru(pages, options.pages);
  if (options.policy == Policy::kLfu) kept = Lfu(pages, options.pages);
  if (options.policy == Policy::kS3Fifo) kept = S3Fifo(pages, options.pages);
  Cache cache(agent, options, region, std::move(kept));
  if (options.tier.file.empty()) return cache;
  TierOptions below = options.tier;
  below.page_bytes = options.page_bytes;
  auto opened = [&]() -> Result<std::unique_ptr<BlockTier>> {
    if (below.file.starts_with("s3://")) return ObjectTier::open(below);
    WEFT_TRY(auto file, Tier::open(agent, below));
    return std::unique_ptr<BlockTier>(std::make_unique<Tier>(std::move(file)));
  }();
  if (!opened) {
    (void)agent.deregister(region);
    return tl::make_unexpected(std::move(opened).error());
  }
  cache.tier_ = std::move(*opened);
  return cache;
}

Cache::Cache(transfer::Agent& agent, const CacheOptions& options, transfer::Registration region, Kept kept)
    : agent_(&agent),
      options_(options),
      region_(region),
      kept_(std::move(kept)),
      entries_(static_cast<std::size_t>(options.pages)) {}

Cache::Lease Cache::match(std::span<const BlockKey> keys) {
  Lease lease;
  for (const BlockKey& key : keys) {
    auto found = index_.find(key);
    if (found == index_.end() && reload(key)) found = index_.find(key);
    if (found == index_.end()) break;
    Entry& entry = entries_[found->second];
    ++entry.leases;
    lease.pages.push_back(entry.page);
  }
  for (std::size_t i = lease.pages.size(); i-- > 0;)  // the last first: a prefix outlives what follows it
    std::visit([&](auto& kept) { kept.touch(lease.pages[i].index); }, kept_);
  lease.tokens = static_cast<std::int64_t>(lease.pages.size()) * options_.block_tokens;
  return lease;
}

void Cache::end(Lease& lease) {
  for (const transfer::Page& page : lease.pages) --entries_[page.index].leases;
  lease = {};
}

Result<transfer::Page> Cache::page() {
  auto page = agent_->acquire(region_, kOwner);
  if (page || page.error().code != Code::kNoResources) return page;
  const auto leased = [this](std::uint32_t i) { return entries_[i].leases > 0; };
  const std::uint32_t victim = std::visit([&](auto& kept) { return kept.evict(leased); }, kept_);
  if (victim == kNone)
    return failure(Code::kNoResources, Blame::kOperation, "every page of {} is being read or written", options_.pages);
  if (options_.write == CacheOptions::Write::kBack) write_down(entries_[victim].key, victim);
  index_.erase(entries_[victim].key);
  ++evicted_;
  WEFT_CHECK(agent_->release(region_, entries_[victim].page));
  return agent_->acquire(region_, kOwner);
}

// Nothing is evicted for blocks that would find no place all the same.
Status Cache::has_room(std::int64_t blocks) const {
  const std::int64_t free = agent_->free_pages(region_);
  const auto kept = std::count_if(index_.begin(), index_.end(),
                                  [this](const auto& entry) { return entries_[entry.second].leases == 0; });
  if (blocks <= free + kept) return {};
  if (free + kept == 0)
    return failure(Code::kNoResources, Blame::kOperation, "every page of {} is being read or written", options_.pages);
  return failure(Code::kNoResources, Blame::kOperation,
                 "the prompt needs {} more pages, of which {} can be had: the others of {} are being read or written",
                 blocks, free + kept, options_.pages);
}

Result<Cache::Writing> Cache::begin(std::span<const BlockKey> keys) {
  // All blocks of a prompt stand in memory at once: its prefix is leased, the others are written.
  if (static_cast<std::int64_t>(keys.size()) > options_.pages)
    return failure(Code::kNoResources, Blame::kInput, "the prompt needs {} blocks, the store has {} pages", keys.size(),
                   options_.pages);
  Lease prefix = match(keys);  // must not be evicted for its own continuation
  Writing writing;
  writing.first_block = static_cast<std::int64_t>(prefix.pages.size());
  Status good = has_room(static_cast<std::int64_t>(keys.size() - prefix.pages.size()));
  for (std::size_t i = prefix.pages.size(); i < keys.size() && good; ++i) {
    const auto taken = page();
    if (!taken) {
      good = tl::make_unexpected(taken.error());
    } else {
      writing.pages.push_back(*taken);
      writing.keys.push_back(keys[i]);
    }
  }
  end(prefix);
  if (good) return writing;
  abandon(writing);
  return tl::make_unexpected(good.error());
}

void Cache::enter(const BlockKey& key, transfer::Page page) {
  index_[key] = page.index;
  entries_[page.index] = {key, page, 0};
  std::visit([&](auto& kept) { kept.touch(page.index); }, kept_);
}

// A block that the file cannot take is lost to it alone.
void Cache::write_down(const BlockKey& key, std::uint32_t page) {
  if (!tier_) return;
  const Status written = tier_->put(key, region_, page);
  if (written) return;
  ++lost_;
  tier_status_ = written;
}

// From the file into memory. False: it is not there, damaged, or no page is free.
bool Cache::reload(const BlockKey& key) {
  if (!tier_ || !tier_->holds(key)) return false;
  const auto taken = page();
  if (!taken) return false;
  // Another block was written back for this page: it may have taken the place of this one.
  if (!tier_->holds(key)) {
    (void)agent_->release(region_, *taken);
    return false;
  }
  Status read = tier_->get(key, region_, taken->index);
  if (read) read = agent_->seal(region_, *taken);
  if (!read) {
    (void)agent_->release(region_, *taken);
    ++lost_;
    tier_status_ = read;
    return false;
  }
  enter(key, *taken);
  ++reloaded_;
  return true;
}

Status Cache::flush() {
  Status first;
  for (const auto& [key, page] : index_) {
    if (!tier_ || tier_->holds(key)) continue;
    write_down(key, page);
    if (!tier_->holds(key) && first) first = tier_status_;
  }
  return first;
}

std::int64_t Cache::commit(Writing& writing) {
  std::int64_t entered = 0;
  for (std::size_t i = writing.pages.size(); i-- > 0;) {
    const transfer::Page page = writing.pages[i];
    if (index_.count(writing.keys[i]) != 0) {
      (void)agent_->release(region_, page);
      continue;
    }
    enter(writing.keys[i], page);
    ++entered;
    if (options_.write == CacheOptions::Write::kThrough) write_down(writing.keys[i], page.index);
  }
  writing = {};
  return entered;
}

void Cache::abandon(Writing& writing) {
  for (const transfer::Page& page : writing.pages) (void)agent_->release(region_, page);
  writing = {};
}

}  // namespace weft::kv
