#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "move/kv/policy.h"
#include "move/transfer/segment.h"
#include "net/link/key.h"
#include "net/link/socket.h"
#include "weft/transfer.h"

// The second tier of a store: blocks in a file, with an index beside it that survives the process.
//
// FILE holds slots of `page_bytes` each, FILE.index a header and a record of 64 bytes per slot. Both have a CRC-32C of
// their own, and a record has its block's. A block is kept in this order, so that a process that is killed between any
// two of these leaves an index whose valid records name whole blocks:
//   1. the record of the block that the slot held becomes free
//   2. the block's bytes                                      (with `sync`: on the disk before the next)
//   3. the record of the new block                            (with `sync`: on the disk before put() returns)
// What a killed machine leaves is found by the checksums: a record that is torn is free, and a block whose bytes have
// another checksum than its record says is dropped when it is read, or at the start with `check`.
namespace weft::kv {

using BlockKey = net::link::Digest;

struct TierOptions {
  std::string file;        // made where it is missing
  std::int64_t slots = 0;  // 0: as many as FILE has now
  Bytes page_bytes = 0;
  std::string layout;  // what pages hold: another layout than the index's is refused
  bool sync = false;
  bool check = false;  // all blocks' checksums at the start
  // Called before each change of the files, with its name: for tests that end the process there.
  std::function<void(const char* change)> before = {};
};

// Where blocks are kept behind the memory. Thread: one at a time.
class BlockTier {
 public:
  BlockTier() = default;
  BlockTier(BlockTier&&) = default;
  BlockTier& operator=(BlockTier&&) = default;
  virtual ~BlockTier() = default;

  virtual bool holds(const BlockKey& key) const = 0;
  // Writes the page of memory; gives up another block if it must. Does nothing if the block is there. Errors: the block
  // is not kept, all others are.
  virtual Status put(const BlockKey& key, const transfer::Registration& memory, std::uint32_t page) = 0;
  // Reads the block into a page of memory. Errors: kMismatch: its bytes are not those that were written: it has been
  // dropped; what the medium says. Requires: holds(key).
  virtual Status get(const BlockKey& key, const transfer::Registration& memory, std::uint32_t page) = 0;
  virtual std::int64_t blocks() const = 0;
  // Blocks that were found at the start, and blocks or records that were damaged and have been dropped.
  virtual std::int64_t recovered() const = 0;
  virtual std::int64_t damaged() const = 0;
};

// In a file. The agent must outlive it.
class Tier final : public BlockTier {
 public:
  // Reads the index. Errors (bad input, each naming the file): it belongs to another tier, is no index, or is in use by
  // another process; no room for the slots on the disk.
  static Result<Tier> open(transfer::Agent& agent, const TierOptions& options);

  bool holds(const BlockKey& key) const override { return index_.count(key) != 0; }
  // Errors: kNoResources on a full disk, kSystem.
  Status put(const BlockKey& key, const transfer::Registration& memory, std::uint32_t page) override;
  Status get(const BlockKey& key, const transfer::Registration& memory, std::uint32_t page) override;

  std::int64_t blocks() const override { return static_cast<std::int64_t>(index_.size()); }
  std::int64_t slots() const { return static_cast<std::int64_t>(records_.size()); }
  std::int64_t recovered() const override { return recovered_; }
  std::int64_t damaged() const override { return damaged_; }

 private:
  struct Record {
    BlockKey key{};
    std::uint64_t sequence = 0;  // of its last use that was written: the order after a restart
    std::uint32_t checksum = 0;  // of the block
    std::uint32_t valid = 0;
    std::uint32_t unused[3] = {};
    std::uint32_t crc = 0;  // of all before
  };
  static_assert(sizeof(Record) == 64);
  struct Header;

  Tier(transfer::Agent& agent, TierOptions options) : agent_(&agent), options_(std::move(options)) {}
  Status open_index();
  Status read_records();
  Status check_contents();
  void change(const char* what) const {
    if (options_.before) options_.before(what);
  }
  Status write_record(std::uint32_t slot);
  Status drop(std::uint32_t slot);
  Status move(transfer::Op op, const transfer::Registration& memory, std::uint32_t page, std::uint32_t slot);
  Status sync(int fd, const std::string& file) const;

  transfer::Agent* agent_;
  TierOptions options_;
  bool slots_of_file_ = false;  // options_.slots is what the file has room for
  UniqueFd index_fd_, data_fd_;
  transfer::Registration data_;
  std::vector<Record> records_;
  std::map<BlockKey, std::uint32_t> index_;
  std::vector<std::uint32_t> free_;
  std::optional<Lru> kept_;
  std::uint64_t sequence_ = 0;
  std::int64_t recovered_ = 0, damaged_ = 0;
};

}  // namespace weft::kv
