#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "net/bootstrap/meeting.h"
#include "net/link/handshake.h"
#include "net/messages/carrier.h"

namespace weft::net::messages {

// The connections of a rank's process to those of the ranks that it has met, for the communicator of their meeting and
// all that were split from it: one listener, one epoll set, one connection per peer, however many communicators use
// them. A connection is opened when it is first needed, by either end. Every communicator has a number here, its
// context id, which its ranks exchange when it is made; frames carry the receiver's. What comes for a
// communicator that is still to be opened is kept for it; what comes for one that has gone is answered by kGone. Ranks
// are called as in the communicator of the meeting. Thread: any; while one communicator alone uses the hub, that one's,
// and nothing is locked.
class Hub final : public Receiver {
 public:
  // `epoll`: the set that the hub sleeps on; events of a carrier's descriptors carry a pointer that is not null.
  using MakeCarrier = std::function<std::unique_ptr<Carrier>(Receiver& receiver, int epoll)>;

  // A communicator, as its hub sees it. Ranks are the communicator's own.
  class User {
   public:
    virtual std::byte* place(Rank peer, const Frame& frame) = 0;
    virtual bool arrived(Rank peer, const Frame& frame, const std::byte* at) = 0;
    // A part that began to come will come again.
    virtual void forget(Rank peer, const Frame& frame) = 0;
    virtual void damaged(Rank peer, const std::string& what) = 0;
    virtual void ended(Rank peer, const std::string& reason) = 0;
    // All connections to this peer are there.
    virtual void connected(Rank peer) = 0;
    // Connections cannot be made or accepted for lack of descriptors.
    virtual void exhausted(const Error& error) = 0;
    virtual bool broken() const = 0;

   protected:
    ~User() = default;
  };

  // `rank`: of this process; `last`: how many peers there may be, a node that sums messages among them.
  Hub(const bootstrap::Meeting& meeting, UniqueFd listener, Rank rank, Rank last, const MakeCarrier& make_carrier);
  ~Hub();

  // A number for a communicator that is to be opened; given back unless it is.
  class Offer {
   public:
    Offer() = default;
    Offer(std::shared_ptr<Hub> hub, ContextId number) : hub_(std::move(hub)), number_(number) {}
    Offer(Offer&& o) noexcept : hub_(std::move(o.hub_)), number_(o.number_) {}
    Offer& operator=(Offer&& o) noexcept {
      std::swap(hub_, o.hub_);
      std::swap(number_, o.number_);
      return *this;
    }
    ~Offer() {
      if (hub_ != nullptr) hub_->withdraw(number_);
    }
    const std::shared_ptr<Hub>& hub() const { return hub_; }
    ContextId number() const { return number_; }

   private:
    std::shared_ptr<Hub> hub_;
    ContextId number_ = kRoot;
  };
  static Offer offer(const std::shared_ptr<Hub>& hub);

  // Of a communicator's ranks: what they are called here, and the communicator's number at each of them.
  struct Places {
    std::vector<Rank> ranks;
    std::vector<ContextId> numbers;
  };
  // The communicator is there from now on. What has come for it follows at once.
  void join(ContextId own, const Places& places, User& user);
  // It is not any more. Waits until what it sent is on its way, and if it is the last, until that is the peers'
  // business, at most so long. `kept`: memory that frames on their way in may still be written to.
  void close(ContextId own, Clock::duration longest, std::shared_ptr<void> kept);

  using Guard = std::unique_lock<std::recursive_mutex>;
  // Nobody else touches the hub or its communicators' streams meanwhile.
  Guard guard() const { return shared() ? Guard(mutex_) : Guard(); }
  // Have several communicators used it?
  bool shared() const { return shared_.load(std::memory_order_acquire); }
  Blocks& blocks() { return blocks_; }
  bool attached(Rank peer) const;
  bootstrap::Record record_of(Rank peer) const;

  // --- under the guard ---
  // Connects with the peer, unless that has begun.
  void open(ContextId own, Rank peer);
  void send(ContextId own, Rank peer, const Frame& frame, const std::byte* payload, const Block& block,
            bool more_follows);
  bool pump(ContextId own, Rank peer);
  bool pump_all(ContextId own);
  bool progress_openings();
  bool has_guests() const { return !guests_.empty(); }
  void left(ContextId own, Rank peer);
  Carrier& carrier() { return *carrier_; }
  // Of a sleep of this communicator. False: there is something to do already. Afterwards nothing that comes for it is
  // missed by sleep(), which takes the guard itself.
  bool prepare_sleep(ContextId own);
  void sleep(ContextId own, std::chrono::milliseconds limit);

