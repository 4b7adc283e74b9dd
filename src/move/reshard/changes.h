#pragma once

#include <map>
#include <memory>
#include <unordered_map>

#include "move/reshard/digests.h"
#include "move/reshard/plan.h"

// A receiver's memory of what it has read, and from whom: what it need not read again.
namespace weft::reshard {

class Changes {
 public:
  // A new version begins. What was read of one that did not end is not relied upon.
  void begin(bool last_ended);
  void read_table(Rank sender, Table table);
  void forget(Rank sender) { now_.erase(sender); }
  const Table* table(Rank sender) const {
    const auto found = now_.find(sender);
    return found == now_.end() ? nullptr : found->second.get();
  }
  void arrived(std::int64_t unit, Rank sender) { from_now_[unit] = sender; }
  // Every unit has arrived.
  void end();

  // What of `row`, of `sender`'s memory, has changed since this unit was read from it; all of it where that is not
  // known. `call` gets places within the row's elements: (element, offset, bytes).
  bool known(std::int64_t unit, Rank sender) const;
  void for_each_change(
      Rank sender, const transfer::Rows& row,
      const std::function<void(std::int64_t element, std::int64_t offset, std::int64_t bytes)>& call) const;

 private:
  std::map<Rank, std::shared_ptr<const Table>> before_, now_;
  std::map<Rank, std::vector<std::int64_t>> changed_;              // blocks that differ between both, ascending
  std::unordered_map<std::int64_t, Rank> from_before_, from_now_;  // by unit
};

}  // namespace weft::reshard
