#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/fabric/fabric.h"
#include "net/bootstrap/meeting.h"
#include "net/bootstrap/member.h"
#include "net/link/handshake.h"
#include "net/messages/failure_detector.h"
#include "net/messages/hub.h"
#include "net/messages/stream.h"

namespace weft::net::messages {

// One rank's view of ranks that only send each other messages, over the connections of a hub. Messages leave from where
// they lie, if that is the caller's memory: the endpoint watches that memory until the carrier has it (unsettled(), and
// no later operation overwrites it before). A message that a strand waits for arrives where it belongs, others in
// slots. Behind the last rank there may be a node that sums messages (aggregator.h), an Endpoint too: aggregations are
// messages to and from it. Thread: one at a time; frames may come in on those of communicators that share the hub,
// under its guard. Owns: slots, scratch; with others, the hub.
class Endpoint final : public Hub::User, private FailureDetector::Connections {
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
  bool has_met(Rank peer) const override {
    const auto guard = hub_->guard();
    return peers_[static_cast<std::size_t>(peer)] && is_attached(peer);
  }
  // Has it said goodbye, and has all that it sent before come?
  bool has_left(Rank peer) const { return failures_.has_left(peer); }
  // Who has ended, who waits for whom, and what has broken the communicator.
  FailureDetector& failures() { return failures_; }
  const FailureDetector& failures() const { return failures_; }
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
  std::string describe(Rank peer) const override;

  std::byte* place(Rank peer, const Frame& frame) override;
  bool arrived(Rank peer, const Frame& frame, const std::byte* at) override;
  void damaged(Rank peer, const std::string& what) override;
  void ended(Rank peer, const std::string& reason) override;
  void connected(Rank peer) override { failures_.connected(peer); }
  void exhausted(const Error& error) override { failures_.fail(error.code, error.blame, -1, error.message); }
  bool broken() const override;
  void forget(Rank peer, const Frame& frame) override;

 private:
  struct Peer {
    std::vector<Stream> streams{kStreams};
    bool owes_credit = false;
    Clock::time_point asked{};
    std::uint64_t sent = 0;  // weights of frames
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
  };

  // --- for the failure detector ---
  Hub::Guard guard() const override { return hub_->guard(); }
  bool reads_callers(Rank r) const override { return hub_->carrier().reads_callers(in_hub(r), own_); }
  void tell_broken(Rank r, const BrokenBy& by) override;
  void tell_awaited(Rank r) override { answer(r, calls_); }
  void forget_targets() override;
  void drop_callers() override { hub_->carrier().drop_callers(own_); }
  bootstrap::Member::Clash clash_with(Rank peer) const override;
  std::optional<std::uint32_t> chain_at(std::uint64_t call) const override;
  ContextId number_at(Rank r) const override { return places_.numbers[static_cast<std::size_t>(r)]; }

  Peer& peer(Rank r);
  bool is_attached(Rank r) const { return hub_->attached(in_hub(r)); }
  Stream& stream(Rank r, int strand) { return peer(r).streams[static_cast<std::size_t>(strand)]; }

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
  std::vector<Rank> owed_;                    // peers to whom slots are to be given back
  FailureDetector failures_;
  bool stirred_ = false;
  static constexpr Bytes kMuch = Bytes{48} << 10;
  Bytes awaited_bytes_ = 0;  // of the operation that was found not ready last
  std::byte* scratch_ = nullptr;
  std::unique_ptr<std::byte[]> own_scratch_;
  std::vector<const std::byte*> sources_;  // of the current move
  std::vector<std::byte*> destinations_;
  std::vector<fabric::Scalar> scales_;
};

}  // namespace weft::net::messages
