#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "exec/fabric/fabric.h"
#include "net/bootstrap/meeting.h"
#include "net/bootstrap/member.h"
#include "net/link/handshake.h"
#include "net/messages/hub.h"
#include "net/messages/stream.h"

namespace weft::net::messages {

// One rank's view of ranks that only send each other messages, over the connections of a hub. Messages leave from where
// they lie, if that is the caller's memory: the endpoint watches that memory until the carrier has it (unsettled(), and
// no later operation overwrites it before). A message that a strand waits for arrives where it belongs, others in
// slots. Behind the last rank there may be a node that sums messages (aggregator.h), an Endpoint too: aggregations are
// messages to and from it. Thread: one at a time; frames may come in on those of communicators that share the hub,
// under its guard. Owns: slots, scratch; with others, the hub.
class Endpoint final : public Hub::User {
 public:
  using MakeCarrier = Hub::MakeCarrier;

  // Of those who have met: the first of a hub. Takes the meeting's listener.
  Endpoint(const fabric::Capabilities& capabilities, bootstrap::Meeting meeting, Rank rank,
           std::chrono::milliseconds timeout, const MakeCarrier& make_carrier);
  // Of a group that was split from a communicator of the branch's hub.
  Endpoint(const fabric::Capabilities& capabilities, bootstrap::Meeting meeting, Rank rank,
           std::chrono::milliseconds timeout, Branch branch);
  ~Endpoint();

  const fabric::Capabilities& capabilities() const { return capabilities_; }
  Rank rank() const { return rank_; }
  Rank ranks() const { return ranks_; }
  const bootstrap::Meeting& meeting() const { return meeting_; }
  const std::shared_ptr<Hub>& hub() const { return hub_; }
  // What a rank is called in the hub.
  Rank in_hub(Rank r) const { return places_.ranks[static_cast<std::size_t>(r)]; }
  bool reaches(const void*, Bytes) const { return false; }

  void begin(const fabric::Call& call);
  // What operations mean from now on; gives back what they meant. The call keeps its number.
  void exchange_call(fabric::Call& call) {
    const auto guard = hub_->guard();
    std::swap(call_, call);
  }
  // Is memory from which something was posted still being read?
  bool reads(const std::byte* from, Bytes bytes);
  // Is there, or has there been, a connection?
  bool has_met(Rank peer) const;
  // Has it said goodbye, and has all that it sent before come?
  bool has_left(Rank peer) const;
  bool ready(int strand, const protocol::Operation& operation);
  fabric::Posted post(int strand, const protocol::Operation& operation);
  bool finished(int) const { return true; }
  // A peer for whom the carrier has not yet taken all that was posted; -1: none. Until then sources must not change.
  Rank unsettled();

  Rank blocker(int strand, const protocol::Operation& operation);
  Rank mismatched() const {
    const auto guard = hub_->guard();
    return mismatched_;
  }
  // The first call in which this rank and mismatched() differ.
  fabric::Disagreement disagreement() const;
  // Is that peer still to say what it called? It is asked, and given some time.
  bool awaits_reason(Rank peer);
  // A peer of whom a message has come that nobody has received; -1: none.
  Rank unread();
  // A peer to whom frames are under way that still read what the operation is going to overwrite; -1: none.
  Rank writer_in_the_way(const protocol::Operation& operation);
  // This memory, which outlives the endpoint, as scratch.
  void use_scratch(std::byte* memory) { scratch_ = memory; }
  // Asks a peer that keeps this rank waiting what it does itself.
  void compare_calls(Rank peer);

  // --- for the node that sums messages ---
  // The next message of a strand, if it has come whole and is part of a sum.
  struct Part {
    Sum sum;
    Bytes bytes;
    std::uint64_t tag;
  };
  std::optional<Part> part_of_sum(Rank from, int strand);
  // Is there a peer that has connected and not left?
  bool any_stays() const;
  static constexpr std::chrono::milliseconds kAnswerTime{200};  // for a question to another process
  static constexpr const char* kHasLeft = "it has left";        // the end of a peer that said goodbye
  static constexpr std::chrono::milliseconds kLately{200};  // how long what a peer said of its waiting holds, at least

