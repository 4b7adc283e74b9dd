#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/session/call_guard.h"
#include "api/session/groups.h"
#include "api/session/operation_queue.h"
#include "api/session/planner.h"
#include "api/session/point_to_point.h"
#include "api/session/runner.h"
#include "base/forks.h"
#include "base/log.h"
#include "exec/executor.h"
#include "exec/recorder/recorder.h"

namespace weft::session {

// What is behind a Communicator: an executor, the operations that it runs, and the way from its beginning to its end.
// Thread: one at a time, inside a turn or a visit of its guard; abort() from any.
class Session {
 public:
  using Clock = std::chrono::steady_clock;

  Session(std::unique_ptr<exec::Executor> executor, Rank ranks_per_node, Chooser chooser, Streams streams = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // From now on operations are recorded. `folder`: where the record is left when the communicator breaks; empty:
  // nowhere. Requires: nothing has been started.
  void record(std::unique_ptr<recorder::Recorder> recorder, std::string folder);

  // Every call but shrink() gets this error, of a peer that has left before this rank was ready. Requires: nothing has
  // been started.
  void begin_broken(Error error) { (void)runner_.fail(tl::make_unexpected(std::move(error))); }

  // From now on new groups can be made from this one.
  void regroup_by(std::unique_ptr<Groups> groups) {
    groups_ = std::move(groups);
    if (groups_) groups_->stops = [this] { return stops_groups(); };
  }

  // From now on calls and failures go into this log. Requires: nothing has been started.
  void log_to(std::shared_ptr<const Log> log) { runner_.log_to(std::move(log)); }

  exec::Executor& executor() { return *executor_; }
  // Collectives, and transfers without tags.
  OperationQueue& operations() { return operations_; }

  // Errors: the communicator is finalized.
  Status check_not_finalized() const { return finalized_ ? tl::make_unexpected(*runner_.failure()) : Status(); }

  using Tagged = std::shared_ptr<TaggedOperation>;
  Result<Tagged> start(TaggedOperation operation);
  Result<bool> test(const Tagged& operation);
  Status wait(const Tagged& operation);

  // Of the waits from here on; 0: none. Errors (bad input): check_timeout().
  Status set_timeout(std::chrono::milliseconds timeout) { return runner_.set_timeout(timeout); }

  // Of the last collective; null: there was none.
  const Prepared* last() const { return planner_.last(); }

  // See Communicator; split returns null for ranks without a color.
  Result<std::shared_ptr<Session>> split(std::int64_t color, std::int64_t key);
  Result<std::shared_ptr<Session>> shrink(std::span<const Rank> without = {});
  Result<std::shared_ptr<Session>> grow(UniqueId id, Rank ranks);
  Result<Agreement> agree(std::uint64_t bits);
  Status status();
  void abort(std::string_view why = {});  // visits
  // Breaks the communicator on all ranks; the error of a call in which std::bad_alloc was thrown. Requires: a turn.
  tl::unexpected<Error> out_of_memory();
  Status monitored_barrier(std::chrono::milliseconds timeout);
  Status finalize();

  const Owner owner;
  CallGuard guard;

 private:
  PointToPoint& point_to_point();
  Status break_tagged(const TaggedOperation& operation, Error error);
  void time_out(const Tagged& operation, std::chrono::milliseconds waited, bool stuck);
  Status finish_tagged();
  // A message that no call has received ends the communicator. Errors: that.
  Status all_received();

  // Is a wait for a new group or an agreement to end: interrupted, or this rank was aborted after the wait had begun?
  bool stops_groups() { return executor_->stops() || (executor_->aborted() && !was_aborted_); }
  tl::unexpected<Error> unsupported(const char* what) const;
  Error not_made(const char* what, Error error);
  // A collective of another call; started operations come first. See inside().
  Status run_inside(Inside call, std::uint64_t count, const Request& request);
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all);
  // Runs an exchange until it is done or the time is up. The peers that it still waited for then; it is abandoned.
  Result<std::vector<Rank>> exchange_until(std::span<const Transfer> transfers, Clock::time_point deadline);

  std::unique_ptr<recorder::Recorder> recorder_;  // null: none
  std::unique_ptr<PointToPoint> point_to_point_;  // null: none yet; the executor reads and writes its memory
  std::unique_ptr<exec::Executor> executor_;
  Runner runner_;
  Planner planner_;
  OperationQueue operations_;
  Clock::time_point looked_{};      // by test(), for what is wrong
  std::unique_ptr<Groups> groups_;  // null: none can be made; uses the executor
  bool was_aborted_ = false;        // when the last of shrink(), agree() and grow() began
  bool finalized_ = false;          // by all ranks: the runner's failure says so
  static constexpr std::size_t kReserve = std::size_t{16} << 10;
  std::vector<std::byte> reserve_ = std::vector<std::byte>(kReserve);  // to say that memory has ended
  int children_ = 0;                                                   // calls of split
};

}  // namespace weft::session
