#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "api/session/access.h"
#include "api/session/adopted.h"
#include "api/session/asymmetric_fence.h"
#include "api/session/description.h"
#include "api/session/fusion.h"
#include "api/session/groups.h"
#include "api/session/point_to_point.h"
#include "api/session/request.h"
#include "base/forks.h"
#include "base/log.h"
#include "exec/executor.h"
#include "exec/recorder/recorder.h"

namespace weft::session {

// The choice of a plan, handed in: `request` may force parts of it; `registered`: peers reach in and out of all ranks.
// Errors (bad input): a forced algorithm or protocol that cannot serve.
using Chooser = std::function<Result<schedule::Plan>(const schedule::Task& task, const Request& request,
                                                     const protocol::Capabilities& can, bool registered)>;

// Copying as much takes about 0.1 us.
inline constexpr Bytes kBriefBytes = 8192;

// A plan written out for one rank, kept for the next call like it.
struct Prepared : std::enable_shared_from_this<Prepared> {
  schedule::Plan plan;
  std::shared_ptr<const schedule::Program> program;
  fabric::Call call = {};           // but for the buffers, and the scalar of kPremulSum, which are its caller's
  ReduceOp op = ReduceOp::kSum;     // sum for collectives that do not reduce
  Buffers buffers = {};             // of this rank
  bool may_be_in_place = true;      // with in == out
  bool copies = false;              // peers reach a copy of this rank's buffers, not those
  std::optional<Bytes> shift = {};  // of the buffers that it is for, as shift_of()
  bool divides = false;             // an average of integers: by the number of ranks, after the sum
  std::uint32_t label = 0;          // in the record
  bool brief = false;               // moves at most kBriefBytes
};

// An operation as its caller describes it. Owns: nothing.
struct Order {
  const Request* request = nullptr;          // null: transfers
  std::span<const Transfer> transfers = {};  // instead of a request
  std::span<const std::byte> input = {};     // instead of the request's; empty: that
  const Prepared* prepared = nullptr;
  std::uint64_t number = 0;                               // of the operation on its communicator, from 1
  std::optional<std::chrono::milliseconds> timeout = {};  // see Request
  std::string_view name = {};                             // of the call that has the transfers; empty: exchange
  const AdoptedBuffers* adopted = nullptr;                // null: its buffers are where the request says
};

// An operation that outlives the call that started it.
struct Pending {
  Request request = {};
  std::vector<Transfer> transfers = {};  // instead of a request
  std::vector<std::byte> input = {};     // a copy, where the call would overwrite its own input
  std::shared_ptr<const Prepared> prepared = nullptr;
  std::uint64_t number = 0;
  std::optional<std::chrono::milliseconds> timeout = {};
  std::shared_ptr<const Fused> fused = nullptr;  // whose `whole` the request is; null: it stands alone
  AdoptedBuffers adopted = {};                   // until its end
  bool done = false;
  Status status = {};

  Order order() const {
    return {transfers.empty() ? &request : nullptr,
            transfers,
            input,
            prepared.get(),
            number,
            timeout,
            {},
            adopted ? &adopted : nullptr};
  }
};

// What is behind a Communicator: an executor, the plans it has used, and the operations that are queued.
// Thread: one at a time, inside a Turn or a Visit; abort() from any.
class Session {
 public:
  using Clock = std::chrono::steady_clock;
  // Held by every public call of the owner thread. It costs no locked instruction, which would wait until the last
  // call's messages have crossed.
  class Turn {
   public:
    explicit Turn(Session& session) : session_(session) {
      for (;;) {
        session_.inside_.store(true, std::memory_order_relaxed);
        AsymmetricFence::frequent();
        if (!session_.visited_.load(std::memory_order_acquire)) [[likely]]
          return;
        session_.inside_.store(false, std::memory_order_release);
        std::this_thread::sleep_for(kRetry);
      }
    }
    ~Turn() { session_.inside_.store(false, std::memory_order_release); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Session& session_;
  };
  // Entry of another thread, seldom: it waits until the turn is over, and turns wait until it has left.
  class Visit {
   public:
    explicit Visit(Session& session) : session_(session), alone_(session.visits_) {
      session_.visited_.store(true, std::memory_order_relaxed);
      AsymmetricFence::rare();
      while (session_.inside_.load(std::memory_order_acquire)) std::this_thread::sleep_for(kRetry);
    }
    ~Visit() { session_.visited_.store(false, std::memory_order_release); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    Session& session_;
    const std::lock_guard<std::mutex> alone_;
  };