  // --- for WaitPolicy ---
  // Moves on whatever can: reads all connections, accepts, sends what waits. True: something moved.
  bool pump_all();
  // Gives slots back that were kept for the next message to carry.
  void give_back();
  // Is what this rank waits for large? Then looking again and again would only take it in small pieces, each with a
  // system call and an acknowledgement of its own; asleep, it gets many at once.
  bool awaits_much() const { return awaited_bytes_ >= kMuch; }
  // Until something happens on a connection, or for so long. Not at all if something has come since `calm` that the
  // caller may have looked for before it came: a look for one message takes in others.
  void sleep(std::chrono::milliseconds limit);
  // The caller is about to look at everything that it waits for.
  void calm() {
    const auto guard = hub_->guard();
    stirred_ = false;
  }
  std::optional<Error> failure() const {
    const auto guard = hub_->guard();
    return failure_;
  }
  // Why a peer cannot be waited for any more; empty: it can.
  std::string end_of(Rank peer) const {
    const auto guard = hub_->guard();
    return peer_end_[static_cast<std::size_t>(peer)];
  }
  std::string describe(Rank peer) const;
  // Notes whom this rank waits for, as an answer to peers that ask.
  void say_awaited(const std::vector<Rank>& awaited, std::chrono::milliseconds lately);
  // Whom the calling rank's other waits, for ranks that it reaches otherwise, end at; -1: nobody is known.
  void waits_beside(Rank other) { beside_ = other; }
  bool waits_beside() const { return beside_ >= 0; }
  // A chain of waits: the rank that it begins with, and the one it ends at, which does not wait; -1: a circle.
  struct Chain {
    Rank first = -1, end = -1;
  };
  Chain wait_chain(const std::vector<Rank>& awaited, std::chrono::milliseconds lately) const;
  // What the processes of other ranks have said since: that the communicator is broken, and why.
  void listen_to_member();
  // Whether a peer that cannot be waited for has ended or only left: asks its process. It may say more: see failure().
  fabric::Cause fate_of(Rank peer);
  // Of a group that was split from a communicator: whether a peer of which nothing has come will never come to it, as
  // the split has failed there. Asks its process now and then; see end_of() and failure() afterwards.
  bool stays_away(Rank peer);
  // Whether the communicator is broken, of a peer of which nothing has come: asks its process now and then, as the
  // notice of a rank that has failed may be lost, or have come before this communicator was opened. See failure()
  // afterwards.
  void ask_silent(Rank peer);
  // See exec::Executor. Thread: any.
  void say_why(const std::string& words);
  // Tells all ranks that the communicator is broken: those that are connected, and the processes of the others.
  void break_off(Rank culprit, fabric::Cause cause = fabric::Cause::kFailed);
  struct Broken {
    Rank culprit;
    fabric::Cause cause;
    Rank finder;
    bootstrap::Member::Clash clash = {};
    std::string words = {};
  };
  // The same, found by another rank.
  void break_off(const Broken& by);
  // Who is at fault if the communicator is broken, and how.
  const std::optional<Broken>& broken_by() const { return by_; }
  // The first peer that has ended without saying so; -1: none is known.
  Rank died() const;

  std::byte* place(Rank peer, const Frame& frame) override;
  bool arrived(Rank peer, const Frame& frame, const std::byte* at) override;
  void damaged(Rank peer, const std::string& what) override;
  void ended(Rank peer, const std::string& reason) override;
  void connected(Rank peer) override;
  void exhausted(const Error& error) override { fail(error.code, error.blame, -1, error.message); }
  bool broken() const override;
  void forget(Rank peer, const Frame& frame) override;

 private:
  // Between questions to a process, each later than the one before.
  struct Pace {
    Clock::time_point asked{};
    std::chrono::milliseconds pause{0};
    bool is_due(std::chrono::milliseconds first);
  };
  struct Peer {
    std::vector<Stream> streams{kStreams};
    bool owes_credit = false;
    Clock::time_point asked{}, answered{};
    Rank waits_for = -1, suspects = -1;  // as it said
    bool asks = false;                   // wants to know when this rank's suspicion changes
    std::uint64_t sent = 0, came = 0;    // weights of frames
    struct Call {
      std::uint64_t number;
      std::uint32_t chain;
      fabric::Description description;
    };
    std::vector<Call> calls;  // that it has described
    bool described = false;   // this rank has described its own
    Clock::time_point reason_asked{}, past_since{};
    std::uint64_t past_in = 0;
    std::uint64_t past = 0, past_weight = 0;  // its latest call that it said is behind this rank's; what it had sent
    std::optional<std::uint64_t> farewell;    // it has left; the weight of what it sent before
    bool here = false, stays_away = false;    // a frame has come; none ever will
    Pace absence, news;                       // of questions to its process
  };

  // What comes from now on goes nowhere but into blocks: callers' memory is theirs again.
  void forget_targets();
  Peer& peer(Rank r);
  // How a peer has ended; empty: it has not.
  const std::string& end(Rank r) const { return peer_end_[static_cast<std::size_t>(r)]; }
  bool is_attached(Rank r) const { return hub_->attached(in_hub(r)); }
  Stream& stream(Rank r, int strand) { return peer(r).streams[static_cast<std::size_t>(strand)]; }
  void tell_broken(Rank r, const Broken& by);
  void fail(Code code, Blame blame, Rank culprit, const std::string& message);

