#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "net/bootstrap/consensus.h"
#include "net/bootstrap/member.h"
#include "net/bootstrap/rpc.h"

namespace weft::net::bootstrap {

// One rank's search for a decision: it follows a lower rank that coordinates, or coordinates itself.
// Thread: the caller's of decide(). Owns: nothing that it is given.
class Search {
 public:
  using Clock = std::chrono::steady_clock;
  using Value = std::shared_ptr<const Octets>;

  // `timeout`: how long ranks are waited for; see Member::decide for `has_ended`. `gone`: by rank, those that are known
  // to have ended or left.
  Search(const MemberIdentity& self, const Digest& tag, std::uint32_t instance, std::chrono::milliseconds timeout,
         const std::function<bool(Rank)>& has_ended, std::vector<bool> gone);

  // The answers of this rank's own acceptor; the decision, once it is known; how to keep one, and whether this rank
  // coordinates; how to keep that a rank has ended or left.
  std::function<Message(const Message&)> own;
  std::function<Value()> outcome;
  std::function<void(const Value&)> note_outcome;
  std::function<void(bool)> say_coordinates;
  std::function<void(Rank)> note_gone;
  std::function<bool()> stops;  // gives up; empty: never

  // Null: no quorum, or stopped().
  Value run();
  bool stopped() const { return stopped_; }
  // This process had no file descriptor left to ask the others with.
  bool cannot_ask() const { return cannot_ask_; }
  // This rank and those that have promised it.
  std::vector<Rank> present() const;

 private:
  static std::size_t index(Rank r) { return static_cast<std::size_t>(r); }
  bool waited_enough() const { return Clock::now() - begin_ >= timeout_; }
  Message request(MessageKind kind, Octets body = {}) const;
  std::vector<Answer> ask(const std::vector<Rank>& to, const Message& message);
  std::vector<Answer> ask(const std::vector<Rank>& to, const Message& message, std::chrono::milliseconds limit);
  std::chrono::milliseconds answer_time() const;
  // Another coordinator has a higher ballot: it may finish, unless it falls silent.
  void outbid(Ballot by);
  void coordinate_from_now(bool on);
  static bool takes_part(const Answer& a);
  // The lowest rank below that takes part and answers.
  void find_leader();
  // A leader is replaced when it has ended, has been silent for a quarter of the timeout, or takes far too long; a
  // higher rank also when it does not coordinate: its ballot is of an attempt that it has given up, and it may follow
  // this one.
  void follow();
  void next_ballot();
  void coordinate();
  // True: all that live have promised, or enough time has passed.
  bool prepare();
  // Its payload. Of whom it says that they have gone nobody waits any more.
  Octets take_promise(const Message& promise);
  void has_gone(Rank rank);
  bool complete() const;
  Member::Decision proposal() const;
  void ask_arbiter();
  void spread(const Value& value);

  const MemberIdentity& self_;
  const Digest& tag_;
  const std::uint32_t instance_;
  const std::chrono::milliseconds timeout_;
  const std::function<bool(Rank)>& has_ended_;
  const Clock::time_point begin_;
  std::vector<bool> gone_, promised_;
  std::map<Rank, Octets> payloads_;
  Ballot ballot_, highest_;
  Proposal<Value> bound_;
  Rank leader_ = -1, silent_ = -1;
  bool coordinating_ = false, hopeless_ = false, stopped_ = false, cannot_ask_ = false;
  Clock::time_point heard_;
};

}  // namespace weft::net::bootstrap
