#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "elements.h"
#include "endings.h"
#include "errors.h"
#include "flight_record.h"
#include "signals.h"
#include "weft/communicator.h"

// A collective that is to be run, and what its caller waits for.
namespace weft::torch_adapter {

using c10d::OpType;
using std::chrono::milliseconds;

// One collective that keeps its tensors, and what its spans refer to.
struct CollectiveCall {
  Request request;
  Tensors keeps;
  std::vector<std::size_t> counts = {}, receive = {};

  // Alone with its request: it may be put together with others.
  bool even() const { return counts.empty() && receive.empty(); }
  Status operator()(Communicator& c) const {
    Request r = request;
    r.counts = counts;
    r.receive_counts = receive;
    return c.run(r);
  }
};

// A collective, ready to run. `call` runs once; `after` copies results to where the caller wants them.
struct Task {
  OpType type;
  const char* title;  // "weft:all_reduce"
  Tensors inputs;     // for the profiler and the flight record
  Tensors results;
  std::function<Status(Communicator&)> call;
  std::function<void()> after = {};
  Tensors recorded_inputs = {}, recorded_results = {};  // for the flight record, where they are not the same
  milliseconds timeout = c10d::kUnsetTimeout;
  bool async = true;
};

class Job final : public c10d::Work {
 public:
  // `recorded`: the group whose call this is, for the flight record; null: the call is not recorded. `route`: " 0->1"
  // of a message. `timeout`: the call's own, or its group's.
  Job(int rank, const Task& task, std::uint64_t number, RecordedGroup* recorded, milliseconds timeout,
      std::shared_ptr<Endings> endings, const std::string& route = {})
      : Work(rank, task.type, task.title, task.inputs),
        results_(task.results),
        title_(task.title + route),
        number_(number),
        endings_(std::move(endings)),
        timeout_(timeout + endings_->begun(key_)),
        recorded_(recorded) {
    if (recorded_ != nullptr)
      ticket_ = FlightRecord::of_process().called(*recorded_, task.title + route, !route.empty(),
                                                  task.recorded_inputs.empty() ? task.inputs : task.recorded_inputs,
                                                  task.recorded_results.empty() ? task.results : task.recorded_results,
                                                  timeout_);
  }

  // From now on this call's duration is measured. Requires: it has not begun.
  void measure() { timed_ = true; }

