#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fabric/fabric.h"
#include "net/bootstrap/handshake.h"
#include "net/bootstrap/meeting.h"
#include "net/tcp/wire.h"

namespace weft::net::tcp {

using Clock = std::chrono::steady_clock;

fabric::Capabilities capabilities();

struct Options {
  int sockets = 1;  // connections per pair of ranks; large messages are spread over them
  ZeroCopy zero_copy = ZeroCopy::kAuto;
  std::chrono::milliseconds timeout{30000};
  // The arithmetic of the node that sums messages, where this process has it: of Call::reduction; null: unknown.
  fabric::Fold (*fold_of)(std::uint32_t reduction) = nullptr;
};

// One rank's view of ranks that are joined by TCP. A connection is opened when it is first needed, by whoever needs it.
// Messages leave from where they lie, if that is the caller's memory: the endpoint watches that memory until the kernel
// has it (unsettled(), and no later operation overwrites it before). A message that a strand waits for arrives where it
// belongs, others in slots.
// Behind the last rank there may be a node that sums messages (aggregator.h), an Endpoint too: aggregations are
// messages to and from it. Thread: one at a time. Owns: sockets, slots, scratch.
class Endpoint final : public Receiver {
 public:
  Endpoint(bootstrap::Meeting meeting, Rank rank, const Options& options);
  ~Endpoint();

  const fabric::Capabilities& capabilities() const { return capabilities_; }
  Rank rank() const { return rank_; }
  Rank ranks() const { return ranks_; }
  const bootstrap::Meeting& meeting() const { return meeting_; }
  bool reaches(const void*, Bytes) const { return false; }

  void begin(const fabric::Call& call);
  bool ready(int strand, const protocol::Operation& operation);
  fabric::Posted post(int strand, const protocol::Operation& operation);
  bool finished(int) const { return true; }
  // A peer for whom the kernel has not yet taken all that was posted; -1: none. Until then sources must not change.
  Rank unsettled();

  Rank blocker(int strand, const protocol::Operation& operation);
  Rank mismatched() const { return mismatched_; }
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
  static constexpr std::chrono::milliseconds kLately{200};  // how long what a peer said of its waiting holds, at least

  // --- for Patience ---
  // Moves on whatever can: reads all connections, accepts, flushes, gives back what was taken. True: something moved.
  bool pump_all();
  // Gives slots back that were kept for the next message to carry.
  void give_back();
  // Is what this rank waits for large? Then looking again and again would only take it in small pieces, each with a
  // system call and an acknowledgement of its own; asleep, it gets many at once.
  bool awaits_much() const { return awaited_bytes_ >= kMuch; }
  // Until something happens on a socket, or for so long.
  void sleep(std::chrono::milliseconds limit);
  const std::optional<Error>& failure() const { return failure_; }
  // Why a peer cannot be waited for any more; empty: it can.
  const std::string& end_of(Rank peer) const { return peer_end_[static_cast<std::size_t>(peer)]; }
  std::string describe(Rank peer) const;
  // Whom this rank waits for, so that peers who ask can be told; -1: nobody.
  void say_awaited(Rank awaited, std::chrono::milliseconds lately);
  // Who is at fault if `awaited` does not move: itself, or whom it waits for in turn.
  Rank culprit_behind(Rank awaited, std::chrono::milliseconds lately) const;
  // Tells everybody connected that the communicator is broken.
  void break_off(Rank culprit, fabric::Cause cause = fabric::Cause::kFailed);
  struct Broken {
    Rank culprit;
    fabric::Cause cause;
  };
  // Who is at fault if the communicator is broken, and how.
  const std::optional<Broken>& broken() const { return by_; }
  // The first peer that has ended without saying so; -1: none is known.
  Rank died() const;

  std::byte* place(Wire& wire, const Header& header) override;
  bool arrived(Wire& wire, const Header& header) override;
  void damaged(Wire& wire, const std::string& what) override;

 private:
  struct Range {
    Bytes begin, end;
  };
  // A message on its way in.
  struct Incoming {
    Block block;
    Bytes received = 0, total = -1;
    std::uint64_t tag = 0;
    std::optional<Sum> sum;  // of which it is a part
    bool begun = false, striped = false;
    std::vector<Range> direct;  // parts that went where the strand wanted them, not into the block
  };
  // Both directions between this rank and a peer, one strand.
  struct Stream {
    std::uint64_t sent = 0, taken_by_peer = 0, signals_sent = 0;
    std::uint64_t taken = 0, told = 0, signals_came = 0, signals_taken = 0;
    std::byte* target = nullptr;   // where the next message's part is wanted …
    Range wanted{};                // … which part, and
    std::uint64_t wanted_tag = 0;  // of what
    Incoming in[kSlots];
    Incoming& head() { return in[taken % kSlots]; }
  };
  // A connection that is being made, by this rank or by a peer.
  struct Opening {
    bootstrap::UniqueFd fd;
    bootstrap::Handshake handshake;
    Rank peer;  // -1: not yet known
    int lane;
    Clock::time_point since;
    bool connecting;
  };
  struct Peer {
    std::vector<std::unique_ptr<Wire>> wires;
    std::vector<Stream> streams{kStrands};
    bool all_attached = false, started = false;
    bool owes_credit = false;
    Clock::time_point asked{}, answered{};
    Rank waits_for = -1, suspects = -1;  // as it said
    bool asks = false;                   // wants to know when this rank's suspicion changes
  };

