#pragma once

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "../src/lane.h"
#include "weft/unique_id.h"
#include "work.h"

namespace weft::torch_adapter {

struct GroupOptions : c10d::Backend::Options {
  explicit GroupOptions(milliseconds timeout, std::string name = "weft")
      : c10d::Backend::Options(std::move(name), timeout) {}
  bool reproducible = false;
  std::string algorithm, transport;
  std::string interface;  // WEFT_IFACE, where that is not set
};

// What gloo calls a device: here only the interface, which counts between machines.
struct GlooDevice {
  std::string hostname, interface;
};

// gloo's, as programs that construct it by hand set them.
struct GlooOptions final : GroupOptions {
  GlooOptions() : GroupOptions(std::chrono::minutes(30), "gloo") {}
  int threads = 2;  // has no effect: a group has one thread, and only while it has something to do
  std::vector<GlooDevice> devices;  // the last one's interface counts
};

// How often this process has come out of a fork: what its parent has connected is not its own.
class Forks {
 public:
  static int so_far() {
    static const int watched = pthread_atfork(nullptr, nullptr, [] { count_.fetch_add(1, std::memory_order_relaxed); });
    (void)watched;
    return count_.load(std::memory_order_relaxed);
  }

 private:
  static inline std::atomic<int> count_{0};
};

// Joins `size` ranks that meet by what rank 0 writes into the store.
inline Result<Communicator> meet(c10d::Store& store, const std::string& key, int rank, int size,
                                 const GroupOptions& wanted) {
  const ConnectOptions options{
      .transport = wanted.transport, .interface = wanted.interface, .timeout = wanted.timeout};
  std::optional<MeetingPlace> place;
  std::string text;
  if (rank == 0) {
    auto opened = MeetingPlace::open(size, options);
    if (!opened) return tl::make_unexpected(opened.error());
    place.emplace(std::move(*opened));
    text = place->id().text();
    store.set(key, text);
  } else {
    text = store.get_to_str(key);
  }
  auto id = UniqueId::parse(text);
  if (!id) return tl::make_unexpected(id.error());
  return Communicator::connect(*id, rank, size, options);
}

// A group's communicator, and where its calls run. Which calls there are is the derived classes' business.
class Core : public c10d::Backend {
 public:
  Core(c10::intrusive_ptr<c10d::Store> store, Communicator communicator, c10::intrusive_ptr<GroupOptions> options)
      : c10d::Backend(communicator.rank(), communicator.ranks()),
        store_(std::move(store)),
        options_(std::move(options)),
        timeout_(options_->timeout),
        recorded_{.ranks = options_->global_ranks_in_group, .number = groups_++},
        lane_(std::move(communicator)) {
    for (int r = 0; recorded_.ranks.size() < static_cast<std::size_t>(getSize()); ++r)
      recorded_.ranks.push_back(static_cast<std::uint64_t>(r));
    lane_.communicator().set_timeout(timeout_);
  }
  ~Core() override { lane_.close(); }

