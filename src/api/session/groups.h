#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "weft/types.h"
#include "weft/unique_id.h"

namespace weft {
struct Agreement;
}

namespace weft::session {

class Session;

// How new groups of ranks come about on a fabric; handed in.
// Thread: the communicator's.
class Groups {
 public:
  virtual ~Groups() = default;

  // Is a wait of these functions to end, because this rank is interrupted? Asked by the thread that waits. Empty: it
  // never is.
  std::function<bool()> stops = {};

  // Where a rank can be reached; only the fabric that made it understands it.
  using Card = std::array<std::byte, 352>;
  // Makes this rank ready to join one new group, and says what the others need to know.
  virtual Result<Card> offer() = 0;

  // The group of the last offer() does not come about on this rank; others may have seen the offer.
  virtual void withdraw() {}

  // A new group as this rank sees it.
  struct Membership {
    std::string name;             // in records
    Rank rank = 0;                // in the group
    std::span<const Card> cards;  // of all its members, in order
    std::string secret;           // of the members alone: letters and digits
  };
  // All members call it, each after an offer() that this uses up.
  virtual Result<std::shared_ptr<Session>> join(const Membership& membership) = 0;

  // The group of all ranks that live and call this; those of `without`, the same on all, are not waited for.
  virtual Result<std::shared_ptr<Session>> survivors(std::span<const Rank> without) = 0;

  // The agreement of the ranks that live and call this; see Communicator.
  virtual Result<Agreement> agree(std::uint64_t bits) = 0;

  // A rank that an agreement under way has found dead, where the fabric itself knows nothing of it.
  virtual std::optional<Rank> found_dead() const { return std::nullopt; }

  // The group of those who meet by this id. `watch` is asked meanwhile: an error ends the meeting.
  virtual Result<std::shared_ptr<Session>> meet(const UniqueId& id, Rank rank, Rank ranks,
                                                const std::function<Status()>& watch) = 0;
};

}  // namespace weft::session
