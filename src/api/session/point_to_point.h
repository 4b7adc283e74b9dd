#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "exec/fabric/lane.h"
#include "weft/communicator.h"

namespace weft::session {

// A header that precedes every message with a tag, or a control message about one. Fits one cache line of LL64.
struct Envelope {
  enum class Kind : std::uint8_t {
    kEager = 1,  // a message; its bytes are in `small` or follow
    kAsk,        // a message whose bytes wait for kGo
    kGo,         // the message `sequence` of the peer is wanted
    kBytes,      // they follow
    kRefuse,     // the message `sequence` does not fit: count and type are the receiver's
    kCancel,     // the message `sequence` that was asked for is not sent any more
    kGone,       // … and will not follow although it was wanted
    kCredit,     // only `taken`
  };
  static constexpr std::size_t kSmall = 24;

  Kind kind = Kind::kCredit;
  DataType type = DataType::kUint8;
  std::int32_t tag = 0;
  std::uint64_t count = 0;     // elements
  std::uint64_t sequence = 0;  // of the message among its sender's to this rank
  std::uint64_t taken = 0;     // what the sender of this has freed of what it received, see PointToPoint::kBudget
  std::byte small[kSmall] = {};
};
static_assert(sizeof(Envelope) == 56 && std::is_trivially_copyable_v<Envelope>);

// A send or receive with a tag, from its start until it is done. Owns: no memory.
struct TaggedOperation {
  bool sends = false;
  std::byte* data = nullptr;  // a sender's is only read
  std::size_t count = 0;
  DataType type = DataType::kUint8;
  Rank peer = 0;  // kAnySource: any
  std::int32_t tag = 0;
  std::optional<std::chrono::milliseconds> timeout =
      {};                                            // from its start; empty: the communicator's, of a wait; 0: none
  std::chrono::steady_clock::time_point since = {};  // of its start, where it has a timeout

  bool done = false;
  Status status = {};
  Received received = {};
  Rank partner = -1;           // a receive's, once a message is bound to it
  std::uint64_t sequence = 0;  // of the message

  Bytes bytes() const;
  std::string text() const;  // "send of 10 float32 to rank 1 with tag 3"
};

// Messages with tags between the ranks of a communicator, in an order of their own: they are independent of collectives
// and of transfers without tags. Between two ranks messages of matching tags are taken in the order in which they were
// sent; receives from any rank serve the senders in turn.
//   Eager       up to kEagerBytes: sent at once, and kept by the receiver until a receive matches.
//   Rendezvous  longer ones, and short ones of whose sender the receiver keeps kBudget already: only the envelope is
//               sent; the bytes follow when a receive has matched, and go where they belong.
// A receiver keeps at most kBudget bytes of eager messages and kMostAsked envelopes per sender; what is beyond stays
// with the sender, whose send is not done. Thread: the communicator's. Owns: copies of eager messages; the lane must
// outlive it only while it is used.
class PointToPoint final : public fabric::Background {
 public:
  using Operation = std::shared_ptr<TaggedOperation>;
  static constexpr Bytes kEagerBytes = Bytes{16} << 10;  // a choice
  static constexpr std::uint64_t kBudget = 1 << 20;      // bytes, envelopes included: a choice
  static constexpr std::size_t kMostAsked = 1024;

  PointToPoint(fabric::Lane& lane, Rank rank, Rank ranks);

  // Requires: not begun. It may be done at once.
  void begin(const Operation& operation);
  bool pending() const override { return unfinished_ > 0 || !settling_.empty() || control_waits_; }
  bool progress() override;
  // Takes an operation out that has not been begun to move; false: its bytes are on their way.
  bool cancel(const Operation& operation, const Error& error);
  // Everything unfinished ends with this error.
  void fail_all(const Error& error);
  // Whom a wait for this operation waits for; empty: for nobody who could still send.
  std::vector<Rank> awaited(const TaggedOperation& operation) const;
  // The messages that have come and that nobody has received: "rank 1, tag 3"; empty: none. At most a few.
  std::string unexpected() const;
  std::optional<Rank> unexpected_from() const;
  // One that is not done; null: none.
  Operation unfinished() const;
  // Takes in what has come from everybody.
  void read_all();
  // A peer that broke the rules of the exchange.
  const std::optional<Error>& fault() const { return fault_; }

