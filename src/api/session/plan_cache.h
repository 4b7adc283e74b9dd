#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/session/access.h"
#include "api/session/operation.h"
#include "api/session/request.h"

namespace weft::session {

// The shape of a call in words. Two calls have equal keys if the same programs serve them, wherever their buffers lie.
class PlanKey {
 public:
  using Word = std::uint64_t;

  // Each replaces what the key holds. A key that has held one as long allocates nothing.
  void set(const Request& request);
  void set(std::span<const Transfer> transfers);
  // Distinguishes calls by one thing more.
  void add(Word word) { words_.push_back(word); }

  bool operator==(const PlanKey&) const = default;
  std::size_t hash() const;

 private:
  void add_text(const std::string& text);

  std::vector<Word> words_;
};
struct PlanKeyHash {
  std::size_t operator()(const PlanKey& key) const { return key.hash(); }
};

// What is known of the calls of one shape: where their buffers end, and the plans that they have used.
struct KnownShape {
  struct Plan {
    Access access;               // but for `adopted`, which makes no difference
    std::optional<Bytes> shift;  // of the buffers, as shift_of(); any where peers reach copies
    std::shared_ptr<const Prepared> prepared;
  };

  // Null: none yet.
  const Prepared* plan(const Access& access, std::optional<Bytes> shift) const;

  Request request = {};  // without its counts and experts, which are the caller's; nothing, of transfers
  Buffers buffers = {};
  Ballot* ballot = nullptr;  // null: of transfers
  std::vector<Plan> plans = {};
};

// The shapes of the calls of one communicator. Shapes that may be others at every call (counts, routes, transfers) are
// few: the oldest are forgotten. Thread: one at a time.
class PlanCache {
 public:
  static constexpr std::size_t kKeptVarying = 16, kKeptTransfers = 8;  // choices
  enum class Kind { kAlike, kVarying, kTransfers };

  // The shape of a call; null: new. Valid until the next add().
  KnownShape* find(const Request& request);
  KnownShape* find(std::span<const Transfer> transfers);
  // Keeps a shape for the call that find() was asked for last. Requires: that was new. A program that runs or waits has
  // a reference of its own.
  KnownShape& add(Kind kind, KnownShape shape);

 private:
  using Table = std::unordered_map<PlanKey, KnownShape, PlanKeyHash>;
  KnownShape* find_asked();

  PlanKey asked_;
  Table shapes_;
  Table::value_type* last_ = nullptr;                                // found or added last
  std::deque<const PlanKey*> varying_requests_, varying_transfers_;  // the oldest first
};

}  // namespace weft::session