  // Called once at most, on the thread that runs the task.
  void begin() {
    FlightRecord::of_process().started(ticket_);
    if (timed_) [[unlikely]]
      begun_ = std::chrono::steady_clock::now();
  }
  // Called once, on the thread that ran the task.
  void end(std::exception_ptr problem) {
    if (recorded_ != nullptr) {
      FlightRecord::of_process().ended(ticket_, problem == nullptr);
      if (problem) FlightRecord::of_process().write_after_failure(*recorded_, rank_);
    }
    c10::intrusive_ptr<c10::ivalue::Future> future, outcome;
    {
      const std::lock_guard guard(future_mutex_);
      if (timed_) [[unlikely]]
        duration_ = std::chrono::steady_clock::now() - begun_;
      ended_ = true;
      problem_ = problem;
      future = future_;
      outcome = outcome_;
    }
    endings_->ended(key_, problem == nullptr, timed_ ? std::optional(getDuration()) : std::nullopt);
    finish(problem);
    if (future) settle(*future);
    if (outcome) settle_outcome(*outcome);
  }
  // `mover` moves this call for so long, on the thread of who waits for it; false: another thread does. 0: somebody
  // looks whether it has ended, and goes on. Set before anybody can.
  void moved_by(std::function<bool(milliseconds)> mover) { mover_ = std::move(mover); }
  bool isCompleted() override {
    if (Work::isCompleted()) return true;
    if (mover_) mover_(milliseconds(0));
    return false;
  }
  // As torch's, and a signal's handler may raise meanwhile.
  bool wait(milliseconds timeout = kNoTimeout) override {
    constexpr milliseconds kAskEvery{50};
    const auto since = std::chrono::steady_clock::now();
    for (milliseconds step = kAskEvery;;) {
      if (timeout != kNoTimeout) {
        const auto passed = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - since);
        if (passed >= timeout) break;
        step = std::min(kAskEvery, timeout - passed);
      }
      const bool moves = mover_ && mover_(step);
      {
        std::unique_lock lock(mutex_);
        if (completed_ || (!moves && cv_.wait_for(lock, step, [&] { return completed_; }))) break;
      }
      if (signal_raised()) {
        if (mover_) mover_(milliseconds(0));
        std::rethrow_exception(raised_by_handler());
      }
    }
    if (timeout == kNoTimeout) return Work::wait(timeout);
    if (mover_) mover_(milliseconds(0));
    {
      const std::lock_guard lock(mutex_);
      TORCH_CHECK_WITH(DistBackendError, completed_, "weft: Operation timed out! ", title_, " #", number_,
                       " has not ended within ", timeout.count(), " ms; it goes on, and its tensors are in use");
    }
    return Work::wait(milliseconds(1));
  }
  Tensors result() override { return results_; }
  int sourceRank() const override { return source_; }
  void set_source(int rank) { source_ = rank; }
  std::uint64_t getSequencenumber() const override { return number_; }
  // How long this call may take. Overrides a function of torch 2.14; 2.13 has none.
  virtual milliseconds getTimeout() const { return timeout_; }
  // By which a completion hook knows the call. Overrides a function of torch 2.15; 2.14 has none.
  virtual std::uint64_t getCompletionKey() const { return key_; }
  void abort() override {}
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::intrusive_ptr<c10::ivalue::Future> future;
    bool ended = false;
    if (mover_) mover_(milliseconds(0));
    {
      const std::lock_guard guard(future_mutex_);
      if (future_) return future_;
      future = future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
      ended = ended_;
    }
    if (ended) settle(*future);
    return future;
  }
  // Completed with a c10d::WorkResult, also where the call fails.
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override {
    c10::intrusive_ptr<c10::ivalue::Future> outcome;
    bool ended = false;
    {
      const std::lock_guard guard(future_mutex_);
      if (outcome_) return outcome_;
      outcome = outcome_ = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
      ended = ended_;
    }
    if (ended) settle_outcome(*outcome);
    return outcome;
  }
  // Unit: milliseconds. Errors: the call was not measured, or has not ended.
  float getDuration() const override {
    const std::lock_guard guard(future_mutex_);
    TORCH_CHECK(timed_ && ended_,
                "weft: the duration is known of calls that began after timing was enabled and have ended");
    return std::chrono::duration<float, std::milli>(duration_).count();
  }

 private:
  void settle_outcome(c10::ivalue::Future& outcome) const {
    const auto result = problem_ ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS;
    outcome.markCompleted(c10::IValue(static_cast<std::int64_t>(result)));
  }
  void settle(c10::ivalue::Future& future) {
    if (problem_)
      future.setError(problem_);
    else
      future.markCompleted(c10::IValue(results_));
  }

  Tensors results_;
  const std::string title_;  // "weft:recv 0<-1"
  std::uint64_t number_;
  const Endings::Key key_ = Endings::new_key();
  const std::shared_ptr<Endings> endings_;  // the group's
  const milliseconds timeout_;
  RecordedGroup* const recorded_;
  FlightRecord::Ticket ticket_;
  std::atomic<int> source_{-1};
  bool timed_ = false;
  std::chrono::steady_clock::time_point begun_{};  // the thread that runs the task
  mutable std::mutex future_mutex_;                // of what follows
  bool ended_ = false;
  std::chrono::steady_clock::duration duration_{};
  std::exception_ptr problem_;
  c10::intrusive_ptr<c10::ivalue::Future> future_, outcome_;  // null: nobody has asked
  std::function<bool(milliseconds)> mover_;                   // empty: it moves by itself
};

inline std::exception_ptr run_task(Communicator& c, const Task& task) {
  const at::NoGradGuard no_gradients;
  try {
    const Status status = task.call(c);
    if (!status) {
      if (status.error().code == Code::kAborted)
        if (auto raised = raised_by_handler()) return raised;
      return as_exception(status);
    }
    if (task.after) task.after();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

// Of a call that has ended when it returns.
inline c10::intrusive_ptr<c10d::Work> ended_work() {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  future->markCompleted(c10::IValue(Tensors()));
  return c10d::Work::create_from_future(future);
}

}  // namespace weft::torch_adapter
