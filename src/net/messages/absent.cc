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

// False at first: what is asked about may still come by itself.
bool Endpoint::Pace::is_due(std::chrono::milliseconds first) {
  constexpr int kSlowest = 20;  // times `first`
  const auto now = Clock::now();
  if (now < asked + pause) return false;
  const bool waits = pause.count() == 0;
  asked = now;
  pause = std::clamp(2 * pause, first, kSlowest * first);
  return !waits;
}

// A peer that has sent something knows this rank by a connection, and notifies it there.
void Endpoint::ask_silent(Rank r) {
  if (!meeting_.member || r == rank_ || r >= ranks()) return;
  {
    const auto guard = hub_->guard();
    if (peer(r).here || !end(r).empty() || !peer(r).news.is_due(std::chrono::milliseconds(100))) return;
  }
  if (const auto state = meeting_.member->state_of(r, kAnswerTime); state.broken) note_broken(*state.broken);
}

bool Endpoint::stays_away(Rank r) {
  if (!meeting_.parent || r == rank_ || r >= ranks()) return false;
  {
    const auto guard = hub_->guard();
    Peer& p = peer(r);
    if (p.here || p.stays_away || !p.absence.is_due(std::chrono::milliseconds(50))) return p.stays_away;
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