 private:
  using Kind = Envelope::Kind;
  // An envelope, and the bytes behind it, on their way out.
  struct Outgoing {
    Envelope envelope;
    const std::byte* at = nullptr;  // what is to be sent next
    Bytes left = 0;
    const std::byte* begin = nullptr;
    Bytes bytes = 0;
    bool begun = false;
    Rank to = -1;
    Operation operation = nullptr;  // done when all of it is on its way; null: nothing is
  };
  struct Unexpected {
    Envelope envelope;
    std::vector<std::byte> data;
  };
  struct Peer {
    // Out.
    std::deque<Operation> waiting;              // sends without an envelope on its way
    std::deque<std::unique_ptr<Outgoing>> out;  // in order
    std::map<std::uint64_t, Operation> asked;   // sends that wait for kGo
    std::uint64_t sequence = 0;                 // of the last message
    std::uint64_t eager = 0, freed = 0;         // cost of eager messages sent, and of those that the peer has freed
    // In.
    std::deque<Unexpected> unexpected;
    std::map<std::uint64_t, Operation> granted;  // receives that wait for kBytes; null: the bytes are dropped
    std::uint64_t taken = 0, announced = 0;      // cost of eager messages freed here, and what the peer knows of that
    int awaited = 0;                             // receives of this rank by name, unfinished
    Envelope envelope;                           // that is read, or whose bytes are
    bool reading = false;                        // bytes
    std::byte* to = nullptr;
    bool drops = false;  // all into one place
    Bytes left = 0;
    std::vector<std::byte> buffer;  // of an eager message that nobody waits for, or to drop into
    Operation into = nullptr;
  };

  Peer& peer(Rank r);
  std::unique_ptr<Outgoing> outgoing(Rank to, Kind kind, std::uint64_t sequence);
  void say(Rank to, Kind kind, std::uint64_t sequence, std::size_t count = 0, DataType type = DataType::kUint8);
  void begin_send(const Operation& send);
  void send_to_self(const Operation& send);
  void begin_receive(const Operation& receive);
  bool post_waiting(Rank r, Peer& p);
  bool flush(Rank r, Peer& p);
  bool settle();
  bool read(Rank r, Peer& p);
  void opened(Rank r, Peer& p);
  void closed(Rank r, Peer& p);
  void arrived(Rank r, Peer& p, std::vector<std::byte> data);
  Operation match(Rank r, const Envelope& envelope);
  static bool matches(const TaggedOperation& receive, Rank r, const Envelope& envelope);
  // Binds the message to the receive. False: they do not agree, and the receive is done.
  bool bind(Rank r, const Envelope& envelope, const Operation& receive);
  void grant(Rank r, const Envelope& envelope, const Operation& receive);
  void give_to(Rank r, Unexpected message, const Operation& receive);
  void free_eager(Rank r, Peer& p, const Envelope& envelope);
  void finish(const Operation& operation, Status status = {});
  void damaged(Rank r, const char* what);
  static std::uint64_t cost(const Envelope& envelope);
  static Bytes bytes_of(const Envelope& envelope);

  fabric::Lane& lane_;
  Rank rank_, ranks_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Rank> known_;       // those that are not null
  std::list<Operation> posted_;   // receives without a message, in order
  int unfinished_ = 0, any_ = 0;  // operations; receives from any rank without a message
  Rank served_ = 0;               // the sender of the last message that a receive from any rank has got
  bool control_waits_ = false;
  std::deque<std::unique_ptr<Outgoing>> settling_;  // sent, but perhaps not yet on their way
  std::vector<std::unique_ptr<Outgoing>> spare_;
  std::optional<Error> fault_;
};

}  // namespace weft::session
