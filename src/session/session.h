#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "exec/executor.h"
#include "weft/communicator.h"

namespace weft::session {

// The choice of a plan, handed in: `request` may force parts of it; `registered`: peers reach in and out.
// Errors (bad input): a forced algorithm or protocol that cannot serve.
using Chooser = std::function<Result<schedule::Plan>(const schedule::Task& task, const Request& request,
                                                     const protocol::Capabilities& can, bool registered)>;

// A plan written out for one rank, kept for the next call like it.
struct Prepared {
  schedule::Plan plan;
  std::shared_ptr<const schedule::Program> program;
  std::uint64_t signature = 0;
  fabric::Fold fold = nullptr;
  ReduceOp op = ReduceOp::kSum;       // sum for collectives that do not reduce
  Bytes in_bytes = 0, out_bytes = 0;  // of this rank's buffers
  bool divides = false;               // an average of integers: by the number of ranks, after the sum
};

struct Pending {
  Request request = {};
  std::vector<Transfer> transfers = {};  // instead of a request
  std::vector<std::byte> input = {};     // a copy, where the call would overwrite its own input
  std::shared_ptr<const Prepared> prepared = nullptr;
  std::uint64_t number = 0;  // of the operation on its communicator, from 1
  bool done = false;
  Status status = {};
};

// What is behind a Communicator: an executor, the plans it has used, and the operations that are queued.
class Session {
 public:
  // `cache`: bytes of the last-level cache; results of calls that touch more go past it.
  Session(std::unique_ptr<exec::Executor> executor, Rank ranks_per_node, Chooser chooser,
          Bytes cache = Bytes{32} << 20);

  exec::Executor& executor() { return *executor_; }

  Status run(const Request& request);
  Result<std::shared_ptr<Pending>> start(const Request& request);
  Result<std::shared_ptr<Pending>> start(std::span<const Transfer> transfers);
  // Moves the queue on without waiting. Afterwards `pending` is done or not.
  void poll(const Pending& pending);
  Status wait(const Pending& pending);
  const Prepared* last() const { return last_.get(); }

 private:
  Result<std::shared_ptr<const Prepared>> prepare(const Request& request);
  Result<std::shared_ptr<const Prepared>> plan(const Request& request, const schedule::Task& task,
                                               const schedule::Layout& layout, bool registered);
  Status check(const Request& request) const;
  schedule::Task task_of(const Request& request) const;
  Status check(const Transfer& transfer) const;
  Result<std::shared_ptr<const Prepared>> prepare(std::span<const Transfer> transfers) const;
  std::shared_ptr<Pending> enqueue(Pending pending);
  static void keep_input(Pending& pending);
  void begin(const Pending& pending);
  // What remains to be done with this rank's result when all operations are.
  void complete(const Pending& pending);
  void finish(Pending& pending, Status status);
  Error in_context(const Pending& pending, Error error) const;

  std::unique_ptr<exec::Executor> executor_;
  Rank ranks_per_node_;
  Chooser chooser_;
  Bytes cache_;
  std::map<std::string, std::shared_ptr<const Prepared>> prepared_;
  Request last_request_;
  bool last_registered_ = false;
  std::shared_ptr<const Prepared> last_;
  std::deque<std::shared_ptr<Pending>> queue_;
  bool running_ = false;  // the queue's front has been handed to the executor
  std::uint64_t operations_ = 0;
  Status broken_;
};

}  // namespace weft::session