  Peer& peer(Rank r);
  bootstrap::Record record_of(Rank r) const;
  Stream& stream(Rank r, int strand) { return peer(r).streams[static_cast<std::size_t>(strand)]; }
  void open_connections(Rank r);
  bool progress_openings();
  void attach(Opening& opening);
  bool progress_guest(Opening& guest);
  void drop_own_opening(Rank r, int lane);
  bool own_opening(Rank r, int lane) const;
  void ended(Rank r, const std::string& reason);
  void tell_broken(Rank r, const Broken& by);
  void fail(Code code, Blame blame, const std::string& message);

  bool pump(Rank r);
  bool drain(Wire& wire);
  bool available(Rank r, Stream& s, const protocol::End& end, Bytes bytes);
  bool has_room(const Stream& s) const { return s.sent - s.taken_by_peer < kSlots; }
  void want(Stream& s, const protocol::End& end, std::byte* target, Bytes bytes);
  Wire* wire_in_the_way(const protocol::Operation& operation);
  // The node that sums is a part of rank 0's process: nobody else knows it by a number.
  Rank outward(Rank r) const { return r == node_ ? 0 : r; }
  std::byte* direct_target(const protocol::Operation& operation);
  bool is_scaled(const protocol::End& end) const {
    return call_.scale.has_value() && end.kind == protocol::End::Kind::kLocal && end.memory == protocol::Memory::kIn;
  }
  std::byte* local(protocol::Memory memory);
  const protocol::Operation& through_node(const protocol::Operation& operation);
  void announce_parts(const protocol::Operation& operation);
  Rank blocker_behind_node(const protocol::Operation& operation);
  void note_part(Wire& wire, const Header& header);
  const std::byte* settle(Stream& s, const protocol::End& end, Bytes bytes, std::byte* target);
  void release(Stream& s, const protocol::End& end);
  void give_credit(Rank r, int strand);
  void send_part(const protocol::End& end, Bytes bytes, const std::byte* payload, const Block& block);
  void keep(const Header& header, const std::byte* payload);
  void control(Rank r, FrameKind kind, std::uint16_t strand, std::uint64_t number, std::uint32_t offset = 0,
               std::uint32_t total = 0, bool more_follows = false);
  void note_busy(Wire& wire);
  std::uint64_t call_number() const;
  bool differs(const Header& header) const;
  // What a message's two ends must agree on.
  std::uint64_t tag_of(const protocol::End& end) const { return end.tag != 0 ? end.tag : call_.signature; }
  void answer(Rank r);
  void handle_control(Wire& wire, const Header& header);

  bootstrap::Meeting meeting_;
  Rank rank_, ranks_;
  Rank node_ = -1;  // sums messages; -1: there is none
  protocol::Operation through_node_;
  Options options_;
  fabric::Capabilities capabilities_;
  fabric::Call call_;
  std::uint64_t calls_ = 0;
  Rank mismatched_ = -1;
  Blocks blocks_{kSlotBytes};
  std::vector<std::unique_ptr<Peer>> peers_;  // null: never needed
  std::vector<Rank> known_;                   // those that are not
  std::vector<std::string> peer_end_;
  std::vector<Opening> openings_, guests_;
  std::vector<Wire*> busy_;  // with frames that the kernel has not taken
  std::vector<Rank> owed_;   // peers to whom slots are to be given back
  std::optional<Error> failure_;
  bool broken_ = false;
  std::optional<Broken> by_;  // if broken_
  static constexpr Bytes kMuch = Bytes{48} << 10;
  Bytes awaited_bytes_ = 0;  // of the operation that was found not ready last
  Rank awaited_ = -1, suspicion_ = -1;
  bootstrap::UniqueFd epoll_;
  std::byte* scratch_ = nullptr;
  std::unique_ptr<std::byte[]> own_scratch_;
  std::vector<const std::byte*> sources_;  // of the current move
  std::vector<std::byte*> destinations_;
  std::vector<fabric::Scalar> scales_;
};

}  // namespace weft::net::tcp
