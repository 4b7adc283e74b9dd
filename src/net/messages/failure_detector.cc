#include "net/messages/failure_detector.h"

#include <algorithm>
#include <utility>

namespace weft::net::messages {

using Fate = bootstrap::Member::Fate;

void FailureDetector::frame_came(Rank r, std::uint64_t weight) {
  at(r).came += weight;
  at(r).here = true;
}

void FailureDetector::ended(Rank r, const std::string& reason) {
  if (!at(r).end.empty()) return;
  at(r).end = reason;
  if (reason != kHasLeft) meeting_.log->info(LogPart::kFault, "rank {} ({}): {}", r, connections_.describe(r), reason);
}

void FailureDetector::connected(Rank r) {
  if (!has_left(r)) at(r).end.clear();  // another attempt had failed
  if (by_) connections_.tell_broken(r, *by_);
}

void FailureDetector::answered(Rank r, Rank waits_for, Rank suspects) {
  at(r).answered = Clock::now();
  at(r).waits_for = waits_for;
  at(r).suspects = suspects;
}

void FailureDetector::broken_came(const bootstrap::Member::Broken& found, bool shared) {
  if (!shared) return note_broken(found);
  if (!received_) received_ = found;  // the communicator's own thread asks the other processes
}

std::string FailureDetector::end_of(Rank r) const {
  const auto guard = connections_.guard();
  return end(r);
}

std::optional<Error> FailureDetector::failure() const {
  const auto guard = connections_.guard();
  return failure_;
}

// The rank that found it reports to the processes of all ranks; this one passes it on over its own connections only.
void FailureDetector::note_broken(const bootstrap::Member::Broken& found) {
  using fabric::Cause;
  if (found.culprit < 0 || found.culprit >= ranks() || failure_) return;
  const bool known = found.cause <= static_cast<std::uint32_t>(Cause::kCircle);
  const Rank finder = found.finder >= 0 && found.finder < ranks() ? found.finder : found.culprit;
  const BrokenBy by{found.culprit, known ? static_cast<Cause>(found.cause) : Cause::kFailed, finder, found.clash,
                    by_words_of(found)};
  if (by.cause == Cause::kCircle) {
    fail(Code::kTimeout, Blame::kCommunicator, -1, fabric::broken_text(by.culprit, by.cause, rank_));
  } else if (by.cause == Cause::kDiffers) {
    const Rank deviant = deviant_of(by);
    fail(Code::kMismatch, Blame::kCommunicator, deviant,
         deviant < 0 ? fabric::differ_text(by.finder, by.culprit) : fabric::broken_text(deviant, by.cause, rank_));
    if (deviant < 0) failure_->ranks = {by.finder, by.culprit};
  } else {
    fail(fabric::code(by.cause), Blame::kCommunicator, by.culprit,
         by.culprit == rank_ ? fmt::format("the communicator is broken: rank {} says that this rank {}", by.finder,
                                           fabric::word(by.cause))
                             : fabric::broken_text(by.culprit, by.cause, rank_, by.words));
  }
  told_ = true;
  break_off(by);
}

// A rank that aborts reports to the processes of the others what it says of itself, before it notifies their
// connections. A third rank that has read the report may pass the abort on before the report is here: then the process
// of the rank that aborted is asked.
std::string FailureDetector::by_words_of(const bootstrap::Member::Broken& found) const {
  if (!found.words.empty() || !meeting_.member) return found.words;
  auto known = meeting_.member->broken();
  if (!known && found.cause == static_cast<std::uint32_t>(fabric::Cause::kAborted) && found.culprit != rank_)
    known = meeting_.member->state_of(found.culprit, kAnswerTime).broken;
  return known && known->culprit == found.culprit ? known->words : std::string();
}

// Which of two ranks that differ has deviated: the one that did not call what more than half of all ranks called. -1:
// no call has such a majority. Asks the processes of the others.
Rank FailureDetector::deviant_of(const BrokenBy& by) {
  const auto& clash = by.clash;
  if (clash.call == 0 || by.finder == rank_ || by.culprit == rank_ || !meeting_.member) return -1;
  std::vector<Rank> others;
  for (Rank r = 0; r < ranks(); ++r)
    if (r != rank_ && r != by.finder && r != by.culprit && end_of(r).empty()) others.push_back(r);
  std::vector<std::uint32_t> chains = meeting_.member->chains_at(clash.call, others, kAnswerTime);
  chains.push_back(clash.finders);
  chains.push_back(clash.culprits);
  if (const auto own = connections_.chain_at(clash.call)) chains.push_back(*own);
  const auto most = [&](std::uint32_t chain) {
    return 2 * std::count(chains.begin(), chains.end(), chain) > static_cast<std::ptrdiff_t>(ranks());
  };
  if (most(clash.finders)) return by.culprit;
  if (most(clash.culprits)) return by.finder;
  return -1;
}

void FailureDetector::listen_to_member() {
  std::optional<bootstrap::Member::Broken> received;
  {
    const auto guard = connections_.guard();
    if (failure_ || broken_) return;
    received = std::exchange(received_, std::nullopt);
  }
  if (received) return note_broken(*received);
  if (!meeting_.member) return;
  if (const auto broken = meeting_.member->broken()) note_broken(*broken);
}

// A connection that ends does not say whether the process has: the process itself does, or nothing listens there.
fabric::Cause FailureDetector::fate_of(Rank r) {
  if (end_of(r) == kHasLeft) return fabric::Cause::kLeft;
  if (!meeting_.member || r >= ranks()) return fabric::Cause::kDied;
  const auto state = meeting_.member->state_of(r, kAnswerTime);
  if (state.broken) note_broken(*state.broken);
  if (state.fate == Fate::kSilent && meeting_.parent) return fate_in_parent(r);
  return state.fate == Fate::kLeft ? fabric::Cause::kLeft : fabric::Cause::kDied;
}

// False: the culprit is not in this group.
bool FailureDetector::note_broken_parent(const bootstrap::Member::Broken& found) {
  const auto here = [&](Rank there) {
    const auto& all = meeting_.in_parent;
    const auto place = std::find(all.begin(), all.end(), there);
    return place == all.end() ? -1 : static_cast<Rank>(place - all.begin());
  };
  const Rank culprit = here(found.culprit);
  if (culprit >= 0) note_broken({culprit, found.cause, here(found.finder), {}, found.words});
  return culprit >= 0;
}

// A process that lives and knows nothing of this group found the communicator broken that the group was split from.
fabric::Cause FailureDetector::fate_in_parent(Rank r) {
  const auto state = meeting_.parent->state_of(meeting_.in_parent[static_cast<std::size_t>(r)], kAnswerTime);
  if (state.fate == Fate::kSilent || state.fate == Fate::kEnded) return fabric::Cause::kDied;
  if (state.broken) note_broken_parent(*state.broken);
  return fabric::Cause::kLeft;
}

// False at first: what is asked about may still come by itself.
bool FailureDetector::Pace::is_due(std::chrono::milliseconds first) {
  constexpr int kSlowest = 20;  // times `first`
  const auto now = Clock::now();
  if (now < asked + pause) return false;
  const bool waits = pause.count() == 0;
  asked = now;
  pause = std::clamp(2 * pause, first, kSlowest * first);
  return !waits;
}

// A peer that has sent something knows this rank by a connection, and notifies it there.
void FailureDetector::ask_silent(Rank r) {
  if (!meeting_.member || r == rank_ || r >= ranks()) return;
  {
    const auto guard = connections_.guard();
    if (at(r).here || !end(r).empty() || !at(r).news.is_due(std::chrono::milliseconds(100))) return;
  }
  if (const auto state = meeting_.member->state_of(r, kAnswerTime); state.broken) note_broken(*state.broken);
}

bool FailureDetector::stays_away(Rank r) {
  if (!meeting_.parent || r == rank_ || r >= ranks()) return false;
  {
    const auto guard = connections_.guard();
    Peer& p = at(r);
    if (p.here || p.stays_away || !p.absence.is_due(std::chrono::milliseconds(50))) return p.stays_away;
  }
  const Rank there = meeting_.in_parent[static_cast<std::size_t>(r)];
  const auto state = meeting_.parent->state_of(there, kAnswerTime, connections_.number_at(r));
  const bool ended_unseen = state.fate == Fate::kEnded && !connections_.has_met(r);  // else its connection reports it
  if (!state.withdrew && !ended_unseen) return false;
  {
    const auto guard = connections_.guard();
    if (at(r).here) return false;
    at(r).stays_away = true;
    if (ended_unseen || !state.broken) ended(r, ended_unseen ? "its process has ended" : kHasLeft);
  }
  if (ended_unseen || !state.broken || note_broken_parent(*state.broken)) return true;
  const auto guard = connections_.guard();
  ended(r, kHasLeft);
  return true;
}

void FailureDetector::fail(Code code, Blame blame, Rank culprit, const std::string& message) {
  const auto guard = connections_.guard();
  if (failure_) return;
  failure_ = Error{code, blame, message};
  if (culprit >= 0) failure_->ranks = {culprit};
}

Rank FailureDetector::end_behind(Rank awaited, std::chrono::milliseconds lately) const {
  const Peer& p = at(awaited);
  if (Clock::now() - p.answered > lately || p.waits_for < 0 || p.waits_for >= ranks()) return awaited;
  return p.suspects < ranks() && p.suspects != rank_ ? p.suspects : -1;
}

// A rank may wait for several, some of which wait for it: the chain that ends somewhere is the one that counts.
FailureDetector::Chain FailureDetector::wait_chain(const std::vector<Rank>& awaited,
                                                   std::chrono::milliseconds lately) const {
  const auto guard = connections_.guard();
  for (const Rank r : awaited)
    if (const Rank end = end_behind(r, lately); end >= 0) return {r, end};
  if (beside_ >= 0) return {beside_, beside_};
  return {awaited.empty() ? -1 : awaited.front(), -1};
}

void FailureDetector::say_awaited(const std::vector<Rank>& all, std::chrono::milliseconds lately) {
  const auto guard = connections_.guard();
  const auto [awaited, suspicion] = wait_chain(all, lately);
  if (awaited == awaited_ && suspicion == suspicion_) return;
  awaited_ = awaited;
  suspicion_ = suspicion;
  for (Rank r = 0; r < static_cast<Rank>(peers_.size()); ++r) {
    if (!at(r).asks || !listens(r)) continue;
    if (awaited < 0)
      at(r).asks = false;
    else
      connections_.tell_awaited(r);
  }
}

Rank FailureDetector::died() const {
  for (Rank r = 0; r < ranks(); ++r)
    if (!end_of(r).empty() && end_of(r) != kHasLeft) return r;
  return -1;
}

void FailureDetector::break_off(Rank culprit, fabric::Cause cause) {
  if (broken_) return;
  BrokenBy by{culprit, cause, known_as_, {}, {}};
  if (cause == fabric::Cause::kDiffers) by.clash = connections_.clash_with(culprit);
  if (cause == fabric::Cause::kAborted && culprit == rank_) {
    const std::lock_guard guard(words_mutex_);
    by.words = words_;
  }
  break_off(by);
}

void FailureDetector::say_why(const std::string& words) {
  const std::lock_guard guard(words_mutex_);
  if (words_.empty()) words_ = words;
}

void FailureDetector::break_off(const BrokenBy& by) {
  if (broken_) return;
  if (!by.words.empty() && !told_ && meeting_.member) tell_processes(by, true);
  {
    const auto guard = connections_.guard();
    for (Rank r = 0; r < static_cast<Rank>(peers_.size()); ++r)
      if (listens(r)) connections_.tell_broken(r, by);
    broken_ = true;
    by_ = by;
    connections_.forget_targets();
  }
  if (meeting_.member) tell_processes(by, false);
  const auto guard = connections_.guard();
  connections_.drop_callers();
}

// Also those without a connection, before this rank reports the error and perhaps exits; and those that still read what
// this rank's caller may change from now on. `all`: whether or not they have a connection.
void FailureDetector::tell_processes(const BrokenBy& by, bool all) {
  std::vector<Rank> others;
  {
    const auto guard = connections_.guard();
    for (Rank r = 0; r < ranks(); ++r)
      if (r != rank_ && end(r).empty() && (all || connections_.reads_callers(r) || (!told_ && !listens(r))))
        others.push_back(r);
  }
  if (told_ && others.empty()) return;
  std::vector<Rank> silent;
  if (by.cause == fabric::Cause::kTimedOut && std::erase(others, by.culprit) > 0) silent = {by.culprit};
  meeting_.member->tell_broken({by.culprit, static_cast<std::uint32_t>(by.cause), by.finder, by.clash, by.words},
                               others, silent);
}

}  // namespace weft::net::messages
