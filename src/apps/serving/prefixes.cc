#include "apps/serving/prefixes.h"

#include <algorithm>
#include <cmath>

namespace weft::serving {
namespace {

std::variant<kv::Lru, kv::Lfu, kv::S3Fifo> kept_by(kv::Policy policy, std::uint32_t blocks, std::int64_t capacity) {
  if (policy == kv::Policy::kLfu) return kv::Lfu(blocks, capacity);
  if (policy == kv::Policy::kS3Fifo) return kv::S3Fifo(blocks, capacity);
  return kv::Lru(blocks, capacity);
}

}  // namespace

PrefixCache::PrefixCache(const Prefixes& prefixes, kv::Policy policy, double tokens)
    : prefixes_(&prefixes),
      kept_(kept_by(policy, prefixes.distinct,
                    static_cast<std::int64_t>(std::min(tokens / static_cast<double>(prefixes.block_tokens), 4e9)))),
      leases_(prefixes.distinct),
      tokens_(tokens) {}

std::uint32_t PrefixCache::known(std::span<const std::uint32_t> blocks, std::uint32_t from) const {
  std::uint32_t end = from;
  std::visit(
      [&](const auto& kept) {
        while (end < blocks.size() && kept.holds(blocks[end])) ++end;
      },
      kept_);
  return end - from;
}

std::uint32_t PrefixCache::begin(std::span<const std::uint32_t> blocks) {
  const std::uint32_t found = known(blocks);
  for (std::uint32_t i = 0; i < found; ++i) lease(blocks[i]);
  return found;
}

void PrefixCache::computed(std::span<const std::uint32_t> blocks, std::uint32_t leased) {
  std::visit(
      [&](auto& kept) {
        for (std::size_t i = blocks.size(); i-- > 0;) kept.touch(blocks[i]);
      },
      kept_);
  for (std::size_t i = leased; i < blocks.size(); ++i) lease(blocks[i]);
}

void PrefixCache::end(std::span<const std::uint32_t> blocks) {
  for (const std::uint32_t block : blocks) leased_ -= --leases_[block] == 0 ? 1 : 0;
}

void PrefixCache::trim(double others) {
  const auto room = static_cast<std::int64_t>(
      std::floor(std::max(0.0, tokens_ - others) / static_cast<double>(prefixes_->block_tokens)));
  std::visit(
      [&](auto& kept) {
        while (kept.size() > room)
          if (kept.evict([&](std::uint32_t block) { return leases_[block] > 0; }) == kv::kNone) return;
      },
      kept_);
}

}  // namespace weft::serving
