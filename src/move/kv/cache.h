#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "move/kv/policy.h"
#include "move/kv/tier.h"
#include "net/link/key.h"
#include "weft/kv.h"

// Blocks of keys and values in pages of a fenced region, found by the tokens that they stand for.
namespace weft::kv {

// The keys of all whole blocks of a prompt: SHA-256 over the key before and the block's tokens; the first follows from
// the tenant's salt. So equal keys mean equal prefixes of one tenant, and no tenant can guess another's.
std::vector<BlockKey> block_keys(std::string_view salt, std::span<const Token> tokens, std::int64_t block_tokens);

struct CacheOptions {
  std::int64_t pages = 0;
  Bytes page_bytes = 0;  // of one block
  std::int64_t block_tokens = 16;
  Policy policy = Policy::kLru;  // not the optimum
  // A second tier in TierOptions::file, which a later cache goes on with; page_bytes are the cache's. Empty: none.
  TierOptions tier = {};
  // Blocks go to the tier when they are committed (through), or when their page is given up and by flush() (back).
  enum class Write : std::uint8_t { kThrough, kBack } write = Write::kThrough;
};

// Thread: one at a time. The agent must outlive the cache.
class Cache {
 public:
  // Errors: sizes, no memory, a policy that needs the future; those of Tier::open.
  static Result<Cache> open(transfer::Agent& agent, const CacheOptions& options);

  // Pages that are read: they are neither evicted nor written until end().
  struct Lease {
    std::vector<transfer::Page> pages;  // of the blocks, in order
    std::int64_t tokens = 0;            // that they stand for
  };
  // The longest prefix that is here; blocks that are only in the file are read into memory, if their checksums are
  // right.
  Lease match(std::span<const BlockKey> keys);
  Lease match(std::string_view salt, std::span<const Token> tokens) {
    return match(block_keys(salt, tokens, options_.block_tokens));
  }
  void end(Lease& lease);

  // Pages that are being written, of the blocks behind the longest prefix that is here.
  struct Writing {
    std::vector<transfer::Page> pages;
    std::int64_t first_block = 0;
    std::vector<BlockKey> keys;
  };
  // Evicts what the policy gives up. Errors: kNoResources: more blocks than pages, or than pages that are not leased,
  // being written or still being copied; nothing has been kept.
  Result<Writing> begin(std::span<const BlockKey> keys);
  Result<Writing> begin(std::string_view salt, std::span<const Token> tokens) {
    return begin(block_keys(salt, tokens, options_.block_tokens));
  }
  // The blocks can be found from here on; returns how many. One that another writer has brought meanwhile is given
  // back.
  std::int64_t commit(Writing& writing);
  // Gives the pages back; a writer that still writes is rejected.
  void abandon(Writing& writing);
  // Written back: brings all blocks that the tier has not into it. Errors: the first one's, after all were tried.
  Status flush();

  const transfer::Registration& region() const { return region_; }
  std::int64_t blocks() const { return static_cast<std::int64_t>(index_.size()); }
  std::int64_t evicted() const { return evicted_; }
  // Of the second tier: blocks read back; blocks that could not be written, or were damaged, and have been dropped.
  std::int64_t reloaded() const { return reloaded_; }
  std::int64_t lost() const { return lost_; }
  // Why the last of them was lost; good: none was.
  const Status& tier_status() const { return tier_status_; }
  const BlockTier* tier() const { return tier_.get(); }

 private:
  using Kept = std::variant<Lru, Lfu, S3Fifo>;
  struct Entry {
    BlockKey key{};
    transfer::Page page;
    std::int32_t leases = 0;
  };
  Cache(transfer::Agent& agent, const CacheOptions& options, transfer::Registration region, Kept kept);
  Result<transfer::Page> page();
  Status has_room(std::int64_t blocks) const;
  void enter(const BlockKey& key, transfer::Page page);
  void write_down(const BlockKey& key, std::uint32_t page);
  bool reload(const BlockKey& key);

  transfer::Agent* agent_;
  CacheOptions options_;
  transfer::Registration region_;
  Kept kept_;                                // of pages, by index
  std::vector<Entry> entries_;               // by page
  std::map<BlockKey, std::uint32_t> index_;  // -> page
  std::unique_ptr<BlockTier> tier_;
  Status tier_status_;
  std::int64_t evicted_ = 0, reloaded_ = 0, lost_ = 0;
};

}  // namespace weft::kv
