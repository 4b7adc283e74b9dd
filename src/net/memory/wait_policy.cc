#include "net/memory/wait_policy.h"

#include <sched.h>

#include <algorithm>
#include <string>

namespace weft::net::memory {
namespace {

constexpr std::chrono::milliseconds kExamineEvery{20};
constexpr Rank kMostCompared = 64;  // ranks whose cores are looked at

}  // namespace

WaitPolicy::WaitPolicy(Segment segment, Rank rank, Limits limits, std::function<bool(Rank)> has_ended,
                       std::vector<Rank> names)
    : segment_(segment), rank_(rank), limits_(limits), has_ended_(std::move(has_ended)), names_(std::move(names)) {}

void WaitPolicy::ask_for_withdrawn(std::function<std::optional<Broken>(Rank)> withdrew) {
  withdrew_ = std::move(withdrew);
  has_ended_ = [this, ended = std::move(has_ended_)](Rank r) { return ended(r) || withdrew_(r); };
}

void Crowd::yielded(Clock::duration took, Clock::time_point now, const std::function<Rank()>& peers) {
  if (took <= kBrief || took <= peers() * kSlice) {
    if (now - until_ > lasts_) lasts_ = kFirst;
    return;
  }
  lasts_ = now - until_ > 4 * lasts_ ? kFirst : std::min<Clock::duration>(2 * lasts_, kLongest);
  until_ = now + lasts_;
}

void WaitPolicy::restart() {
  looks_ = 0;
  if (++waits_ % kPublishEvery == 0) publish_core();
  since_ = {};
  suspect_ = -1;
  segment_.block(rank_).awaited.store(0, std::memory_order_relaxed);
  if (announced_) doorbell_.withdraw(segment_.block(rank_));
  announced_ = false;
}

Status WaitPolicy::look(const WaitingFor& waiting_for) {
  looks_ = limits_.spins;  // stays out of the fast path until something moves
  const auto now = Clock::now();
  if (since_ == Clock::time_point{}) since_ = examined_ = now;
  if (now - examined_ < kExamineEvery && suspect_ < 0) return {};
  examined_ = now;
  return examine(now, waiting_for);
}

std::int32_t WaitPolicy::publish_core() {
  const std::int32_t own = sched_getcpu() + 1;
  std::atomic<std::int32_t>& core = segment_.block(rank_).core;
  if (core.load(std::memory_order_relaxed) != own) core.store(own, std::memory_order_relaxed);
  return own;
}

Rank WaitPolicy::peers_on_core() {
  const std::int32_t own = publish_core();
  Rank peers = 0;
  for (Rank r = 0; own != 0 && r < std::min(segment_.ranks(), kMostCompared); ++r)
    if (r != rank_ && segment_.block(r).core.load(std::memory_order_relaxed) == own) ++peers;
  return peers;
}

Status WaitPolicy::pause_or_yield(const WaitingFor& waiting_for) {
  const bool shares = shares_core();
  spins_unless_alone_ = shares ? kFewLooks : kSomeLooks;
  if (shares || crowd_.computes_here(Clock::now())) return pause_slowly(waiting_for);
  relax();
  return {};
}

Status WaitPolicy::pause_slowly(const WaitingFor& waiting_for) {
  WEFT_CHECK(look(waiting_for));
  const auto now = Clock::now();
  if (now - since_ >= limits_.yielding || crowd_.computes_here(now)) {
    sleep(kExamineEvery);
    return {};
  }
  sched_yield();
  const auto back = Clock::now();
  crowd_.yielded(back - now, back, [this] { return peers_on_core(); });
  return {};
}

void WaitPolicy::sleep(std::chrono::microseconds limit) {
  if (announced_)
    doorbell_.sleep(segment_.block(rank_), limit);
  else
    doorbell_.announce(segment_.block(rank_));
  announced_ = !announced_;
}

std::optional<WaitPolicy::Broken> WaitPolicy::broken() const {
  const std::uint64_t broken = segment_.header().broken.load(std::memory_order_acquire);
  if (broken == 0) return std::nullopt;
  const std::uint64_t rank = broken & ((1u << kCauseShift) - 1), cause = broken >> kCauseShift & 0xf;
  return Broken{name(static_cast<Rank>(rank) - 1), static_cast<fabric::Cause>(cause),
                name(static_cast<Rank>(broken >> 32) - 1)};
}

void WaitPolicy::say_why(const std::string& words) {
  char* const place = segment_.block(rank_).words;
  if (place[0] == 0) words.copy(place, sizeof RankBlock::words - 1);
}

Status WaitPolicy::intact() const {
  const auto by = broken();
  if (!by) return {};
  const Rank self = name(rank_);
  if (by->cause == fabric::Cause::kDiffers) {
    Status differ = failure(Code::kMismatch, Blame::kCommunicator, "{}", fabric::differ_text(by->finder, by->culprit));
    differ.error().ranks = {by->finder, by->culprit};
    return differ;
  }
  if (by->cause == fabric::Cause::kCircle)
    return failure(Code::kTimeout, Blame::kCommunicator, "{}", fabric::broken_text(by->finder, by->cause, self));
  std::string words;
  for (Rank r = 0; r < segment_.ranks() && by->cause == fabric::Cause::kAborted; ++r)
    if (name(r) == by->culprit) words = segment_.block(r).words;
  return failure_of(by->culprit, fabric::code(by->cause), Blame::kCommunicator, "{}",
                    fabric::broken_text(by->culprit, by->cause, self, words));
}

Status WaitPolicy::health() const {
  WEFT_CHECK(intact());
  for (Rank r = 0; r < segment_.ranks(); ++r) {
    if (r == rank_ || !has_ended_(r) || (withdrew_ && withdrew_(r))) continue;
    const RankBlock& block = segment_.block(r);
    if (block.state.load(std::memory_order_acquire) != RankState::kLeft)
      return failure_of(name(r), Code::kPeerDied, Blame::kCommunicator, "rank {} (process {}) has ended", name(r),
                        block.pid.load(std::memory_order_relaxed));
  }
  return {};
}

Status WaitPolicy::examine(Clock::time_point now, const WaitingFor& waiting_for) {
  WEFT_CHECK(intact());
  beside_ = -1;
  const std::vector<Rank> awaited = waiting_for();
  if (awaited.empty() && beside_ < 0) return {};
  const Chain chain = wait_chain(now, awaited);
  RankBlock& self = segment_.block(rank_);
  self.waiting_at.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  self.awaited.store(chain.first + 1, std::memory_order_relaxed);
  for (const Rank peer : awaited) {
    if (!has_ended_(peer)) continue;
    if (suspect_ != peer) {
      suspect_ = peer;
      return {};
    }
    if (const auto by = withdrew_ ? withdrew_(peer) : std::nullopt) {
      mark_broken(by->culprit, by->cause, by->finder);
      return intact();
    }
    const bool left = segment_.block(peer).state.load(std::memory_order_acquire) == RankState::kLeft;
    const auto cause = left ? fabric::Cause::kLeft : fabric::Cause::kDied;
    mark_broken(peer, cause, rank_);
    return failure_of(name(peer), fabric::code(cause), Blame::kCommunicator, "rank {} (process {}) {}", name(peer),
                      segment_.block(peer).pid.load(std::memory_order_relaxed), fabric::word(cause));
  }
  return awaited.empty() || now - since_ < limits_.timeout ? Status{} : time_out(chain);
}

// At fault is not who is waited for if that rank waits itself, but the one at the end of the chain: it is stopped, or
// does something else. A rank that was stopped while it waited still says that it waits, but has not said so lately.
Rank WaitPolicy::end_behind(Clock::time_point now, Rank awaited) const {
  const auto lately = std::max<Clock::duration>(10 * kExamineEvery, limits_.timeout / 4);
  Rank end = awaited;
  for (Rank hops = 0; hops < segment_.ranks() && end != rank_; ++hops) {
    if (end >= segment_.ranks()) return end;  // an outsider, whose waits the rank before it knows
    const RankBlock& block = segment_.block(end);
    const Rank next = block.awaited.load(std::memory_order_relaxed) - 1;
    const Clock::time_point said(Clock::duration(block.waiting_at.load(std::memory_order_relaxed)));
    if (next < 0 || now - said > lately) return end;
    end = next;
  }
  return -1;
}

// A rank may wait for several, some of which wait for it: the chain that ends somewhere is the one that counts.
WaitPolicy::Chain WaitPolicy::wait_chain(Clock::time_point now, const std::vector<Rank>& awaited) const {
  for (const Rank peer : awaited)
    if (const Rank end = end_behind(now, peer); end >= 0) return {peer, end};
  if (beside_ >= 0) return {segment_.ranks() + beside_, segment_.ranks() + beside_};
  return {awaited.empty() ? -1 : awaited.front(), -1};
}

Status WaitPolicy::time_out(Chain chain) {
  const auto process = [&](Rank r) {
    return r >= segment_.ranks() ? std::string("on another machine")
                                 : fmt::format("process {}", segment_.block(r).pid.load(std::memory_order_relaxed));
  };
  if (chain.end < 0) {
    mark_broken(rank_, fabric::Cause::kCircle, rank_);
    return failure(Code::kTimeout, Blame::kCommunicator,
                   "waited {} ms for rank {} ({}), which waits itself: ranks wait for each other in a circle, and "
                   "nobody can know who is at fault",
                   limits_.timeout.count(), name(chain.first), process(chain.first));
  }
  mark_broken(chain.end, fabric::Cause::kTimedOut, rank_);
  const std::string through =
      chain.end == chain.first ? "" : fmt::format(", which keeps rank {} waiting too", name(chain.first));
  return failure_of(name(chain.end), Code::kTimeout, Blame::kCommunicator, "waited {} ms for rank {} ({}){}",
                    limits_.timeout.count(), name(chain.end), process(chain.end), through);
}

void WaitPolicy::mark_broken(Rank culprit, fabric::Cause cause, Rank finder) {
  std::uint64_t none = 0;
  const std::uint64_t why = std::uint64_t{static_cast<std::uint32_t>(cause)} << kCauseShift;
  const std::uint64_t found_by = (static_cast<std::uint64_t>(finder) + 1) << 32;
  segment_.header().broken.compare_exchange_strong(none, found_by | why | (static_cast<std::uint32_t>(culprit) + 1));
  for (Rank r = 0; r < segment_.ranks(); ++r)
    if (r != rank_) Doorbell::ring(segment_.block(r));
}

}  // namespace weft::net::memory
