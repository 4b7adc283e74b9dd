#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/fabric/fabric.h"
#include "net/bootstrap/meeting.h"
#include "net/bootstrap/member.h"
#include "net/messages/hub.h"

namespace weft::net::messages {

// The end of a communicator: the rank at fault, how it failed, and the rank that found it.
struct BrokenBy {
  Rank culprit;
  fabric::Cause cause;
  Rank finder;
  bootstrap::Member::Clash clash = {};
  std::string words = {};
};

// Keeps how the peers of a rank have ended, whom they wait for, and how its communicator was broken. Frames,
// connections that end, and the processes of the others, which it asks, are its sources. Thread: the communicator's,
// but for say_why(). Where a function says "under the guard" its caller holds that; what frames say may then come on
// the threads of communicators that share the hub.
class FailureDetector {
 public:
  static constexpr std::chrono::milliseconds kAnswerTime{200};  // for a question to another process
  static constexpr const char* kHasLeft = "it has left";        // the end of a peer that said goodbye
  static constexpr std::chrono::milliseconds kLately{200};  // how long what a peer said of its waiting holds, at least

  // The endpoint's side. All functions but guard(), clash_with() and describe() are called under the guard.
  class Connections {
   public:
    virtual Hub::Guard guard() const = 0;
    // Is there, or has there been, a connection to this peer?
    virtual bool has_met(Rank peer) const = 0;
    // Are frames under way to this peer that still read callers' memory?
    virtual bool reads_callers(Rank peer) const = 0;
    virtual void tell_broken(Rank peer, const BrokenBy& by) = 0;
    // Tells a peer that has asked whom this rank waits for.
    virtual void tell_awaited(Rank peer) = 0;
    // What comes from here on goes nowhere but into blocks: callers' memory is theirs again.
    virtual void forget_targets() = 0;
    virtual void drop_callers() = 0;
    // The first call in which this rank and the peer differ.
    virtual bootstrap::Member::Clash clash_with(Rank peer) const = 0;
    // The fingerprint of this rank's calls up to that one; empty: it is not known, or no more.
    virtual std::optional<std::uint32_t> chain_at(std::uint64_t call) const = 0;
    // What the peer calls a group that was split off.
    virtual ContextId number_at(Rank peer) const = 0;
    virtual std::string describe(Rank peer) const = 0;

   protected:
    ~Connections() = default;
  };

  // `peers`: the ranks, and nodes behind them. `known_as`: what others call this rank. Requires: both live longer.
  FailureDetector(Connections& connections, const bootstrap::Meeting& meeting, Rank rank, Rank known_as,
                  std::size_t peers)
      : connections_(connections), meeting_(meeting), rank_(rank), known_as_(known_as), peers_(peers) {}

  // --- What frames and connections say; under the guard ---
  void frame_came(Rank peer, std::uint64_t weight);
  std::uint64_t came(Rank peer) const { return at(peer).came; }  // weights of frames
  // The peer leaves; `weight`: of all that it sent before.
  void farewell(Rank peer, std::uint64_t weight) { at(peer).farewell = weight; }
  bool is_gone(Rank peer) const { return at(peer).farewell && at(peer).came >= *at(peer).farewell; }
  void ended(Rank peer, const std::string& reason);
  void connected(Rank peer);
  // The peer wants to know whom this rank waits for, and when that changes.
  void asked_by(Rank peer) { at(peer).asks = true; }
  // Whom the peer says that it waits for, and whom it suspects; -1: nobody.
  void answered(Rank peer, Rank waits_for, Rank suspects);
  // The peer says that the communicator is broken. `shared`: perhaps on another communicator's thread.
  void broken_came(const bootstrap::Member::Broken& found, bool shared);

