#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "exec/fabric/fabric.h"
#include "net/memory/doorbell.h"

namespace weft::net::memory {

// A rank's knowledge of whether another program computes on its core. A rank that yields there comes back after that
// program's slice of time, and Linux (6.6 and later) lets it wait longer at its next wake; one that sleeps goes on when
// it is rung. A rank learns it by the time that a yield takes, so one that sleeps instead yields again now and then:
// after 4 ms at first, and after twice as long, up to a second, each time that another one still computes.
class Crowd {
 public:
  using Clock = std::chrono::steady_clock;
  bool computes_here(Clock::time_point now) const { return now < until_; }
  // `peers`: how many of this rank's wait on this core, too, and may have had their turn. Asked only if it took long.
  void yielded(Clock::duration took, Clock::time_point now, const std::function<Rank()>& peers);

 private:
  static constexpr std::chrono::microseconds kBrief{300};
  static constexpr std::chrono::microseconds kSlice{500};  // less than EEVDF's least slice, which is 0.7 ms
  static constexpr std::chrono::milliseconds kFirst{4}, kLongest{1000};
  Clock::time_point until_{};
  Clock::duration lasts_ = kFirst;
};

// How a rank waits when nothing moves: spins briefly, then lets other threads run, then sleeps until rung. A rank that
// has its core together with another one lets it run at once, as kernels may leave both there for seconds. Notices,
// while it waits, that the communicator is broken, that a peer has died or left, and that too much time has passed.
// Thread: the endpoint's.
class WaitPolicy {
 public:
  struct Limits {
    int spins = 2000;                         // looks before the first yield; few where ranks outnumber cores
    std::chrono::microseconds yielding{500};  // before the first sleep
    std::chrono::milliseconds timeout{30000};
  };
  // Whom the caller waits for; empty: it can go on.
  using WaitingFor = std::function<std::vector<Rank>()>;

  // `has_ended`: that peer has died or left; asked every few milliseconds at most, about peers that are waited for.
  // Others may leave: they have done their part. A peer is only reported when another look finds nothing that it still
  // sent.
  // `names`: what the ranks are called in messages, where a larger communicator numbers them otherwise; empty: as here.
  WaitPolicy(Segment segment, Rank rank, Limits limits, std::function<bool(Rank)> has_ended,
             std::vector<Rank> names = {});

  // Call when something has moved.
  void reset() {
    if (looks_ != 0) restart();
  }
  // A wait begins, maybe after looks that did not wait: it spins first, too.
  void begin() {
    if (looks_ > 1) looks_ = 1;
  }
  // How long to wait from now on. Waits that a program may make as long as it likes still end if a peer has ended.
  void set_timeout(std::chrono::milliseconds timeout) { limits_.timeout = timeout; }
  // Marks the communicator as broken for every rank, when the caller finds a peer at fault itself.
  void break_off(Rank culprit, fabric::Cause cause = fabric::Cause::kFailed) { mark_broken(culprit, cause, rank_); }
  // The same where another rank has found it. Ranks outside of the segment: see outside().
  void break_off(Rank culprit, fabric::Cause cause, Rank finder) { mark_broken(culprit, cause, finder); }
  // A rank outside of the segment, by its name, as break_off() takes it.
  Rank outside(Rank name) const { return segment_.ranks() + name; }
  // See exec::Executor.
  void say_why(const std::string& words);
  // The rank that broke the communicator and how, if one did.
  struct Broken {
    Rank culprit;  // its name
    fabric::Cause cause;
    Rank finder;  // likewise
  };
  std::optional<Broken> broken() const;
  // `withdrew`: why a peer that has not come to this group never will: what broke the communicator that the group was
  // split from, in ranks of this group, or that it has left. Nothing: it has come, or may. Such a peer has_ended().
  void ask_for_withdrawn(std::function<std::optional<Broken>(Rank)> withdrew);
  // What is wrong by now, whether or not this rank waits: kAborted, kPeerDied. Peers that left in good order are not.
  Status health() const;
  // Whom the calling rank's other waits, for ranks outside of the segment, end at: of those, by its name; -1: nobody is
  // known. Say it when `waiting_for` is asked.
  void waits_beside(Rank outsider) { beside_ = outsider; }
  // Whom a wait for these ranks ends at, by its name; -1: they wait for this one, or nobody can know.
  Rank culprit_behind(const std::vector<Rank>& awaited) const {
    const Rank end = wait_chain(Clock::now(), awaited).end;
    return end < 0 ? -1 : name(end);
  }
  const std::function<bool(Rank)>& has_ended() const { return has_ended_; }
  std::chrono::milliseconds timeout() const { return limits_.timeout; }
  // Call when nothing has moved and the caller does not want to wait: looks for failures now and then, never sleeps.
  Status look(const WaitingFor& waiting_for);
  // Call when nothing has moved, then look again. Errors: kPeerDied, kPeerLeft, kAborted, kTimeout; all blame the
  // communicator and mark it as broken for every rank. `waiting_for` is asked only then.
  Status pause(const WaitingFor& waiting_for) {
    if (++looks_ < limits_.spins) [[likely]] {
      if (looks_ == spins_unless_alone_) [[unlikely]]
        return pause_or_yield(waiting_for);
      relax();
      return {};
    }
    return pause_slowly(waiting_for);
  }
  // How many other ranks lately waited on the core that this one runs on? Says that this one waits there, too.
  Rank peers_on_core();
  bool shares_core() { return peers_on_core() > 0; }
  // Sleeps until rung, or for so long; every other time it only says that it will, so that the caller looks once more.
  void sleep(std::chrono::microseconds limit);

 private:
  using Clock = std::chrono::steady_clock;
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  void restart();
  // Says on which core this rank runs. Returns 1 + its number; 0: the kernel does not say.
  std::int32_t publish_core();
  Status pause_or_yield(const WaitingFor& waiting_for);
  Status pause_slowly(const WaitingFor& waiting_for);
  Status examine(Clock::time_point now, const WaitingFor& waiting_for);
  // A chain of waits: the rank that it begins with, and the one it ends at, which does not wait; -1: a circle.
  struct Chain {
    Rank first, end;
  };
  Rank end_behind(Clock::time_point now, Rank awaited) const;
  Chain wait_chain(Clock::time_point now, const std::vector<Rank>& awaited) const;
  Status time_out(Chain chain);
  Status intact() const;
  void mark_broken(Rank culprit, fabric::Cause cause, Rank finder);
  Rank name(Rank r) const {
    if (names_.empty()) return r;
    return r < segment_.ranks() ? names_[static_cast<std::size_t>(r)] : r - segment_.ranks();
  }

  Segment segment_;
  Rank rank_;
  Limits limits_;
  std::function<bool(Rank)> has_ended_;
  std::function<std::optional<Broken>(Rank)> withdrew_;
  std::vector<Rank> names_;
  Doorbell doorbell_;
  int looks_ = 0;
  // After this many looks a rank asks whether a peer has its core: spinning would only keep that one from running. 100
  // looks take about 5 us (a choice); after a wait in which it shared its core, a rank asks at once.
  static constexpr int kSomeLooks = 100, kFewLooks = 2;
  int spins_unless_alone_ = kSomeLooks;
  static constexpr unsigned kPublishEvery = 64;  // waits
  unsigned waits_ = 0;
  bool announced_ = false;
  Rank suspect_ = -1, beside_ = -1;
  Clock::time_point since_{}, examined_{};
  Crowd crowd_;
};

}  // namespace weft::net::memory
