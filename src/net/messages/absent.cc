// What the ranks of a group learn of its members from the communicator that it was split from.

#include <algorithm>

#include "net/bootstrap/member.h"
#include "net/messages/endpoint.h"

namespace weft::net::messages {

using Fate = bootstrap::Member::Fate;

// False: the culprit is not in this group.
bool Endpoint::note_broken_parent(const bootstrap::Member::Broken& found) {
  const auto here = [&](Rank there) {
    const auto& all = meeting_.in_parent;
    const auto at = std::find(all.begin(), all.end(), there);
    return at == all.end() ? -1 : static_cast<Rank>(at - all.begin());
  };
  const Rank culprit = here(found.culprit);
  if (culprit >= 0) note_broken({culprit, found.cause, here(found.finder), {}, found.words});
  return culprit >= 0;
}

// A process that lives and knows nothing of this group found the communicator broken that the group was split from.
fabric::Cause Endpoint::fate_in_parent(Rank r) {
  const auto state = meeting_.parent->state_of(meeting_.in_parent[static_cast<std::size_t>(r)], kAnswerTime);
  if (state.fate == Fate::kSilent || state.fate == Fate::kEnded) return fabric::Cause::kDied;
  if (state.broken) note_broken_parent(*state.broken);
  return fabric::Cause::kLeft;
}

bool Endpoint::stays_away(Rank r) {
  constexpr std::chrono::milliseconds kFirst{50}, kMost{1000};
  if (!meeting_.parent || r == rank_ || r >= ranks()) return false;
  const auto now = Clock::now();
  {
    const auto guard = hub_->guard();
    Peer& p = peer(r);
    if (p.here || p.stays_away || now < p.absence_asked + p.absence_pace) return p.stays_away;
    const bool first = p.absence_pace.count() == 0;
    p.absence_asked = now;
    p.absence_pace = std::clamp(2 * p.absence_pace, kFirst, kMost);
    if (first) return false;
  }
  const Rank there = meeting_.in_parent[static_cast<std::size_t>(r)];
  const auto state = meeting_.parent->state_of(there, kAnswerTime, places_.numbers[static_cast<std::size_t>(r)]);
  const bool ended_unseen = state.fate == Fate::kEnded && !is_attached(r);  // else its connection reports it
  if (!state.withdrew && !ended_unseen) return false;
  {
    const auto guard = hub_->guard();
    if (peer(r).here) return false;
    peer(r).stays_away = true;
    if (ended_unseen || !state.broken) ended(r, ended_unseen ? "its process has ended" : kHasLeft);
  }
  if (ended_unseen || !state.broken || note_broken_parent(*state.broken)) return true;
  const auto guard = hub_->guard();
  ended(r, kHasLeft);
  return true;
}

}  // namespace weft::net::messages
