#pragma once

#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "weft/transfer.h"

namespace weft::reshard {

// Receivers that begin to use a version of their tensors together: none before all have all bytes of it. Each says to
// rank 0 what it has; rank 0 says to all which version all have. Where a receiver fails before it has all, the version
// stays the old one everywhere; where rank 0 fails, at those that it has not reached.
// Thread: one at a time. Owns: nothing; the agent must outlive it.
class VersionSwitch {
 public:
  // `members`: the names of all receivers' agents, by rank. The agent must have loaded those of all others at rank 0,
  // and that of rank 0 elsewhere.
  VersionSwitch(transfer::Agent& agent, Rank rank, std::vector<std::string> members);

  // This rank has all bytes of a version, 1 or more, and of those before it. Errors: those of Agent::notify; progress()
  // tries again.
  Status arrived(std::int64_t version);
  // Whether a notification that the agent has received was for this object. Others are the caller's. Errors: as
  // arrived.
  Result<bool> take(const transfer::Notification& notification);
  Status progress();

  // The newest version that all ranks have; 0: none yet. It never shrinks.
  std::int64_t version() const { return version_; }

 private:
  transfer::Agent& agent_;
  Rank rank_;
  std::vector<std::string> members_;
  std::vector<std::int64_t> arrived_;  // by rank; of this rank alone but at rank 0
  std::vector<std::int64_t> sent_;     // by rank: what it was sent last
  std::int64_t version_ = 0;
};

}  // namespace weft::reshard