  // Copies that bypass a core's caches.
  struct Streams {
    Bytes results_from = Bytes{32} << 20;  // results of calls that touch more; the last-level cache
    bool for_peers = true;                 // what peers fetch from memory, if it is large
  };
  Session(std::unique_ptr<exec::Executor> executor, Rank ranks_per_node, Chooser chooser);
  Session(std::unique_ptr<exec::Executor> executor, Rank ranks_per_node, Chooser chooser, Streams streams);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // From now on operations are recorded. `folder`: where the record is left when the communicator breaks; empty:
  // nowhere. Requires: nothing has been started.
  void record(std::unique_ptr<recorder::Recorder> recorder, std::string folder);

  // Every call but shrink() gets this error, of a peer that has left before this rank was ready. Requires: nothing has
  // been started.
  void begin_broken(Error error) { failure_ = std::move(error); }

  // From now on new groups can be made from this one.
  void regroup_by(std::unique_ptr<Groups> groups) {
    groups_ = std::move(groups);
    if (groups_) groups_->stops = [this] { return executor_->stops(); };
  }

  // From now on calls and failures go into this log. Requires: nothing has been started.
  void log_to(std::shared_ptr<const Log> log);

  exec::Executor& executor() { return *executor_; }

  // Errors: the communicator is finalized.
  Status check_not_finalized() const { return finalized_ ? tl::make_unexpected(*failure_) : Status(); }

  Status run(const Request& request);
  Status run(std::span<const Transfer> transfers, std::optional<std::chrono::milliseconds> timeout = {});
  Result<std::shared_ptr<Pending>> start(const Request& request);
  // As one. Requires: all are fusible.
  Result<std::shared_ptr<Pending>> start(std::span<const Request> requests);
  Result<std::shared_ptr<Pending>> start(std::span<const Transfer> transfers,
                                         std::optional<std::chrono::milliseconds> timeout = {});
  // Moves the queue on without waiting. Afterwards `pending` is done or not.
  void poll(const Pending& pending);
  Status wait(const Pending& pending);

  using Tagged = std::shared_ptr<TaggedOperation>;
  Result<Tagged> start(TaggedOperation operation);
  Result<bool> test(const Tagged& operation);
  Status wait(const Tagged& operation);

  // Of the waits from here on; 0: none. Errors (bad input): check_timeout().
  Status set_timeout(std::chrono::milliseconds timeout);

  const Prepared* last() const { return last_ != nullptr ? last_->prepared.get() : nullptr; }

  // See Communicator; split returns null for ranks without a color.
  Result<std::shared_ptr<Session>> split(std::int64_t color, std::int64_t key);
  Result<std::shared_ptr<Session>> shrink();
  Result<std::shared_ptr<Session>> grow(UniqueId id, Rank ranks);
  Result<Agreement> agree(std::uint64_t bits);
  Status status();
  void abort(std::string_view why = {});  // visits
  // Breaks the communicator on all ranks; the error of a call in which std::bad_alloc was thrown. Requires: a turn.
  tl::unexpected<Error> out_of_memory();
  Status monitored_barrier(std::chrono::milliseconds timeout);
  Status finalize();

  const Owner owner;

 private:
  static constexpr std::chrono::milliseconds kForEver = kMostTimeout;

  // Owns: the session, until another operation has been prepared.
  Result<const Prepared*> prepare(const Request& request);
  // What the last call was done with, if this is the same with the same buffers; otherwise null.
  const Prepared* again(const Request& request);
  Result<std::shared_ptr<const Prepared>> plan(const Request& request, const schedule::Task& task,
                                               const schedule::Layout& layout, const Access& access);
  Result<const Prepared*> prepare(std::span<const Transfer> transfers);
  Result<std::shared_ptr<const schedule::Program>> program_of(std::span<const Transfer> transfers) const;
  // The largest transfer that crosses in lines.
  Bytes lines_up_to() const;
  // Runs an operation that its caller waits for at once. Requires: the queue is empty.
  Status run_now(const Order& order);
  std::shared_ptr<Pending> enqueue(Pending pending);
  // True: it has finished.
  bool begin(const Order& order);
  // What remains to be done with this rank's result when all operations are.
  void complete(const Order& order);
  // After the executor: of an operation that went well.
  void note_end(const Order& order);
  void stop_running();
  Status ended(const Prepared& prepared);
  // … and the status that the caller gets.
  Status finish(const Order& order, Status status);
  void finish(Pending& pending, Status status);
  Error in_context(const Order& order, Error error) const;
  // Says what this rank and a peer called, as far as both are known.
  void explain(const Order& order, Error& error) const;
  std::uint32_t label_of(const Request& request, const schedule::Plan& plan);
  std::uint32_t exchange_label();
  void leave_record(const Error& error) const;
  void log_call(const Order& order) const;

  PointToPoint& point_to_point();
  Status break_tagged(const TaggedOperation& operation, Error error);
  void time_out(const Tagged& operation, std::chrono::milliseconds waited, bool stuck);
  Status finish_tagged();
  // Tells the executor how long it may wait now.
  void apply_timeout();

