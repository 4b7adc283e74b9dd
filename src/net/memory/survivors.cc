#include "net/memory/survivors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <thread>

#include "base/counted.h"
#include "base/membership_text.h"

namespace weft::net::memory {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRoundShift = 32;

// What is decided last: see Segment::proposal.
struct Outcome {
  std::uint64_t round = 0;  // 0: nothing is decided
  std::uint64_t words[2] = {};
  std::vector<Rank> members, ended;

  bool has(Rank r) const { return std::find(members.begin(), members.end(), r) != members.end(); }
};

// One round of one of the segment's registers.
class Round {
 public:
  Round(const Segment& segment, int which, Rank self, const std::function<bool(Rank)>& has_ended)
      : segment_(segment), which_(which), self_(self), has_ended_(has_ended) {}

  Outcome latest() const {
    const auto& decided = segment_.header().decided[which_];
    for (;;) {
      const std::uint64_t word = decided.load(std::memory_order_acquire);
      Outcome outcome{.round = word >> kRoundShift, .members = {}, .ended = {}};
      if (outcome.round == 0) return outcome;
      const auto winner = static_cast<Rank>(word & 0xffffffff) - 1;
      const auto from = segment_.proposal(winner, which_, outcome.round);
      for (int i : {0, 1}) outcome.words[i] = from[static_cast<std::size_t>(i)].load(std::memory_order_relaxed);
      for (Rank r = 0; r < segment_.ranks(); ++r) {
        if (bit(from, 2, r)) outcome.members.push_back(r);
        if (bit(from, 2 + Segment::words_of(segment_.ranks()), r)) outcome.ended.push_back(r);
      }
      std::atomic_thread_fence(std::memory_order_acquire);
      if (decided.load(std::memory_order_relaxed) == word) return outcome;
    }
  }

  // This rank takes part.
  void enter(std::uint64_t number, std::uint64_t brings) {
    number_ = number;
    segment_.block(self_).brings[which_].store(brings, std::memory_order_relaxed);
    segment_.block(self_).asked[which_].store(number_, std::memory_order_release);
  }

  bool takes_part(Rank r) const { return segment_.block(r).asked[which_].load(std::memory_order_acquire) >= number_; }
  // Whether every other rank of those takes part or has ended.
  bool complete(const std::vector<Rank>& of) const {
    return std::all_of(of.begin(), of.end(), [&](Rank r) { return r == self_ || takes_part(r) || has_ended_(r); });
  }

  // Proposes those who are here; another's proposal may win.
  void propose(const std::vector<Rank>& of) {
    const auto into = segment_.proposal(self_, which_, number_);
    for (auto& word : into) word.store(0, std::memory_order_relaxed);
    std::uint64_t bits = ~std::uint64_t{0};
    for (const Rank r : of) {
      const bool ended = r != self_ && has_ended_(r);
      if (!ended && takes_part(r)) {
        set(into, 2, r);
        bits &= segment_.block(r).brings[which_].load(std::memory_order_relaxed);
      }
      if (ended) set(into, 2 + Segment::words_of(segment_.ranks()), r);
    }
    std::random_device random;
    for (int i : {0, 1})
      into[static_cast<std::size_t>(i)].store(which_ == kAgreement ? bits : std::uint64_t{random()} << 32 | random(),
                                              std::memory_order_relaxed);
    std::uint64_t before = segment_.header().decided[which_].load(std::memory_order_acquire);
    while (before >> kRoundShift < number_ &&
           !segment_.header().decided[which_].compare_exchange_weak(
               before, number_ << kRoundShift | static_cast<std::uint64_t>(self_ + 1), std::memory_order_acq_rel)) {
    }
  }

 private:
  static bool bit(std::span<std::atomic<std::uint64_t>> of, std::size_t first, Rank r) {
    const auto at = static_cast<std::size_t>(r);
    return (of[first + at / 64].load(std::memory_order_relaxed) >> at % 64 & 1) != 0;
  }
  static void set(std::span<std::atomic<std::uint64_t>> of, std::size_t first, Rank r) {
    const auto at = static_cast<std::size_t>(r);
    of[first + at / 64].fetch_or(std::uint64_t{1} << at % 64, std::memory_order_relaxed);
  }