  const std::string getBackendName() const override { return options_->backend; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  c10::intrusive_ptr<GroupOptions> options() const { return options_; }
  void setTimeout(milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override {
    const Status status = lane_.communicator().status();
    if (status) return c10d::ErrorType::SUCCESS;
    return status.error().code == Code::kTimeout ? c10d::ErrorType::TIMEOUT : c10d::ErrorType::COMM_ERROR;
  }
  void abort() override { lane_.abort(); }
  void shutdown() override {
    const std::lock_guard guard(mutex_);
    lane_.close();
  }
  // Calls from here to endCoalescing() end as one Work, which has their first error. They are not held back: a call that
  // its caller does not wait for moves on by itself. supportsCoalescing() stays false, for batch_isend_irecv then returns
  // a Work for every message.
  void startCoalescing() override {
    const std::lock_guard guard(coalesced_mutex_);
    coalesced_ = c10::List<c10::intrusive_ptr<c10::ivalue::Future>>(c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
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
    static std::mutex mutex;  // a communicator's memory is allocated by one thread at a time, and freed by any
    const auto type = c10::typeMetaToScalarType(options.dtype());
    std::unique_lock guard(mutex);
    auto memory = lane_.communicator().allocate(static_cast<std::size_t>(size) * c10::elementSize(type));
    guard.unlock();
    if (!memory) return at::empty({size}, options.device(at::kCPU));
    const auto give_back = [](Memory* m) {
      const std::lock_guard freeing(mutex);
      delete m;
    };
    const std::shared_ptr<Memory> owner(new Memory(std::move(*memory)), give_back);
    return at::from_blob(
        owner->data(), {size}, [owner](void*) {}, options.device(at::kCPU));
  }

 protected:
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
    if (recorded_.name.empty()) recorded_.name = getGroupUid(), recorded_.description = getGroupDesc();
    return &recorded_;
  }

  // What is kept of a call that is about to begin. Errors: this process was forked after the group was made.
  void note(const c10::intrusive_ptr<Job>& job) {
    TORCH_CHECK_WITH(DistBackendError, forks_ == Forks::so_far(),
                     "weft: this process was forked after the group was made; make a group in the child");
    if (timing_.load(std::memory_order_relaxed)) [[unlikely]]
      job->measure();
    if (!coalesces_.load(std::memory_order_relaxed)) [[likely]]
      return;
    const std::lock_guard guard(coalesced_mutex_);
    if (coalesced_) coalesced_->push_back(job->getFuture());
  }

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
    return [r, keeps = std::move(keeps), counts = std::move(counts),
            receive = std::move(receive)](Communicator& c) mutable {
      r.counts = counts;
      r.receive_counts = receive;
      return c.run(r);
    };
  }

  // Carries the task out here, if its caller waits for it and nothing is queued, or if the caller is a callback on the
  // queue's own thread; else queues it.
  c10::intrusive_ptr<c10d::Work> start(Task task) {
    auto job = c10::make_intrusive<Job>(getRank(), task, ++sequence_, recorded(), effective(task.timeout));
    note(job);
    if (on_queue_ == this) {
      job->begin();
      set_timeout(task.timeout);
      job->end(carry_out(lane_.communicator(), task));
      return job;
    }
    std::unique_lock guard(mutex_);
    if (!task.async && lane_.idle()) {
      job->begin();
      set_timeout(task.timeout);
      const std::exception_ptr problem = carry_out(lane_.communicator(), task);
      guard.unlock();
      job->end(problem);
      if (problem) std::rethrow_exception(problem);
      return job;
    }
    const bool async = task.async;
    lane_.queue([this, job, task = std::move(task)](Communicator& c) mutable -> Status {
      job->begin();
      set_timeout(task.timeout);
      const std::exception_ptr problem = carry_out(c, task);
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
  milliseconds effective(milliseconds timeout) const {
    return timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
  }
  void set_timeout(milliseconds timeout) {
    const milliseconds wanted = effective(timeout);
    if (wanted == timeout_) return;
    timeout_ = wanted;
    lane_.communicator().set_timeout(wanted);
  }

  static thread_local const Core* on_queue_;  // whose queue this thread is, while callbacks run on it

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<GroupOptions> options_;
  std::atomic<std::uint64_t> sequence_{0};

 private:
  milliseconds timeout_;  // what the communicator has now; the thread that runs a task
  std::mutex mutex_;      // of the lane
  const int forks_ = Forks::so_far();
  std::atomic<bool> timing_{false}, coalesces_{false};
  std::mutex coalesced_mutex_;
  std::optional<c10::List<c10::intrusive_ptr<c10::ivalue::Future>>> coalesced_;  // the calls of a block that is open
  std::mutex recorded_mutex_;
  RecordedGroup recorded_;
  static inline std::atomic<std::uint64_t> groups_{0};

 protected:
  python::Lane lane_;
};

inline thread_local const Core* Core::on_queue_ = nullptr;

}  // namespace weft::torch_adapter
