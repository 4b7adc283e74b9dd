#pragma once

#include <torch/version.h>

#include <deque>
#include <map>
#include <set>

#include "../src/lane.h"
#include "meeting.h"

namespace weft::torch_adapter {

// A group's communicator, and where its calls run. Which calls there are is the derived classes' business.
class Core : public c10d::Backend {
 public:
  Core(c10::intrusive_ptr<c10d::Store> store, Communicator communicator, c10::intrusive_ptr<GroupOptions> options)
      : Core(std::move(store), communicator.rank(), communicator.ranks(), std::move(options)) {
    adopt(std::move(communicator));
  }
  // A group without members: its calls are refused until reconfigure() has given it some.
  Core(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<GroupOptions> options)
      : c10d::Backend(rank, size), store_(std::move(store)), options_(std::move(options)) {
    std::vector<std::uint64_t> ranks = options_->global_ranks_in_group;
    for (int r = 0; ranks.size() < static_cast<std::size_t>(size); ++r) ranks.push_back(static_cast<std::uint64_t>(r));
    record_as("", std::move(ranks));
  }
  ~Core() override {
    forget();
    close();
  }

  // Ends what runs in all groups of this process. `why`: what the other ranks' errors say that this rank did.
  static void abort_all(const std::string& why) {
    const std::lock_guard guard(all_mutex_);
    for (const auto& known : all_)
      if (const auto lane = known.second.lock()) lane->abort(why);
  }

  // Ends the threads of all groups of this process, and what they still run: at the end of Python no thread may wait
  // for its lock. The groups stay.
  static void end_threads() {
    const std::lock_guard guard(all_mutex_);
    for (const auto& known : all_) {
      std::unique_lock use(known.first->mutex_, std::try_to_lock);
      const auto lane = known.second.lock();
      if (!lane) continue;
      if (!use.owns_lock() || !lane->idle()) lane->abort("has ended");
      if (!use.owns_lock()) use.lock();
      lane->close();
    }
    for (const auto& known : all_) known.first->end_channels();
  }
  // Ends the threads that messages of this group have beside its lane.
  virtual void end_channels() {}

  // A group of this process whose calls are weft's.
  struct Carried {
    std::string name, asked_for;  // the name is empty until torch gives one
    int rank = 0, size = 0;
  };
  static std::vector<Carried> carried() {
    std::vector<Carried> found;
    const std::lock_guard guard(all_mutex_);
    for (auto& [core, lane] : all_)
      found.push_back({core->recorded()->name, core->options_->backend, core->getRank(), core->getSize()});
    return found;
  }

