// Control messages between ranks: what they have taken and called, whom they wait for, that they leave, that the
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
  failures_.frame_came(r, f.weight());
  stirred_ |= hub_->shared();  // perhaps on the thread of another communicator
  bool head = f.kind == FrameKind::kSignal;
  if (f.kind == FrameKind::kData)
    head = s.arrived(f, at);
  else
    handle_control(r, f);
  if (failures_.is_gone(r)) {
    ended(r, FailureDetector::kHasLeft);
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
      return failures_.farewell(r, f.number);
    case FrameKind::kBroken:
      return failures_.broken_came({rank_said(f.number),
                                    f.offset & 0xff,
                                    rank_said(f.offset >> 8),
                                    {static_cast<std::uint32_t>(f.tag), f.total, f.chain}},
                                   hub_->shared());
    case FrameKind::kQuery:
      if (const auto& by = failures_.broken_by())
        return tell_broken(r, *by);  // it may have opened this communicator after the notice
      failures_.asked_by(r);
      if (differs(f)) {
        mismatched_ = r;
        describe_calls(r, calls_);
      }
      answer(r, f.number);
      if (f.number > 0 && calls_ > f.number) control(r, FrameKind::kPast, 0, calls_, 0, 0, p.sent);
      return;
    case FrameKind::kAnswer:
      failures_.answered(r, rank_said(f.offset), rank_said(f.total));
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

void Endpoint::forget(Rank r, const Frame& frame) { stream(r, frame.strand).forget(frame); }

void Endpoint::damaged(Rank r, const std::string& what) {
  failures_.fail(Code::kAborted, Blame::kCommunicator, r,
                 fmt::format("what came from rank {} ({}) is damaged: {}", r, describe(r), what));
}

void Endpoint::ended(Rank r, const std::string& reason) {
  failures_.ended(r, reason);
  if (r != node_ || reason == FailureDetector::kHasLeft) return;
  const Rank host = outward(r);
  failures_.fail(Code::kPeerDied, Blame::kCommunicator, host,
                 fmt::format("rank {} ({}), which sums messages, has ended: {}", host, describe(host), reason));
  failures_.break_off(host, fabric::Cause::kDied);
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

bool Endpoint::any_stays() const {
  const auto guard = hub_->guard();
  return std::any_of(known_.begin(), known_.end(), [this](Rank r) { return failures_.listens(r); });
}

// Calls that only some ranks make have no number, and are never compared.
std::uint64_t Endpoint::call_number() const { return call_.everybody ? calls_ : 0; }

bool Endpoint::differs(const Frame& f) const { return is_known(f.number) && f.tag != made(f.number).signature; }

void Endpoint::answer(Rank r, std::uint64_t number) {
  const std::uint64_t said = std::min(number, calls_);
  control(r, FrameKind::kAnswer, 0, is_known(said) ? said : 0, static_cast<std::uint32_t>(failures_.awaited() + 1),
          static_cast<std::uint32_t>(failures_.suspicion() + 1), is_known(said) ? made(said).signature : 0);
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
  if (!call_.everybody || r == node_ || r == rank_ || !failures_.listens(r) || failures_.is_broken()) return false;
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
  if (call_.everybody && p.past > calls_ && failures_.came(r) >= p.past_weight) {
    if (p.past_in != calls_) p.past_in = calls_, p.past_since = now;
    if (now - p.past_since >= kOvertakenFor) mismatched_ = r;
  }
  const auto pace =
      std::clamp<Clock::duration>(timeout_ / 20, std::chrono::milliseconds(20), std::chrono::milliseconds(500));
  if (now - p.asked < pace || !failures_.listens(r) || failures_.is_broken()) return;
  p.asked = now;
  control(r, FrameKind::kQuery, 0, call_number());
}

bool Endpoint::broken() const { return failures_.is_broken() || (meeting_.member && meeting_.member->is_broken()); }

std::optional<std::uint32_t> Endpoint::chain_at(std::uint64_t call) const {
  if (!is_known(call)) return std::nullopt;
  return chain_of(made(call).signature);
}

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

void Endpoint::forget_targets() {
  for (const Rank r : known_)
    for (Stream& s : peer(r).streams) s.want({}, 0, nullptr);
  hub_->carrier().divert(own_);
}

void Endpoint::tell_broken(Rank r, const BrokenBy& by) {
  const auto finder = static_cast<std::uint32_t>(by.finder + 1);
  control(r, FrameKind::kBroken, 0, static_cast<std::uint64_t>(by.culprit) + 1,
          static_cast<std::uint32_t>(by.cause) | finder << 8, by.clash.culprits, by.clash.call, by.clash.finders);
}

}  // namespace weft::net::messages
