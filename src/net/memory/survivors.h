#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/memory/segment.h"

// Consensus of ranks that share a segment. The segment is the arbiter: every rank says that it is there; who sees that
// all others are there or have ended, or has waited for long enough, writes a proposal into its own place, and one
// compare-and-swap decides which proposal counts. A rank that is stopped or ends in between holds up nobody.
namespace weft::net::memory {

// The ranks that go on after a failure, as all of them know it.
struct Survivors {
  std::vector<Rank> members;  // in order; this rank is one
  std::string secret;         // of the members alone: letters and digits
};

// Agrees with all other ranks that call this. Ranks that are neither there nor ended within `timeout` are left out, for
// good. Called again, it agrees anew among the members of the last decision, all of which must come, or have ended.
// `has_ended`: has died, or left the segment. `stops`: is the wait to end? Errors: kAborted: it is; kLeftOut: decided
// without this rank; kNoQuorum: a member of the last decision did not come: call again.
Result<Survivors> agree_on_survivors(const Segment& segment, Rank self, const std::function<bool(Rank)>& has_ended,
                                     std::chrono::milliseconds timeout, const std::function<bool()>& stops = {});

// What the ranks of one call of agree() have agreed on.
struct Agreement {
  std::uint64_t bits = 0;     // of all that were counted in
  std::vector<Rank> members;  // the ranks that were counted in
  std::vector<Rank> ended;    // the others that are known to have ended or left
};

// Agrees with all ranks that have not ended, each at its own same call, on the AND of their bits. Errors: kAborted:
// `stops` said so; the call is then made `again`, and counts what this rank brought first. kLeftOut: the others have
// agreed without this rank, which came later than `timeout`; the next call may include it again.
Result<Agreement> agree_on_bits(const Segment& segment, Rank self, std::uint64_t bits, bool again,
                                const std::function<bool(Rank)>& has_ended, std::chrono::milliseconds timeout,
                                const std::function<bool()>& stops = {});

}  // namespace weft::net::memory