  std::byte* place(Rank peer, ContextId context, const Frame& frame) override;
  bool arrived(Rank peer, ContextId context, const Frame& frame, const std::byte* at) override;
  void damaged(Rank peer, const std::string& what) override;
  void ended(Rank peer, const std::string& reason) override;
  bool broken(ContextId context) const override;
  bool expects(Rank peer) const override;
  void forget(Rank peer, ContextId context, const Frame& frame) override;
  void lost(Rank peer, int lane, const std::string& why) override;
  void reopen(Rank peer, int lane) override;

 private:
  struct Early {  // a frame of a communicator that is still to be opened
    Rank peer;
    Frame frame;
    Block block;
    bool complete;
  };
  struct Context {
    User* user = nullptr;     // null: it is to be opened
    std::vector<Rank> ranks;  // the communicator's, by those here; -1: none
    std::vector<Rank> here;   // the ranks here, by the communicator's
    std::vector<ContextId> numbers;
    std::vector<bool> said_last;  // by ranks here: BYE or BROKEN has come
    std::deque<Early> early;
    bool sleeps = false, called = false;  // called: to wake up

    bool has(Rank peer) const { return user != nullptr && ranks[static_cast<std::size_t>(peer)] >= 0; }
    Rank of(Rank peer) const { return ranks[static_cast<std::size_t>(peer)]; }
  };
  // A connection that is being made, by this process or by a peer's.
  struct Opening {
    UniqueFd fd;
    link::Handshake handshake;
    Rank peer;  // -1: not yet known
    int lane;
    Clock::time_point since;
    bool connecting;
  };
  struct Retry {
    Rank peer;
    int lane;
    Clock::time_point at;
  };

  void withdraw(ContextId own);
  Context* find(ContextId number);
  const Context* find(ContextId number) const { return const_cast<Hub*>(this)->find(number); }
  void erase(ContextId own);
  // The communicator has something to look at.
  void call(Context& context);
  bool take_early(Context& context, Rank peer, const Frame& frame, const std::byte* at);
  void deliver_early(Context& context);
  void answer_gone(Rank peer, ContextId context, const Frame& frame);
  void note_gone(Rank peer, ContextId theirs);
  template <class Does>
  void each_with(Rank peer, const Does& does) {
    for (auto& [number, context] : contexts_) {
      if (!context.has(peer)) continue;
      does(*context.user, context.of(peer));
      call(context);
    }
  }

  bool start_opening(ContextId own, Rank peer, int lane);
  void retry_openings();
  // A connection could not be made. It is tried again where the peer has, or may get, others.
  void opening_failed(Rank peer, int lane, const std::string& why);
  // The rail of this rank and the rail of the peer that a lane joins.
  link::Route route_to(Rank peer, int lane) const;
  void log_lanes() const;
  bool has_place_for_guest();
  bool progress_guests();
  // Between two looks for connections of others.
  std::chrono::microseconds listens_every() const;
  void attach(Opening& opening, bool own);  // `own`: this process has opened it
  bool progress_guest(Opening& guest);
  void drop_own_opening(Rank peer, int lane);
  bool own_opening(Rank peer, int lane) const;

  std::vector<bootstrap::Record> records_;
  link::Key key_;
  std::shared_ptr<const Log> log_;
  UniqueFd listener_;
  Rank rank_, last_;
  UniqueFd epoll_, wake_;  // wake_: an event for each sleeper that is called
  mutable std::recursive_mutex mutex_;
  std::atomic<bool> shared_ = false;

  // All that follows: under the guard.
  Blocks blocks_{kSlotBytes};
  std::unordered_map<ContextId, Context> contexts_;
  Context* found_ = nullptr;  // the one that was looked for last
  ContextId found_number_ = kRoot;
  ContextId next_ = kRoot;
  ContextId current_ = kRoot;  // whose thread moves frames now
  int sleepers_ = 0, called_ = 0;
  std::vector<std::string> ends_;  // why a peer cannot be reached any more; empty: it can
  std::vector<bool> started_, attached_;
  std::vector<Opening> openings_, guests_;
  std::vector<Retry> retries_;
  Clock::time_point listened_{};  // for guests, last
  const Clock::time_point since_ = Clock::now();
  std::vector<std::shared_ptr<void>> kept_;
  Block sink_;                        // of bytes that nobody wants
  std::unique_ptr<Carrier> carrier_;  // ends first: its frames hold blocks
};

// A communicator that is to use its parent's connections.
struct Branch {
  Hub::Offer offer;
  Hub::Places places;
};

}  // namespace weft::net::messages