  tl::unexpected<Error> unsupported(const char* what) const;
  Error not_made(const char* what, Error error);
  // Is anything known that forbids another operation?
  Status intact();
  bool sound() const { return !failure_ && !executor_->aborted(); }
  // Lets every call get this error from now on.
  Status fail(tl::unexpected<Error> error) {
    failure_ = error.value();
    return error;
  }
  // Waits for all that was started.
  Status drain();
  // A collective of another call; started operations come first. See inside().
  Status run_inside(Inside call, std::uint64_t count, const Request& request);
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all);
  // Runs an exchange until it is done or the time is up. The peers that it still waited for then; it is abandoned.
  Result<std::vector<Rank>> exchange_until(std::span<const Transfer> transfers, Clock::time_point deadline);

  std::unique_ptr<recorder::Recorder> recorder_;  // null: none
  std::string record_folder_;
  std::shared_ptr<const Log> log_ = std::make_shared<const Log>();
  const Log* calls_ = nullptr;                    // null: calls are not logged
  std::unique_ptr<PointToPoint> point_to_point_;  // null: none yet; the executor reads and writes its memory
  std::unique_ptr<exec::Executor> executor_;
  FusionMemory fusion_{executor_.get()};
  std::chrono::milliseconds timeout_;                         // the communicator's
  std::optional<std::chrono::milliseconds> running_timeout_;  // of the operation that runs
  bool waits_for_tag_ = false;                                // a wait that keeps its own time
  Clock::time_point looked_{};                                // by test(), for what is wrong
  std::unique_ptr<Groups> groups_;                            // null: none can be made; uses the executor
  Rank ranks_per_node_;
  Chooser chooser_;
  Streams streams_;
  std::map<std::string, std::shared_ptr<const Prepared>> prepared_;
  // Keys of calls whose counts or routes may be others at every call, the oldest first: few are kept.
  static constexpr std::size_t kKeptVarying = 16;
  std::deque<std::string> varying_;
  std::shared_ptr<const Prepared>& prepared_for(const Request& request, std::string key);
  struct KnownRequest {
    Request request;       // its buffers: the last ones
    bool is_even = false;  // only then is it found again without its counts or experts
    Access access = {};
    Ballot* ballot = nullptr;
    std::shared_ptr<const Prepared> prepared;  // null: none yet
  };
  static constexpr std::size_t kKnownRequests = 16;
  // How the next call of a shape reaches its buffers, and that call is counted.
  Access count_call(Ballot& ballot, bool reached);
  // Of the request's shape. Requires: check_request().
  Ballot& ballot_of(const Request& request);
  // Leaves in adopted_ what the buffers lie in.
  bool peers_reach(const Request& request, const Buffers& buffers);
  Result<const Prepared*> prepare(const Request& request, Ballot*& counted, Ballot& before);
  // Before begin(): memory for a call that needs it. Errors: kNoResources, which break the communicator.
  Status make_room(const Order& order);
  std::vector<Ballot> ballots_;  // one where ranks need not vote
  AdoptedBuffers adopted_;       // of the call that is being prepared, until that takes them
  Copies copies_{executor_.get()};
  std::vector<KnownRequest> known_requests_;  // the latest; programs come back to a few, such as their gradients
  std::size_t requests_prepared_ = 0;
  KnownRequest* last_ = nullptr;
  struct KnownExchange {
    std::vector<Transfer> transfers;  // their addresses count only relative to each other
    std::shared_ptr<const Prepared> prepared;
  };
  std::array<KnownExchange, 8> known_exchanges_;  // the latest; programs alternate between a few, such as send, receive
  std::size_t exchanges_prepared_ = 0;
  std::deque<std::shared_ptr<Pending>> queue_;
  bool running_ = false;  // the queue's front has been handed to the executor
  std::uint64_t operations_ = 0;
  std::uint64_t chain_ = 0;           // the signatures of all calls so far, one made of the other
  Inside within_ = Inside::kNothing;  // the call whose collectives begin
  std::uint64_t within_count_ = 0;
  bool finalized_ = false;  // by all ranks: failure_ says so
  static constexpr std::size_t kReserve = std::size_t{16} << 10;
  std::vector<std::byte> reserve_ = std::vector<std::byte>(kReserve);  // to say that memory has ended
  int children_ = 0;                                                   // calls of split
  static constexpr std::chrono::microseconds kRetry{100};
  std::atomic<bool> inside_{false};   // a turn is being taken
  std::atomic<bool> visited_{false};  // somebody wants that none is
  std::mutex visits_;                 // one at a time
  std::optional<Error> failure_;      // what has broken the communicator, and every further call gets
};

}  // namespace weft::session
