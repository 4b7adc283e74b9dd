#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "api/session/access.h"
#include "api/session/description.h"
#include "api/session/operation.h"
#include "base/log.h"
#include "base/result.h"
#include "exec/executor.h"
#include "exec/recorder/recorder.h"

namespace weft::session {

// Runs the operations of a communicator, one at a time, and keeps what has broken it. Thread: the communicator's.
class Runner {
 public:
  static constexpr std::chrono::milliseconds kForEver = kMostTimeout;

  // Requires: the executor lives longer.
  explicit Runner(exec::Executor* executor) : executor_(executor), timeout_(executor->timeout()), copies_(executor) {}

  exec::Executor& executor() const { return *executor_; }

  // Operations from here on are recorded. null: they are not. `folder`: where the record is left when the communicator
  // breaks; empty: nowhere.
  void record(recorder::Recorder* recorder, std::string folder);
  recorder::Recorder* recorder() const { return recorder_; }
  void log_to(std::shared_ptr<const Log> log);

  // What has broken the communicator, and every further call gets.
  const std::optional<Error>& failure() const { return failure_; }
  bool sound() const { return !failure_ && !executor_->aborted(); }
  // Is anything known that forbids another operation?
  Status intact();
  // Lets every call get this error from here on.
  Status fail(tl::unexpected<Error> error);
  // … and leaves the record.
  Status fail_and_record(tl::unexpected<Error> error);

  // Of the waits from here on; 0: none. Errors (bad input): check_timeout().
  Status set_timeout(std::chrono::milliseconds timeout);
  std::chrono::milliseconds timeout() const { return timeout_; }
  // A wait that keeps its own time begins or ends.
  void keep_time(bool elsewhere);

  // Collectives are part of another call, until leave().
  void enter(Inside call, std::uint64_t count) { within_ = call, within_count_ = count; }
  void leave() { enter(Inside::kNothing, 0); }

  // The number of the last operation.
  std::uint64_t operations() const { return operations_; }
  std::uint64_t next_number() { return ++operations_; }

  // From its beginning to its end. Requires: nothing is running.
  Status run(const Order& order);

  // The same in steps. Memory for a call that needs it comes first. Errors: kNoResources, which break the communicator.
  Status make_room(const Order& order);
  // True: it has finished.
  bool begin(const Order& order);
  bool running() const { return running_; }
  // After the executor. Peers' memory that the program has read must still be whole.
  Status ended(const Prepared& prepared) { return prepared.call.publishes ? executor_->still_whole() : Status(); }
  // … and the status that the caller gets.
  Status finish(const Order& order, Status status);

 private:
  void log_call(const Order& order) const;
  // An operation has gone well.
  void note_end(const Order& order);
  // What remains to be done with this rank's result when all operations are.
  void complete(const Order& order);
  void stop_running();
  // Tells the executor how long it may wait.
  void apply_timeout();
  Error in_context(const Order& order, Error error) const;
  // Says what this rank and a peer called, as far as both are known.
  void explain(const Order& order, Error& error) const;

  exec::Executor* executor_;
  recorder::Recorder* recorder_ = nullptr;
  std::string record_folder_;
  std::shared_ptr<const Log> log_ = std::make_shared<const Log>();
  const Log* calls_ = nullptr;                                // null: calls are not logged
  std::chrono::milliseconds timeout_;                         // the communicator's
  std::optional<std::chrono::milliseconds> running_timeout_;  // of the operation that runs
  bool time_is_kept_ = false;                                 // by a wait for a message with a tag
  Copies copies_;
  bool running_ = false;  // an operation has been handed to the executor
  std::uint64_t operations_ = 0;
  std::uint64_t chain_ = 0;           // the signatures of all calls so far, one made of the other
  Inside within_ = Inside::kNothing;  // the call whose collectives begin
  std::uint64_t within_count_ = 0;
  std::optional<Error> failure_;
};

}  // namespace weft::session
