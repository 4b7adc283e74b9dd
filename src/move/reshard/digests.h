#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "weft/transfer.h"

// What a sender's memory holds, block by block, so that receivers find out what has changed since they read it.
namespace weft::reshard {

// Of a block. Two blocks that differ have equal digests with a chance of 2^-64 or less, unless somebody chose them so.
struct Digest {
  std::uint64_t first = 0, second = 0;
  bool operator==(const Digest&) const = default;
};
Digest digest_of(std::span<const std::byte> block);

// The beginning of a table; the digests stand behind it.
struct TableHeader {
  std::uint64_t version = 0;  // 0: the memory is being written
  std::int64_t memory_bytes = 0, block_bytes = 0;
};
struct Table {
  TableHeader header;
  std::vector<Digest> blocks;
};

// A sender's side: a table of its memory in a region of its own. In place: receivers must not read while the memory
// changes, and those that do find out. Thread: one at a time. The agent must outlive it.
class Publisher {
 public:
  static constexpr std::int64_t kUsualBlock = 16 << 10;
  // Errors (bad input): a block of fewer than 64 B; kNoResources.
  static Result<Publisher> open(transfer::Agent& agent, transfer::Registration memory,
                                std::int64_t block_bytes = kUsualBlock);
  // From here on the memory may be written: a receiver that has begun to read it gets an error.
  void begin();
  // The memory is version `version` until begin(). Reads all of it. Errors (bad input): not above those that were
  // published: a receiver that has a version would not read what has another content by the same number.
  Status publish(std::int64_t version);
  const transfer::Registration& table() const { return table_; }

 private:
  transfer::Registration memory_, table_;
  std::int64_t block_bytes_ = 0, published_ = 0;
};

std::int64_t table_bytes(std::int64_t memory_bytes, std::int64_t block_bytes);

}  // namespace weft::reshard
