#include "move/reshard/digests.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace weft::reshard {
namespace {

__extension__ using Wide = unsigned __int128;

// Odd numbers without a pattern: the fractions of the square roots of 2, 3, 5 and 7.
constexpr std::uint64_t kKeys[4] = {0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1};

struct Lane {
  std::uint64_t low = 0, high = 0;
  void take(std::uint64_t a, std::uint64_t b, std::uint64_t key) {
    const Wide product = static_cast<Wide>(a ^ key) * (b ^ std::rotl(key, 23) ^ low);
    low = (std::rotl(low, 29) + static_cast<std::uint64_t>(product)) ^ b;
    high = (std::rotl(high, 37) ^ static_cast<std::uint64_t>(product >> 64)) + a;
  }
};

std::int64_t blocks_of(std::int64_t memory_bytes, std::int64_t block_bytes) {
  return (memory_bytes + block_bytes - 1) / block_bytes;
}

}  // namespace

Digest digest_of(std::span<const std::byte> block) {
  Lane lanes[4];
  const std::byte* at = block.data();
  std::size_t left = block.size();
  const auto take = [&](const std::byte* from) {
    std::uint64_t words[8];
    std::memcpy(words, from, sizeof words);
    for (int i = 0; i < 4; ++i) lanes[i].take(words[2 * i], words[2 * i + 1], kKeys[i]);
  };
  for (; left >= 64; left -= 64, at += 64) take(at);
  if (left > 0) {
    std::byte tail[64] = {};
    std::memcpy(tail, at, left);
    take(tail);
  }
  Lane all;
  all.take(block.size(), kKeys[3], kKeys[0]);
  for (int i = 0; i < 4; ++i) {
    all.take(lanes[i].low, lanes[i].high, kKeys[i]);
    all.take(lanes[i].high, lanes[i].low, kKeys[3 - i]);
  }
  return {all.low, all.high};
}

std::int64_t table_bytes(std::int64_t memory_bytes, std::int64_t block_bytes) {
  return static_cast<std::int64_t>(sizeof(TableHeader)) +
         blocks_of(memory_bytes, block_bytes) * static_cast<std::int64_t>(sizeof(Digest));
}

Result<Publisher> Publisher::open(transfer::Agent& agent, transfer::Registration memory, std::int64_t block_bytes) {
  if (block_bytes < 64) return bad_input("blocks of {} B: at least 64", block_bytes);
  if (memory.data == nullptr) return bad_input("region {} is no memory of the host", memory.region);
  Publisher p;
  p.memory_ = memory;
  p.block_bytes_ = block_bytes;
  WEFT_TRY(p.table_, agent.allocate(table_bytes(memory.bytes, block_bytes)));
  const TableHeader header{.memory_bytes = memory.bytes, .block_bytes = block_bytes};
  std::memcpy(p.table_.data, &header, sizeof header);
  return p;
}

void Publisher::begin() {
  auto* const header = reinterpret_cast<TableHeader*>(table_.data);
  std::atomic_ref(header->version).store(0, std::memory_order_seq_cst);
}

Status Publisher::publish(std::int64_t version) {
  if (version <= published_) return bad_input("version {}: {} or more", version, published_ + 1);
  published_ = version;
  auto* const header = reinterpret_cast<TableHeader*>(table_.data);
  auto* const digests = reinterpret_cast<Digest*>(table_.data + sizeof(TableHeader));
  for (std::int64_t at = 0, i = 0; at < memory_.bytes; at += block_bytes_, ++i)
    digests[i] = digest_of({memory_.data + at, static_cast<std::size_t>(std::min(block_bytes_, memory_.bytes - at))});
  std::atomic_ref(header->version).store(static_cast<std::uint64_t>(version), std::memory_order_release);
  return {};
}

}  // namespace weft::reshard
