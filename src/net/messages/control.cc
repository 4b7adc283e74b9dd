// Control messages between ranks: what they have taken, whom they wait for, that they leave, that the
// communicator is broken.

#include <algorithm>
#include <limits>
#include <utility>

#include "net/bootstrap/member.h"
#include "net/messages/endpoint.h"

namespace weft::net::messages {
namespace {

constexpr std::chrono::milliseconds kOvertakenFor{15};  // messages without bytes count nothing and may be overtaken
// A rank as frames have it, one more than its number; -1: nobody, or a number that is no rank's.
Rank rank_said(std::uint64_t value) {
  return value > std::uint64_t{std::numeric_limits<Rank>::max()} ? -1 : static_cast<Rank>(value) - 1;
}

}  // namespace

std::byte* Endpoint::place(Rank r, const Frame& f) {
  Stream& s = stream(r, f.strand);
  if (std::byte* at = s.place(f, hub_->blocks())) return at;
  damaged(r, fmt::format("message {} of strand {}, bytes {} to {}: out of turn after message {}", f.number, f.strand,
                         f.offset, f.offset + f.length, s.taken()));
  return nullptr;
}

bool Endpoint::arrived(Rank r, const Frame& f, const std::byte* at) {
  Peer& p = peer(r);
  Stream& s = p.streams[f.strand];
  s.peer_took(f.taken);
  p.came += f.weight();
  p.here = true;
  stirred_ |= hub_->shared();  // perhaps on the thread of another communicator
  bool head = f.kind == FrameKind::kSignal;
  if (f.kind == FrameKind::kData)
    head = s.arrived(f, at);
  else
    handle_control(r, f);
  if (p.farewell && p.came >= *p.farewell) {
    ended(r, kHasLeft);
    hub_->left(own_, r);
  }
  return head;
}

void Endpoint::handle_control(Rank r, const Frame& f) {
  Peer& p = peer(r);
  Stream& s = p.streams[f.strand];
  switch (f.kind) {
    case FrameKind::kSignal:
      return s.signal_came(f.number, f.tag);
    case FrameKind::kBye:
      p.farewell = f.number;
      return;
    case FrameKind::kBroken: {
      const bootstrap::Member::Broken found{rank_said(f.number),
                                            f.offset & 0xff,
                                            rank_said(f.offset >> 8),
                                            {static_cast<std::uint32_t>(f.tag), f.total, f.chain}};
      if (!hub_->shared()) return note_broken(found);
      if (!received_) received_ = found;  // the communicator's own thread asks the other processes
      return;
    }
    case FrameKind::kQuery:
      if (by_) return tell_broken(r, *by_);  // it may have opened this communicator after the notice
      p.asks = true;
      if (differs(f)) {
        mismatched_ = r;
        describe_calls(r, calls_);
      }
      answer(r, f.number);
      if (f.number > 0 && calls_ > f.number) control(r, FrameKind::kPast, 0, calls_, 0, 0, p.sent);
      return;
    case FrameKind::kAnswer:
      p.answered = Clock::now();
      p.waits_for = rank_said(f.offset);
      p.suspects = rank_said(f.total);
      if (differs(f)) mismatched_ = r;
      return;
    case FrameKind::kCall:
      if (p.calls.size() < kMade)
        p.calls.push_back({f.number, f.chain, {f.tag, std::uint64_t{f.total} << 32 | f.offset}});
      return describe_calls(r, calls_);
    case FrameKind::kPast:
      p.past = f.number;
      p.past_weight = f.tag;
      return;
    case FrameKind::kPart:
      return note_part(r, f);
    default:
      return;
  }
}

// Which of two ranks that differ has deviated: the one that did not call what more than half of all ranks called. -1:
// no call has such a majority. Asks the processes of the others.
Rank Endpoint::deviant_of(const Broken& by) {
  const auto& clash = by.clash;
  if (clash.call == 0 || by.finder == rank_ || by.culprit == rank_ || !meeting_.member) return -1;
  std::vector<Rank> others;
  for (Rank r = 0; r < ranks(); ++r)
    if (r != rank_ && r != by.finder && r != by.culprit && end_of(r).empty()) others.push_back(r);
  std::vector<std::uint32_t> chains = meeting_.member->chains_at(clash.call, others, kAnswerTime);
  chains.push_back(clash.finders);
  chains.push_back(clash.culprits);
  if (is_known(clash.call)) chains.push_back(chain_of(made(clash.call).signature));
  const auto most = [&](std::uint32_t chain) {
    return 2 * std::count(chains.begin(), chains.end(), chain) > static_cast<std::ptrdiff_t>(ranks());
  };
  if (most(clash.finders)) return by.culprit;
  if (most(clash.culprits)) return by.finder;
  return -1;
}

// A rank that aborts reports to the processes of the others what it says of itself, before it notifies their
// connections. A third rank that has read the report may pass the abort on before the report is here: then the process
// of the rank that aborted is asked.
std::string Endpoint::by_words_of(const bootstrap::Member::Broken& found) const {
  if (!found.words.empty() || !meeting_.member) return found.words;
  auto known = meeting_.member->broken();
  if (!known && found.cause == static_cast<std::uint32_t>(fabric::Cause::kAborted) && found.culprit != rank_)
    known = meeting_.member->state_of(found.culprit, kAnswerTime).broken;
  return known && known->culprit == found.culprit ? known->words : std::string();
}

// The rank that found it reports to the processes of all ranks; this one passes it on over its own connections only.
void Endpoint::note_broken(const bootstrap::Member::Broken& found) {
  using fabric::Cause;
  if (found.culprit < 0 || found.culprit >= ranks() || failure_) return;
  const bool known = found.cause <= static_cast<std::uint32_t>(Cause::kCircle);
  const Rank finder = found.finder >= 0 && found.finder < ranks() ? found.finder : found.culprit;
  const Broken by{found.culprit, known ? static_cast<Cause>(found.cause) : Cause::kFailed, finder, found.clash,
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

void Endpoint::listen_to_member() {
  std::optional<bootstrap::Member::Broken> received;
  {
    const auto guard = hub_->guard();
    if (failure_ || broken_) return;
    received = std::exchange(received_, std::nullopt);
  }
  if (received) return note_broken(*received);
  if (!meeting_.member) return;
  if (const auto broken = meeting_.member->broken()) note_broken(*broken);
}

// A connection that ends does not say whether the process has: the process itself does, or nothing listens there.
fabric::Cause Endpoint::fate_of(Rank r) {
  using Fate = bootstrap::Member::Fate;
  if (end_of(r) == kHasLeft) return fabric::Cause::kLeft;
  if (!meeting_.member || r >= ranks()) return fabric::Cause::kDied;
  const auto state = meeting_.member->state_of(r, kAnswerTime);
  if (state.broken) note_broken(*state.broken);
  if (state.fate == Fate::kSilent && meeting_.parent) return fate_in_parent(r);
  return state.fate == Fate::kLeft ? fabric::Cause::kLeft : fabric::Cause::kDied;
}

bool Endpoint::has_left(Rank r) const { return end_of(r) == kHasLeft; }

bool Endpoint::has_met(Rank r) const {
  const auto guard = hub_->guard();
  return peers_[static_cast<std::size_t>(r)] && is_attached(r);
}

void Endpoint::forget(Rank r, const Frame& frame) { stream(r, frame.strand).forget(frame); }

void Endpoint::connected(Rank r) {
  if (!has_left(r)) peer_end_[static_cast<std::size_t>(r)].clear();  // another attempt had failed
  if (by_) tell_broken(r, *by_);
}

void Endpoint::damaged(Rank r, const std::string& what) {
  fail(Code::kAborted, Blame::kCommunicator, r,
       fmt::format("what came from rank {} ({}) is damaged: {}", r, describe(r), what));
}

void Endpoint::fail(Code code, Blame blame, Rank culprit, const std::string& message) {
  const auto guard = hub_->guard();
  if (failure_) return;
  failure_ = Error{code, blame, message};
  if (culprit >= 0) failure_->ranks = {culprit};
}

void Endpoint::ended(Rank r, const std::string& reason) {
  std::string& known = peer_end_[static_cast<std::size_t>(r)];
  if (known.empty()) {
    known = reason;
    if (reason != kHasLeft) meeting_.log->info(LogPart::kFault, "rank {} ({}): {}", r, describe(r), reason);
  }
  if (r != node_ || reason == kHasLeft) return;
  const Rank host = outward(r);
  fail(Code::kPeerDied, Blame::kCommunicator, host,
       fmt::format("rank {} ({}), which sums messages, has ended: {}", host, describe(host), reason));
  break_off(host, fabric::Cause::kDied);
}

std::string Endpoint::describe(Rank r) const { return hub_->record_of(in_hub(r)).text(); }

void Endpoint::control(Rank r, FrameKind kind, std::uint16_t strand, std::uint64_t number, std::uint32_t offset,
                       std::uint32_t total, std::optional<std::uint64_t> tag, std::uint32_t chain) {
  Stream& s = stream(r, strand);
  if (r == rank_) {
    s.signal_came(number, call_.signature);  // a signal to itself: nothing else is ever due
    return;
  }
  send(r,
       {.kind = kind,
        .strand = strand,
        .number = number,
        .tag = tag.value_or(call_.signature),
        .offset = offset,
        .total = total,
        .taken = static_cast<std::uint32_t>(s.taken()),
        .chain = chain},
       nullptr, Block(), false);
}

void Endpoint::give_back() {
  const auto guard = hub_->guard();
  for (const Rank r : owed_) {
    Peer& p = peer(r);
    p.owes_credit = false;
    for (std::uint16_t strand = 0; strand < kStreams; ++strand)
      if (!p.streams[strand].all_reported()) control(r, FrameKind::kCredit, strand, 0);
  }
  owed_.clear();
}

bool Endpoint::listens(Rank r) const {
  const auto& p = peers_[static_cast<std::size_t>(r)];
  return p && is_attached(r) && end(r).empty();
}

bool Endpoint::any_stays() const {
  const auto guard = hub_->guard();
  return std::any_of(known_.begin(), known_.end(), [this](Rank r) { return listens(r); });
}

// Calls that only some ranks make have no number, and are never compared.
std::uint64_t Endpoint::call_number() const { return call_.everybody ? calls_ : 0; }

bool Endpoint::differs(const Frame& f) const { return is_known(f.number) && f.tag != made(f.number).signature; }

void Endpoint::answer(Rank r, std::uint64_t number) {
  const std::uint64_t said = std::min(number, calls_);
  control(r, FrameKind::kAnswer, 0, is_known(said) ? said : 0, static_cast<std::uint32_t>(awaited_ + 1),
          static_cast<std::uint32_t>(suspicion_ + 1), is_known(said) ? made(said).signature : 0);
}

// The calls up to this one, as far as they are known, the oldest first: the peer finds the first that differs from its
// own, and need not wait for the others.
void Endpoint::describe_calls(Rank to, std::uint64_t until) {
  constexpr std::uint64_t kMost = 17;
  if (std::exchange(peer(to).described, true)) return;
  std::uint64_t first = until + 1;
  while (until + 1 - first < kMost && is_known(first - 1)) --first;
  for (std::uint64_t number = first; number <= until; ++number) {
    const auto& [signature, description] = made(number);
    control(to, FrameKind::kCall, 0, number, static_cast<std::uint32_t>(description.fields),
            static_cast<std::uint32_t>(description.fields >> 32), description.count, chain_of(signature));
  }
}

bool Endpoint::awaits_reason(Rank r) {
  const auto guard = hub_->guard();
  constexpr std::chrono::milliseconds kForReason{100};
  if (!call_.everybody || r == node_ || r == rank_ || !listens(r) || broken_) return false;
  Peer& p = peer(r);
  if (mismatched_ == r && disagreement().number != 0) return false;
  const auto now = Clock::now();
  if (p.reason_asked == Clock::time_point{}) {
    p.reason_asked = now;
    describe_calls(r, calls_);
    control(r, FrameKind::kQuery, 0, call_number());
  }
  return now - p.reason_asked < kForReason;
}

Rank Endpoint::unread() {
  const auto guard = hub_->guard();
  for (const Rank r : known_)
    for (std::size_t strand = 0; strand < kStrands; ++strand)
      if (peer(r).streams[strand].head().begun) return outward(r);
  return -1;
}

fabric::Disagreement Endpoint::disagreement() const {
  const auto guard = hub_->guard();
  fabric::Disagreement found{.peer = outward(mismatched_)};
  const auto& p = mismatched_ < 0 ? peers_.front() : peers_[static_cast<std::size_t>(mismatched_)];
  if (mismatched_ < 0 || !p) return found;
  const Peer::Call* first = nullptr;
  for (const Peer::Call& call : p->calls)
    if (is_known(call.number) && call.chain != chain_of(made(call.number).signature) &&
        (first == nullptr || call.number < first->number))
      first = &call;
  if (first == nullptr) return found;
  found.number = first->number;
  found.peers = first->description;
  found.own = made(first->number).description;
  return found;
}

void Endpoint::compare_calls(Rank r) {
  const auto guard = hub_->guard();
  Peer& p = peer(r);
  const auto now = Clock::now();
  // All that the peer sent before it went on has come, and what this rank waits for is not there.
  if (call_.everybody && p.past > calls_ && p.came >= p.past_weight) {
    if (p.past_in != calls_) p.past_in = calls_, p.past_since = now;
    if (now - p.past_since >= kOvertakenFor) mismatched_ = r;
  }
  const auto pace =
      std::clamp<Clock::duration>(timeout_ / 20, std::chrono::milliseconds(20), std::chrono::milliseconds(500));
  if (now - p.asked < pace || !listens(r) || broken_) return;
  p.asked = now;
  control(r, FrameKind::kQuery, 0, call_number());
}

// The rank at the end of the chain of waits, as far as those in it have said lately; -1: a circle.
Rank Endpoint::end_behind(Rank awaited, std::chrono::milliseconds lately) const {
  const auto& p = peers_[static_cast<std::size_t>(awaited)];
  if (!p || Clock::now() - p->answered > lately || p->waits_for < 0 || p->waits_for >= ranks()) return awaited;
  return p->suspects < ranks() && p->suspects != rank_ ? p->suspects : -1;
}

// A rank may wait for several, some of which wait for it: the chain that ends somewhere is the one that counts.
Endpoint::Chain Endpoint::wait_chain(const std::vector<Rank>& awaited, std::chrono::milliseconds lately) const {
  const auto guard = hub_->guard();
  for (const Rank r : awaited)
    if (const Rank end = end_behind(r, lately); end >= 0) return {r, end};
  if (beside_ >= 0) return {beside_, beside_};
  return {awaited.empty() ? -1 : awaited.front(), -1};
}

void Endpoint::say_awaited(const std::vector<Rank>& all, std::chrono::milliseconds lately) {
  const auto guard = hub_->guard();
  const auto [awaited, suspicion] = wait_chain(all, lately);
  if (awaited == awaited_ && suspicion == suspicion_) return;
  awaited_ = awaited;
  suspicion_ = suspicion;
  for (std::size_t i = 0; i < known_.size(); ++i) {
    Peer& p = *peers_[static_cast<std::size_t>(known_[i])];
    if (!p.asks || !listens(known_[i])) continue;
    if (awaited < 0)
      p.asks = false;
    else
      answer(known_[i], calls_);
  }
}

Rank Endpoint::died() const {
  for (Rank r = 0; r < ranks(); ++r)
    if (!end_of(r).empty() && end_of(r) != kHasLeft) return r;
  return -1;
}

bool Endpoint::broken() const { return broken_ || (meeting_.member && meeting_.member->is_broken()); }

// In which call this rank and the peer differ first, for ranks that have made it, too.
bootstrap::Member::Clash Endpoint::clash_with(Rank r) const {
  const auto guard = hub_->guard();
  if (mismatched_ != r) return {};
  const std::uint64_t number = disagreement().number;
  const auto& p = peers_[static_cast<std::size_t>(r)];
  if (number == 0 || !p || !is_known(number)) return {};
  const auto theirs = std::find_if(p->calls.begin(), p->calls.end(), [&](const auto& c) { return c.number == number; });
  if (theirs == p->calls.end()) return {};
  return {static_cast<std::uint32_t>(number), theirs->chain, chain_of(made(number).signature)};
}

void Endpoint::break_off(Rank culprit, fabric::Cause cause) {
  if (broken_) return;
  Broken by{culprit, cause, outward(rank_), {}, {}};
  if (cause == fabric::Cause::kDiffers) by.clash = clash_with(culprit);
  if (cause == fabric::Cause::kAborted && culprit == rank_) {
    const std::lock_guard guard(words_mutex_);
    by.words = words_;
  }
  break_off(by);
}

void Endpoint::say_why(const std::string& words) {
  const std::lock_guard guard(words_mutex_);
  if (words_.empty()) words_ = words;
}

void Endpoint::break_off(const Broken& by) {
  if (broken_) return;
  if (!by.words.empty() && !told_ && meeting_.member) tell_processes(by, true);
  {
    const auto guard = hub_->guard();
    for (std::size_t i = 0; i < known_.size(); ++i)
      if (listens(known_[i])) tell_broken(known_[i], by);
    broken_ = true;
    by_ = by;
    forget_targets();
  }
  if (meeting_.member) tell_processes(by, false);
  const auto guard = hub_->guard();
  hub_->carrier().drop_callers(own_);
}

// Also those without a connection, before this rank reports the error and perhaps exits; and those that still read what
// this rank's caller may change from now on. `all`: whether or not they have a connection.
void Endpoint::tell_processes(const Broken& by, bool all) {
  std::vector<Rank> others;
  {
    const auto guard = hub_->guard();
    for (Rank r = 0; r < ranks(); ++r)
      if (r != rank_ && end(r).empty() &&
          (all || hub_->carrier().reads_callers(in_hub(r), own_) || (!told_ && !listens(r))))
        others.push_back(r);
  }
  if (told_ && others.empty()) return;
  std::vector<Rank> silent;
  if (by.cause == fabric::Cause::kTimedOut && std::erase(others, by.culprit) > 0) silent = {by.culprit};
  meeting_.member->tell_broken({by.culprit, static_cast<std::uint32_t>(by.cause), by.finder, by.clash, by.words},
                               others, silent);
}

void Endpoint::forget_targets() {
  for (const Rank r : known_)
    for (Stream& s : peer(r).streams) s.want({}, 0, nullptr);
  hub_->carrier().divert(own_);
}

void Endpoint::tell_broken(Rank r, const Broken& by) {
  const auto finder = static_cast<std::uint32_t>(by.finder + 1);
  control(r, FrameKind::kBroken, 0, static_cast<std::uint64_t>(by.culprit) + 1,
          static_cast<std::uint32_t>(by.cause) | finder << 8, by.clash.culprits, by.clash.call, by.clash.finders);
}

}  // namespace weft::net::messages
