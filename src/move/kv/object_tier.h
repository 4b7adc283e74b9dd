#pragma once

#include <map>
#include <memory>

#include "move/kv/tier.h"
#include "net/object/client.h"

namespace weft::kv {

// The second tier in a bucket: an object per block, "PREFIX/LAYOUT/KEY" with a digest of what blocks hold and the
// block's own. Server and reader compare checksums. What is there is listed when the tier is opened; what other stores
// write there later is found by the next one that opens it. Thread: one at a time.
class ObjectTier final : public BlockTier {
 public:
  // `options.file` is "s3://BUCKET/PREFIX"; `slots` 0: no bound. Errors (bad input): the name, no credentials, no
  // libcurl; what the server says.
  static Result<std::unique_ptr<BlockTier>> open(const TierOptions& options);
  static Result<std::unique_ptr<BlockTier>> open(const TierOptions& options, net::object::Place place,
                                                 net::object::Habits habits = {});

  bool holds(const BlockKey& key) const override { return index_.count(key) != 0; }
  Status put(const BlockKey& key, const transfer::Registration& memory, std::uint32_t page) override;
  Status get(const BlockKey& key, const transfer::Registration& memory, std::uint32_t page) override;
  std::int64_t blocks() const override { return static_cast<std::int64_t>(index_.size()); }
  std::int64_t recovered() const override { return recovered_; }
  std::int64_t damaged() const override { return damaged_; }

 private:
  ObjectTier(TierOptions options, net::object::Client client)
      : options_(std::move(options)), client_(std::move(client)) {}
  Status read_list();
  net::object::Name name_of(const BlockKey& key) const;
  std::span<std::byte> page_of(const transfer::Registration& memory, std::uint32_t page) const;
  Status forget(const BlockKey& key);
  static net::object::Leave leave() { return net::object::Leave(net::object::Clock::now() + std::chrono::seconds(30)); }

  TierOptions options_;
  net::object::Client client_;
  net::object::Name prefix_;
  std::map<BlockKey, std::uint64_t> index_;  // … and when it was last used
  std::map<std::uint64_t, BlockKey> order_;
  std::uint64_t sequence_ = 0;
  std::int64_t recovered_ = 0, damaged_ = 0;
};

}  // namespace weft::kv