  // --- The ends of peers ---
  // Why a peer cannot be waited for any more; empty: it can.
  std::string end_of(Rank peer) const;
  // The same under the guard.
  const std::string& end(Rank peer) const { return at(peer).end; }
  // Connected, and not known to have ended; under the guard.
  bool listens(Rank peer) const { return connections_.has_met(peer) && end(peer).empty(); }
  // Has it said goodbye, and has all that it sent before come?
  bool has_left(Rank peer) const { return end_of(peer) == kHasLeft; }
  // The first peer that has ended without saying so; -1: none is known.
  Rank died() const;
  // Whether a peer that cannot be waited for has ended or only left: asks its process. It may say more: see failure().
  fabric::Cause fate_of(Rank peer);
  // Of a group that was split from a communicator: whether a peer of which nothing has come will never come to it, as
  // the split has failed there. Asks its process now and then; see end_of() and failure() afterwards.
  bool stays_away(Rank peer);
  // Whether the communicator is broken, of a peer of which nothing has come: asks its process now and then, as the
  // notice of a rank that has failed may be lost, or have come before this communicator was opened. See failure()
  // afterwards.
  void ask_silent(Rank peer);

  // --- Chains of waits ---
  // Notes whom this rank waits for, as an answer to peers that ask.
  void say_awaited(const std::vector<Rank>& awaited, std::chrono::milliseconds lately);
  Rank awaited() const { return awaited_; }
  Rank suspicion() const { return suspicion_; }
  // Whom the calling rank's other waits, for ranks that it reaches otherwise, end at; -1: nobody is known.
  void waits_beside(Rank other) { beside_ = other; }
  bool waits_beside() const { return beside_ >= 0; }
  // A chain of waits: the rank that it begins with, and the one it ends at, which does not wait; -1: a circle.
  struct Chain {
    Rank first = -1, end = -1;
  };
  Chain wait_chain(const std::vector<Rank>& awaited, std::chrono::milliseconds lately) const;
  // The rank at the end of the chain of waits, as far as those in it have said lately; -1: a circle. Under the guard.
  Rank end_behind(Rank awaited, std::chrono::milliseconds lately) const;

  // --- The end of the communicator ---
  std::optional<Error> failure() const;
  void fail(Code code, Blame blame, Rank culprit, const std::string& message);
  // What the processes of other ranks have said since: that the communicator is broken, and why.
  void listen_to_member();
  // See exec::Executor. Thread: any.
  void say_why(const std::string& words);
  // Tells all ranks that the communicator is broken: those that are connected, and the processes of the others.
  void break_off(Rank culprit, fabric::Cause cause = fabric::Cause::kFailed);
  // The same, found by another rank.
  void break_off(const BrokenBy& by);
  bool is_broken() const { return broken_; }
  // Who is at fault if the communicator is broken, and how.
  const std::optional<BrokenBy>& broken_by() const { return by_; }

 private:
  // Between questions to a process, each later than the one before.
  struct Pace {
    Clock::time_point asked{};
    std::chrono::milliseconds pause{0};
    bool is_due(std::chrono::milliseconds first);
  };
  struct Peer {
    std::string end;                        // how it has ended; empty: it has not
    std::uint64_t came = 0;                 // weights of frames
    std::optional<std::uint64_t> farewell;  // it has left; the weight of what it sent before
    Clock::time_point answered{};
    Rank waits_for = -1, suspects = -1;     // as it said
    bool asks = false;                      // wants to know when this rank's suspicion changes
    bool here = false, stays_away = false;  // a frame has come; none ever will
    Pace absence, news;                     // of questions to its process
  };

  Rank ranks() const { return static_cast<Rank>(meeting_.ranks.size()); }
  Peer& at(Rank r) { return peers_[static_cast<std::size_t>(r)]; }
  const Peer& at(Rank r) const { return peers_[static_cast<std::size_t>(r)]; }
  fabric::Cause fate_in_parent(Rank r);
  bool note_broken_parent(const bootstrap::Member::Broken& found);
  void note_broken(const bootstrap::Member::Broken& found);
  std::string by_words_of(const bootstrap::Member::Broken& found) const;
  Rank deviant_of(const BrokenBy& by);
  void tell_processes(const BrokenBy& by, bool all);

  Connections& connections_;
  const bootstrap::Meeting& meeting_;
  const Rank rank_, known_as_;
  std::vector<Peer> peers_;
  std::optional<Error> failure_;
  std::optional<bootstrap::Member::Broken> received_;  // that it is broken, on another communicator's thread perhaps
  bool broken_ = false;
  bool told_ = false;           // by another rank
  std::optional<BrokenBy> by_;  // if broken_
  std::mutex words_mutex_;
  std::string words_;  // of this rank; by words_mutex_
  Rank awaited_ = -1, suspicion_ = -1, beside_ = -1;
};

}  // namespace weft::net::messages