  const Segment& segment_;
  const int which_;
  const Rank self_;
  const std::function<bool(Rank)>& has_ended_;
  std::uint64_t number_ = 0;
};

std::vector<Rank> all_of(const Segment& segment) {
  std::vector<Rank> all;
  for (Rank r = 0; r < segment.ranks(); ++r) all.push_back(r);
  return all;
}

tl::unexpected<Error> left_out(Rank self, const std::vector<Rank>& members) {
  return failure(Code::kLeftOut, Blame::kCommunicator, "{}", left_out_text(self, members));
}

tl::unexpected<Error> interrupted(Rank self) {
  return failure_of(self, Code::kAborted, Blame::kOperation, "rank {}: interrupted", self);
}

void wait() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

}  // namespace

Result<Survivors> agree_on_survivors(const Segment& segment, Rank self, const std::function<bool(Rank)>& has_ended,
                                     std::chrono::milliseconds timeout, const std::function<bool()>& stops) {
  Round round(segment, kSurvivors, self, has_ended);
  const Outcome before = round.latest();
  const std::uint64_t asked = segment.block(self).asked[kSurvivors].load(std::memory_order_relaxed);
  // A rank that gave up in a round that is not decided yet is still in it.
  const bool in_it = asked == before.round + 1;
  if (before.round > 0 && !in_it && !before.has(self)) return left_out(self, before.members);
  const std::uint64_t number = before.round + 1;
  round.enter(number, 0);
  const std::vector<Rank> of = before.round == 0 ? all_of(segment) : before.members;
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    const Outcome outcome = round.latest();
    if (outcome.round >= number) {
      if (outcome.round > number || !outcome.has(self)) return left_out(self, outcome.members);
      return Survivors{outcome.members, fmt::format("{:016x}{:016x}", outcome.words[0], outcome.words[1])};
    }
    // A rank that left after a decision may have gone on as the decision says.
    const auto gone_on = std::find_if(of.begin(), of.end(), [&](Rank r) {
      return before.round > 0 && r != self && !round.takes_part(r) &&
             segment.block(r).state.load(std::memory_order_acquire) == RankState::kLeft;
    });
    if (gone_on != of.end())
      return failure(Code::kPeerLeft, Blame::kCommunicator,
                     "rank {}: rank {} has left this communicator, and may have gone on in its successor", self,
                     *gone_on);
    const bool complete = round.complete(of);
    if (complete || (Clock::now() >= deadline && before.round == 0)) {
      round.propose(of);
    } else if (Clock::now() >= deadline) {
      std::vector<Rank> missing;
      for (const Rank r : of)
        if (r != self && !round.takes_part(r) && !has_ended(r)) missing.push_back(r);
      auto error = failure(
          Code::kNoQuorum, Blame::kOperation,
          "rank {}: the ranks have agreed already on who goes on, and {} {} did not come to agree anew; call again",
          self, plural(missing.size(), "rank"), fmt::join(missing, ", "));
      error.value().ranks = missing;
      return error;
    } else {
      if (stops && stops()) return interrupted(self);
      wait();
    }
  }
}

Result<Agreement> agree_on_bits(const Segment& segment, Rank self, std::uint64_t bits, bool again,
                                const std::function<bool(Rank)>& has_ended, std::chrono::milliseconds timeout,
                                const std::function<bool()>& stops) {
  Round round(segment, kAgreement, self, has_ended);
  const memory::RankBlock& own = segment.block(self);
  const std::uint64_t asked = own.asked[kAgreement].load(std::memory_order_relaxed);
  const std::uint64_t number = again ? asked : asked + 1;
  round.enter(number, again ? own.brings[kAgreement].load(std::memory_order_relaxed) : bits);
  const std::vector<Rank> of = all_of(segment);
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    const Outcome outcome = round.latest();
    if (outcome.round >= number) {
      if (outcome.round > number || !outcome.has(self))
        return failure(Code::kLeftOut, Blame::kOperation, "{}", not_counted_text(self));
      return Agreement{outcome.words[0], outcome.members, outcome.ended};
    }
    if (round.complete(of) || Clock::now() >= deadline) {
      round.propose(of);
    } else {
      if (stops && stops()) return interrupted(self);
      wait();
    }
  }
}

}  // namespace weft::net::memory