  bool pump(Rank r);
  bool available(Rank r, Stream& s, const protocol::End& end, Bytes bytes);
  Rank reader_in_the_way(const protocol::Operation& operation);
  Rank reader_of(const std::byte* begin, const std::byte* end) const;
  // The node that sums is a part of rank 0's process: nobody else knows it by a number.
  Rank outward(Rank r) const { return r >= 0 && r == node_ ? 0 : r; }
  std::byte* direct_target(const protocol::Operation& operation);
  bool is_scaled(const protocol::End& end) const {
    return call_.scale.has_value() && end.kind == protocol::End::Kind::kLocal && end.memory == protocol::Memory::kIn;
  }
  std::byte* local(protocol::Memory memory);
  const protocol::Operation& through_node(const protocol::Operation& operation);
  void announce_parts(const protocol::Operation& operation);
  void note_part(Rank r, const Frame& frame);
  Rank blocker_behind_node(const protocol::Operation& operation);
  void gather_sources(const protocol::Operation& operation, std::byte* direct);
  void give_credit(Rank r, int strand);
  void send_part(const protocol::End& end, Bytes bytes, const std::byte* payload, const Block& block);
  void keep(const Frame& frame, const std::byte* payload);
  void send(Rank r, const Frame& frame, const std::byte* payload, const Block& block, bool more_follows);
  // `tag`: of the call, unless given.
  void control(Rank r, FrameKind kind, std::uint16_t strand, std::uint64_t number, std::uint32_t offset = 0,
               std::uint32_t total = 0, std::optional<std::uint64_t> tag = {}, std::uint32_t chain = 0);
  // Connected, and not known to have ended.
  bool listens(Rank r) const;
  std::uint64_t call_number() const;
  bool differs(const Frame& frame) const;
  // A call of this rank that is still known.
  struct Made {
    std::uint64_t signature = 0;
    fabric::Description description;
  };
  static constexpr std::uint64_t kMade = 64;
  bool is_known(std::uint64_t number) const { return number > 0 && number <= calls_ && number + kMade > calls_; }
  const Made& made(std::uint64_t number) const { return made_[number % kMade]; }
  void describe_calls(Rank to, std::uint64_t until);
  // What a message's two ends must agree on.
  std::uint64_t tag_of(const protocol::End& end) const { return call_.signature ^ end.tag; }
  void answer(Rank r, std::uint64_t number);
  bool signalled(Rank r, Stream& s);
  void handle_control(Rank r, const Frame& frame);
  fabric::Cause fate_in_parent(Rank r);
  bool note_broken_parent(const bootstrap::Member::Broken& found);
  std::string by_words_of(const bootstrap::Member::Broken& found) const;
  void tell_processes(const Broken& by, bool all);
  Rank deviant_of(const Broken& by);
  void note_broken(const bootstrap::Member::Broken& found);
  bootstrap::Member::Clash clash_with(Rank peer) const;
  Rank end_behind(Rank awaited, std::chrono::milliseconds lately) const;

  fabric::Capabilities capabilities_;
  bootstrap::Meeting meeting_;
  Rank rank_, ranks_;
  Rank node_;  // sums messages; -1: there is none
  protocol::Operation through_node_;
  std::chrono::milliseconds timeout_;
  fabric::Call call_;
  std::uint64_t calls_ = 0;
  std::vector<Made> made_{kMade};  // a ring
  Rank mismatched_ = -1;
  Hub::Offer offer_;  // of a branch; holds the number
  Hub::Places places_;
  ContextId own_ = kRoot;
  std::shared_ptr<Hub> hub_;                  // ends after the streams, whose blocks are its
  std::vector<std::unique_ptr<Peer>> peers_;  // null: never needed
  std::vector<Rank> known_;                   // those that are not
  std::vector<std::string> peer_end_;
  std::vector<Rank> owed_;  // peers to whom slots are to be given back
  std::optional<Error> failure_;
  std::optional<bootstrap::Member::Broken> received_;  // that it is broken, on another communicator's thread perhaps
  bool stirred_ = false;
  bool broken_ = false;
  bool told_ = false;         // by another rank
  std::optional<Broken> by_;  // if broken_
  std::mutex words_mutex_;
  std::string words_;  // of this rank; by words_mutex_
  static constexpr Bytes kMuch = Bytes{48} << 10;
  Bytes awaited_bytes_ = 0;  // of the operation that was found not ready last
  Rank awaited_ = -1, suspicion_ = -1, beside_ = -1;
  std::byte* scratch_ = nullptr;
  std::unique_ptr<std::byte[]> own_scratch_;
  std::vector<const std::byte*> sources_;  // of the current move
  std::vector<std::byte*> destinations_;
  std::vector<fabric::Scalar> scales_;
};

}  // namespace weft::net::messages