  const std::string getBackendName() const override { return options_->backend; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  c10::intrusive_ptr<GroupOptions> options() const { return options_; }
  void setTimeout(milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override {
    const auto lane = this->lane();
    const Status status = lane ? lane->communicator().status() : Status{};
    if (status) return c10d::ErrorType::SUCCESS;
    return status.error().code == Code::kTimeout ? c10d::ErrorType::TIMEOUT : c10d::ErrorType::COMM_ERROR;
  }
  void abort() override {
    run_abort_hooks();
    if (const auto lane = this->lane()) lane->abort();
  }
#ifdef C10D_BACKEND_HAS_HOOKS
  // Abort hooks run once for each communicator of the group, before abort() ends what runs, or after a call has broken
  // the communicator and before its caller gets the error. Thread: of the call that failed.
  void registerAbortHook(std::int64_t id, c10d::AbortHook hook) override {
    const std::lock_guard guard(hooks_mutex_);
    abort_hooks_[id] = std::move(hook);
  }
  void unregisterAbortHook(std::int64_t id) override {
    const std::lock_guard guard(hooks_mutex_);
    abort_hooks_.erase(id);
  }
  // Overrides a function of torch 2.15; 2.14 has none.
  virtual bool supportsAbortHooks() const { return true; }
#endif
  void shutdown() override { close(); }
#ifdef WEFT_TORCH_HAS_COMPLETION_HOOKS
  void addEphemeralTimeout(const milliseconds& more) override { endings_->extend(more); }
  // Hooks run for every call and message that has ended without an error, before its waiter goes on. Thread: of the
  // call.
  bool supportsCompletionHooks() const override { return true; }
  void registerCompletionHook(std::int64_t id, c10d::CompletionHook hook) override {
    endings_->add_hook(id, std::move(hook));
  }
  void unregisterCompletionHook(std::int64_t id) override { endings_->remove_hook(id); }
#endif
  // Calls from here to endCoalescing() end as one Work, which has their first error. They are not held back: a call
  // that its caller does not wait for moves on by itself. supportsCoalescing() stays false, for batch_isend_irecv then
  // returns a Work for every message.
  void startCoalescing() override {
    const std::lock_guard guard(coalesced_mutex_);
    coalesced_ = c10::List<c10::intrusive_ptr<c10::ivalue::Future>>(
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
    coalesces_ = true;
  }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override {
    const std::lock_guard guard(coalesced_mutex_);
    TORCH_CHECK(coalesces_, "weft: endCoalescing without startCoalescing");
    coalesces_ = false;
    return c10d::Work::create_from_future(c10::collectAll(*std::exchange(coalesced_, std::nullopt)));
  }
  void enableCollectivesTiming() override { timing_ = true; }
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  // Registered memory: collectives on it need no intermediate copy. Plain memory where there is none left.
  Tensor allocateTensor(long size, at::TensorOptions options) override {
    const auto type = c10::typeMetaToScalarType(options.dtype());
    if (auto memory = registered(static_cast<std::size_t>(size) * c10::elementSize(type)))
      return at::from_blob(
          memory->data(), {size}, [memory](void*) {}, options.device(at::kCPU));
    return at::empty({size}, options.device(at::kCPU));
  }

  // Registered memory, which may outlive the group; null: there is none left. Thread: any.
  std::shared_ptr<Memory> registered(std::size_t bytes) const {
    static std::mutex mutex;  // a communicator's memory is allocated by one thread at a time, and freed by any
    const auto lane = this->lane();
    if (!lane) return nullptr;
    std::unique_lock guard(mutex);
    auto memory = lane->communicator().allocate(bytes);
    guard.unlock();
    if (!memory) return nullptr;
    const auto give_back = [](Memory* m) {
      const std::lock_guard freeing(mutex);
      delete m;
    };
    return {new Memory(std::move(*memory)), give_back};
  }

  // The communicator, for as long as it is the group's; null: it has none. Thread: any.
  std::shared_ptr<python::Lane> lane() const {
    const std::lock_guard guard(lane_mutex_);
    return lane_;
  }
  // Likewise, after what is queued has ended. Errors: the group has no members.
  std::shared_ptr<python::Lane> quiet() {
    const std::lock_guard guard(mutex_);
    TORCH_CHECK_WITH(DistBackendError, lane_, kNoMembers);
    if (!lane_->idle()) lane_->close();
    return lane_;
  }
  // What has broken the communicator, as far as can be known without waiting for another thread's call.
  Status broken() {
    const std::unique_lock guard(mutex_, std::try_to_lock);
    if (!guard.owns_lock() || !lane_ || !lane_->idle()) return {};
    return lane_->communicator().status();
  }
  // Nothing has broken the communicator, and no call is under way.
  bool whole() {
    const std::unique_lock guard(mutex_, std::try_to_lock);
    return guard.owns_lock() && lane_ && lane_->idle() && lane_->communicator().status();
  }
  // The text of the first failure of a call that has broken the communicator; empty: there is none.
  std::string failure() {
    const std::lock_guard guard(hooks_mutex_);
    return failure_ ? failure_->message : std::string();
  }

 protected:
  // The group's members are those of this communicator from now on. Requires: it has none.
  void adopt(Communicator communicator) {
    timeout_ = options_->timeout;
    communicator.set_timeout(timeout_);
    communicator.set_interrupt(signal_raised);
    auto lane = std::make_shared<python::Lane>(std::move(communicator));
    {
      const std::lock_guard guard(hooks_mutex_);
      hooks_have_run_ = false;
      failure_.reset();
    }
    {
      const std::lock_guard guard(all_mutex_);
      all_[this] = lane;
      if (getRank() == 0) say_that_weft_is_here();
    }
    const std::lock_guard guard(lane_mutex_);
    lane_ = std::move(lane);
  }
  void forget() {
    const std::lock_guard guard(all_mutex_);
    all_.erase(this);
  }
  // Drops the communicator; what still runs or is queued ends with an error first, here and on its other ranks.
  void leave() {
    std::unique_lock guard(mutex_, std::try_to_lock);
    const auto lane = this->lane();
    if (!lane) return;
    const bool busy = !guard.owns_lock() || !lane->idle();
    if (busy) lane->abort();
    if (!guard.owns_lock()) guard.lock();
    lane->close();
    const std::lock_guard swap(lane_mutex_);
    lane_.reset();
  }
  // Waits for what is queued, which may call this object.
  void close() {
    const std::lock_guard guard(mutex_);
    if (lane_) lane_->close();
  }

  // The name of a call for the profiler: "weft:all_reduce", or "gloo:all_reduce" where weft stands for gloo.
  const char* title(const char* own) const {
    if (options_->backend == "weft") return own;
    static std::mutex mutex;
    static std::set<std::string> kept;  // the profiler keeps pointers
    const std::lock_guard guard(mutex);
    return kept.insert(options_->backend + std::strchr(own, ':')).first->c_str();
  }

  // This group, as the flight record names it; torch gives a group its name after it has been made. Never null.
  RecordedGroup* recorded() {
    const std::lock_guard guard(recorded_mutex_);
    RecordedGroup& now = recorded_.back();
    if (now.name.empty()) now.name = getGroupUid() + recorded_suffix_, now.description = getGroupDesc();
    return &now;
  }
  // The next calls are those of other members: they count from 0, under a name of their own. `ranks`: of the job.
  void record_as(const std::string& suffix, std::vector<std::uint64_t> ranks) {
    const std::lock_guard guard(recorded_mutex_);
    recorded_suffix_ = suffix;
    recorded_.push_back({.ranks = std::move(ranks), .number = groups_++});
    sequence_ = 0;
  }

  // With WEFT_DEBUG one line for the first group of a process whose rank in it is 0. Requires: all_mutex_.
  void say_that_weft_is_here() const {
    static bool said = false;
    const char* const wanted = std::getenv("WEFT_DEBUG");
    if (std::exchange(said, true) || wanted == nullptr || *wanted == '\0') return;
    const std::string line = c10::str("weft carries torch.distributed here: a group of ", getSize(),
                                      " ranks, asked for as ", options_->backend, " (torch ", TORCH_VERSION, ")\n");
    std::fputs(line.c_str(), stderr);
  }

  // Lets users look at what a call has broken, before its caller gets the error.
  void after_failure(const Status& status) {
    if (status || status.error().blame == Blame::kInput || status.error().blame == Blame::kOperation) return;
    {
      const std::lock_guard guard(hooks_mutex_);
      if (!failure_) failure_ = status.error();
    }
    run_abort_hooks();
  }
  void run_abort_hooks() {
    std::map<std::int64_t, std::function<void()>> hooks;
    {
      const std::lock_guard guard(hooks_mutex_);
      if (abort_hooks_.empty() || std::exchange(hooks_have_run_, true)) return;
      hooks = abort_hooks_;
    }
    for (const auto& [id, hook] : hooks) try {
        hook();
      } catch (const std::exception& e) {
        TORCH_WARN("weft: abort hook ", id, " failed: ", e.what());
      }
  }

  // What is kept of a call that is about to begin. Errors: this process was forked after the group was made.
  void note(const c10::intrusive_ptr<Job>& job) {
    TORCH_CHECK_WITH(DistBackendError, forks_ == Forks::so_far(),
                     "weft: this process was forked after the group was made; make a group in the child");
    if (timing_.load(std::memory_order_relaxed)) [[unlikely]]
      job->measure();
    if (!coalesces()) [[likely]]
      return;
    const std::lock_guard guard(coalesced_mutex_);
    if (coalesced_) coalesced_->push_back(job->getFuture());
  }

  // Is a block of calls open that end as one Work?
  bool coalesces() const { return coalesces_.load(std::memory_order_relaxed); }

  Rank root(std::int64_t r) const {
    TORCH_CHECK_VALUE(r >= 0 && r < getSize(), "weft: root ", r, " is not one of ", getSize(), " ranks");
    return static_cast<Rank>(r);
  }

  // A call of the communicator that keeps its tensors, and what its spans refer to.
  std::function<Status(Communicator&)> call(Request r, Tensors keeps, std::vector<std::size_t> counts = {},
                                            std::vector<std::size_t> receive = {}) const {
    r.reproducible = options_->reproducible;
    if (r.collective == Collective::kAllReduce) r.algorithm = options_->algorithm;
    if (counts.empty() && r.count == 0 && receive.empty())
      return
          [keeps = std::move(keeps)](Communicator& c) { return c.barrier(); };  // empty tensors: in step all the same
    return CollectiveCall{r, std::move(keeps), std::move(counts), std::move(receive)};
  }

  // Runs the task here, if its caller waits for it and nothing is queued, or if the caller is a callback on the queue's
  // own thread; else queues it.
  c10::intrusive_ptr<c10d::Work> start(Task task) {
    check_members(task.async);
    auto job = c10::make_intrusive<Job>(getRank(), task, ++sequence_, recorded(), effective(task.timeout), endings_);
    task.timeout = job->getTimeout();
    note(job);
    if (on_queue_ == this) {
      job->begin();
      set_timeout(task.timeout);
      job->end(run(lane_->communicator(), task));
      return job;
    }
    std::unique_lock guard(mutex_);
    TORCH_CHECK_WITH(DistBackendError, lane_, kNoMembers);
    if (!task.async && lane_->idle()) {
      job->begin();
      set_timeout(task.timeout);
      const auto lane = lane_;
      const std::exception_ptr problem = run_task(lane->communicator(), task);
      guard.unlock();
      if (problem) after_failure(lane->communicator().status());
      job->end(problem);
      if (problem) std::rethrow_exception(problem);
      return job;
    }
    const bool async = task.async;
    lane_->queue([this, job, task = std::move(task)](Communicator& c) mutable -> Status {
      job->begin();
      set_timeout(task.timeout);
      const std::exception_ptr problem = run(c, task);
      task = {};
      on_queue_ = this;
      job->end(problem);
      on_queue_ = nullptr;
      job.reset();
      return {};
    });
    guard.unlock();
    if (!async) job->wait();
    return job;
  }
  std::exception_ptr run(Communicator& c, const Task& task) {
    const std::exception_ptr problem = run_task(c, task);
    if (problem) after_failure(c.status());
    return problem;
  }
  // Errors: the group has no members yet, or lost them in a reconfigure() that failed. A group that can be reconfigured
  // also refuses asynchronous calls when it is broken, so that its users need not wait to learn that.
  void check_members(bool async) {
    const auto lane = this->lane();
    TORCH_CHECK_WITH(DistBackendError, lane, kNoMembers);
    if (!async || !waits_for_reconfigure(*options_)) return;
    const std::lock_guard guard(hooks_mutex_);
    TORCH_CHECK_WITH(DistBackendError, !failure_, "weft: an earlier call ",
                     failure_->code == Code::kTimeout ? "timed out" : "failed",
                     ", and reconfigure() has not been called since: ", failure_->message);
  }
  milliseconds effective(milliseconds timeout) const {
    return timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
  }
  void set_timeout(milliseconds wanted) {
    if (wanted == timeout_) return;
    timeout_ = wanted;
    lane_->communicator().set_timeout(wanted);
  }

  static constexpr const char* kNoMembers = "weft: the group has no members: call reconfigure() with their handles";
  static thread_local const Core* on_queue_;  // whose queue this thread is, while callbacks run on it

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<GroupOptions> options_;
  std::atomic<std::uint64_t> sequence_{0};
  const std::shared_ptr<Endings> endings_ = std::make_shared<Endings>();  // calls may end after the group

 private:
  milliseconds timeout_{};  // what the communicator has now; the thread that runs a task
  std::mutex mutex_;        // of the lane's use
  const int forks_ = Forks::so_far();
  std::atomic<bool> timing_{false}, coalesces_{false};
  std::mutex coalesced_mutex_;
  std::optional<c10::List<c10::intrusive_ptr<c10::ivalue::Future>>> coalesced_;  // the calls of a block that is open
  std::mutex recorded_mutex_;
  std::deque<RecordedGroup> recorded_;  // the last one is that of the present members; earlier calls may still end
  std::string recorded_suffix_;
  std::mutex hooks_mutex_;
  std::map<std::int64_t, std::function<void()>> abort_hooks_;
  bool hooks_have_run_ = false;   // for this communicator
  std::optional<Error> failure_;  // the first that has broken it
  static inline std::atomic<std::uint64_t> groups_{0};
  static inline std::mutex all_mutex_;
  static inline std::map<Core*, std::weak_ptr<python::Lane>> all_;
  mutable std::mutex lane_mutex_;  // of the pointer, which changes under mutex_, too
  std::shared_ptr<python::Lane> lane_;
};

inline thread_local const Core* Core::on_queue_ = nullptr;

}  // namespace weft::torch_adapter
