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
const std::string kHasLeft = "it has left";  // the end of a peer that said goodbye
constexpr std::chrono::milliseconds kAnswerTime{200};

}  // namespace

std::byte* Endpoint::place(Rank r, const Frame& f) {
  Stream& s = stream(r, f.strand);
  if (std::byte* at = s.place(f, blocks_)) return at;
  damaged(r, fmt::format("message {} of strand {}, bytes {} to {}: out of turn after message {}", f.number, f.strand,
                         f.offset, f.offset + f.length, s.taken()));
  return nullptr;
}

bool Endpoint::arrived(Rank r, const Frame& f, const std::byte* at) {
  Peer& p = peer(r);
  Stream& s = p.streams[f.strand];
  s.peer_took(f.taken);
  p.came += f.weight();
  bool head = f.kind == FrameKind::kSignal;
  if (f.kind == FrameKind::kData)
    head = s.arrived(f, at);
  else
    handle_control(r, f);
  if (p.farewell && p.came >= *p.farewell) {
    ended(r, kHasLeft);
    carrier_->left(r);
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
    case FrameKind::kBroken:
      return note_broken(r, rank_said(f.number), f.offset);
    case FrameKind::kQuery:
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

// The rank that found it reports to the processes of all ranks; this one passes it on over its own connections only.
void Endpoint::note_broken(Rank by, Rank culprit, std::uint32_t why) {
  if (culprit < 0 || culprit >= ranks() || failure_) return;
  const bool known = why <= static_cast<std::uint32_t>(fabric::Cause::kTimedOut);
  const auto cause = known ? static_cast<fabric::Cause>(why) : fabric::Cause::kFailed;
  fail(fabric::code(cause), Blame::kCommunicator, culprit,
       culprit == rank_
           ? fmt::format("the communicator is broken: rank {} says that this rank {}", by, fabric::word(cause))
           : fabric::broken_text(culprit, cause, rank_));
  told_ = true;
  break_off(culprit, cause);
}

void Endpoint::listen_to_member() {
  if (failure_ || broken_ || !meeting_.member) return;
  if (const auto broken = meeting_.member->broken()) note_broken(broken->by, broken->culprit, broken->cause);
}

// A connection that ends does not say whether the process has: the process itself does, or nothing listens there.
fabric::Cause Endpoint::fate_of(Rank r) {
  if (end_of(r) == kHasLeft) return fabric::Cause::kLeft;
  if (!meeting_.member || r >= ranks()) return fabric::Cause::kDied;
  const auto state = meeting_.member->state_of(r, kAnswerTime);
  if (state.broken) note_broken(r, state.broken->culprit, state.broken->cause);
  return state.fate == bootstrap::Member::Fate::kLeft ? fabric::Cause::kLeft : fabric::Cause::kDied;
}

bool Endpoint::has_left(Rank r) const { return end_of(r) == kHasLeft; }

void Endpoint::damaged(Rank r, const std::string& what) {
  fail(Code::kAborted, Blame::kCommunicator, r,
       fmt::format("what came from rank {} ({}) is damaged: {}", r, describe(r), what));
}

void Endpoint::fail(Code code, Blame blame, Rank culprit, const std::string& message) {
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

bootstrap::Record Endpoint::record_of(Rank r) const {
  if (r != node_) return meeting_.ranks[static_cast<std::size_t>(r)];
  bootstrap::Record node = meeting_.ranks.front();
  node.data.port = node.aggregation_port;
  return node;
}

std::string Endpoint::describe(Rank r) const { return record_of(r).text(); }

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
  return p && p->all_attached && end_of(r).empty();
}

bool Endpoint::any_stays() const {
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

// The calls up to this one, as far as they are known: the peer finds the first that differs from its own.
void Endpoint::describe_calls(Rank to, std::uint64_t until) {
  if (std::exchange(peer(to).described, true)) return;
  for (std::uint64_t number = until; is_known(number); --number) {
    const auto& [signature, description] = made(number);
    control(to, FrameKind::kCall, 0, number, static_cast<std::uint32_t>(description.fields),
            static_cast<std::uint32_t>(description.fields >> 32), description.count, chain_of(signature));
    if (until - number >= 16) return;
  }
}

bool Endpoint::awaits_reason(Rank r) {
  constexpr std::chrono::milliseconds kForReason{100};
  if (!call_.everybody || r == node_ || r == rank_ || !listens(r) || broken_) return false;
  Peer& p = peer(r);
  if (!p.calls.empty()) return false;
  const auto now = Clock::now();
  if (p.reason_asked == Clock::time_point{}) {
    p.reason_asked = now;
    describe_calls(r, calls_);
    control(r, FrameKind::kQuery, 0, call_number());
  }
  return now - p.reason_asked < kForReason;
}

Rank Endpoint::unread() {
  for (const Rank r : known_)
    for (std::size_t strand = 0; strand < kStrands; ++strand)
      if (peer(r).streams[strand].head().begun) return outward(r);
  return -1;
}

fabric::Disagreement Endpoint::disagreement() const {
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

Rank Endpoint::culprit_behind(Rank awaited, std::chrono::milliseconds lately) const {
  const auto& p = peers_[static_cast<std::size_t>(awaited)];
  if (!p || Clock::now() - p->answered > lately || p->waits_for < 0 || p->waits_for >= ranks()) return awaited;
  const Rank culprit = p->suspects >= 0 && p->suspects < ranks() ? p->suspects : p->waits_for;
  return culprit == rank_ ? awaited : culprit;  // a cycle: everyone waits
}

void Endpoint::say_awaited(Rank awaited, std::chrono::milliseconds lately) {
  const Rank suspicion = awaited < 0 ? -1 : culprit_behind(awaited, lately);
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

void Endpoint::break_off(Rank culprit, fabric::Cause cause) {
  if (broken_) return;
  for (std::size_t i = 0; i < known_.size(); ++i)
    if (listens(known_[i])) tell_broken(known_[i], {culprit, cause});
  broken_ = true;
  by_ = {culprit, cause};
  forget_targets();
  if (meeting_.member) {
    // Also those without a connection, before this rank reports the error and perhaps exits; and those that still read
    // what this rank's caller may change from now on.
    std::vector<Rank> others;
    for (Rank r = 0; r < ranks(); ++r)
      if (r != rank_ && end_of(r).empty() && (carrier_->reads_callers(r) || (!told_ && !listens(r))))
        others.push_back(r);
    if (!told_ || !others.empty()) meeting_.member->tell_broken({culprit, static_cast<std::uint32_t>(cause)}, others);
  }
  carrier_->drop_callers();
}

void Endpoint::forget_targets() {
  for (const Rank r : known_)
    for (Stream& s : peer(r).streams) s.want({}, 0, nullptr);
}

void Endpoint::tell_broken(Rank r, const Broken& by) {
  control(r, FrameKind::kBroken, 0, static_cast<std::uint64_t>(by.culprit) + 1, static_cast<std::uint32_t>(by.cause));
}

}  // namespace weft::net::messages
