#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "api/session/fusion.h"
#include "api/session/operation.h"
#include "api/session/planner.h"
#include "api/session/runner.h"

namespace weft::session {

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

// The operations of a communicator run in the order in which they were started, and move on inside any call.
// Thread: the communicator's.
class OperationQueue {
 public:
  using Timeout = std::optional<std::chrono::milliseconds>;
  using Started = std::shared_ptr<Pending>;

  // Requires: both live longer.
  OperationQueue(Planner& planner, Runner& runner) : planner_(planner), runner_(runner), fusion_(&runner.executor()) {}

  // Operations that were started come first.
  Status run(const Request& request);
  Status run(std::span<const Transfer> transfers, Timeout timeout = {});

  Result<Started> start(const Request& request);
  // As one. Requires: all are fusible.
  Result<Started> start(std::span<const Request> requests);
  Result<Started> start(std::span<const Transfer> transfers, Timeout timeout = {});
  // Moves the queue on without waiting. Afterwards `pending` is done or not.
  void poll(const Pending& pending);
  // The same for all that was started. True: one of them has ended.
  bool poll();
  Status wait(const Pending& pending);
  // As wait(), for so long. Afterwards `pending` is done or not.
  void wait_for(const Pending& pending, std::chrono::nanoseconds limit);
  // Waits for all that was started. Errors: of the last one; without any, what has broken the communicator.
  Status drain();

 private:
  Started enqueue(Pending pending);
  // Hands the front to the executor, if that has not got it. Errors: what ends it.
  Status begin_front();
  void end_front(Status status);

  Planner& planner_;
  Runner& runner_;
  FusionMemory fusion_;
  std::deque<Started> queue_;
};

}  // namespace weft::session
