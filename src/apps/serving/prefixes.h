#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "move/kv/policy.h"
#include "weft/kv.h"

namespace weft::serving {

// Blocks of the prompts of a trace; equal numbers are equal prefixes, see kv::Trace.
struct Prefixes {
  std::vector<std::uint32_t> blocks;
  std::uint32_t distinct = 0;
  std::int64_t block_tokens = 16;
};

// The blocks of prompts that an engine keeps after their requests, by the policies of weft's own KV store. Blocks of
// running requests are leased: they stay. A value, but for `prefixes`, which must outlive it.
class PrefixCache {
 public:
  // Requires: a policy that does not know the future. `tokens`: that the engine's cache holds.
  PrefixCache(const Prefixes& prefixes, kv::Policy policy, double tokens);

  // Blocks from `from` on that are here without a gap.
  std::uint32_t known(std::span<const std::uint32_t> blocks, std::uint32_t from = 0) const;
  // Leases the longest prefix that is here; its blocks.
  std::uint32_t begin(std::span<const std::uint32_t> blocks);
  // The whole prompt is computed: its blocks can be found from here on, the last one used first, and those behind
  // `leased` are leased, too.
  void computed(std::span<const std::uint32_t> blocks, std::uint32_t leased);
  void end(std::span<const std::uint32_t> blocks);
  // Gives up what has no room beside `others` tokens.
  void trim(double others);

  double leased() const { return static_cast<double>(leased_ * prefixes_->block_tokens); }  // tokens
  std::int64_t block_tokens() const { return prefixes_->block_tokens; }
  std::span<const std::uint32_t> of(std::uint64_t first, std::uint32_t count) const {
    return std::span(prefixes_->blocks).subspan(first, count);
  }

 private:
  void lease(std::uint32_t block) { leased_ += leases_[block]++ == 0 ? 1 : 0; }

  const Prefixes* prefixes_;
  std::variant<kv::Lru, kv::Lfu, kv::S3Fifo> kept_;
  std::vector<std::uint32_t> leases_;
  std::int64_t leased_ = 0;  // blocks
  double tokens_;
};

}  // namespace weft::serving
