#include "weft/queue.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/forks.h"
#include "base/result.h"

namespace weft {

struct Queue::Handle::State {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  Status status;
  std::thread::id worker;

  void finish(Status with) {
    {
      const std::lock_guard guard(mutex);
      status = std::move(with);
      done = true;
    }
    ended.notify_all();
  }
};

bool Queue::Handle::done() const {
  if (!state_) return true;
  const std::lock_guard guard(state_->mutex);
  return state_->done;
}

bool Queue::Handle::wait_for(std::chrono::milliseconds timeout) const {
  if (!state_) return true;
  std::unique_lock guard(state_->mutex);
  // The clock counts to less than the largest timeout.
  const auto limit = std::clamp(timeout, std::chrono::milliseconds(0), kMostTimeout);
  return state_->ended.wait_for(guard, limit, [&] { return state_->done; });
}

Status Queue::Handle::wait() const {
  if (!state_) return bad_input("the handle is empty: no call was queued with it");
  std::unique_lock guard(state_->mutex);
  if (!state_->done && std::this_thread::get_id() == state_->worker)
    return bad_input("a callback of a queue waits for a later call of the same queue");
  state_->ended.wait(guard, [&] { return state_->done; });
  return state_->status;
}

struct Queue::Worker {
  struct Task {
    std::function<Status(Communicator&)> calls;
    Callback callback;
    std::shared_ptr<Handle::State> state;
  };

  explicit Worker(Communicator c) : communicator(std::move(c)) {}
  // The thread keeps the worker: a callback may destroy the queue.
  static std::shared_ptr<Worker> start(Communicator c) {
    auto worker = std::make_shared<Worker>(std::move(c));
    worker->thread = std::thread([worker] { worker->run(); });
    worker->id = worker->thread.get_id();
    return worker;
  }

  // What a function of the caller's throws is an error here: nobody else could catch it.
  template <class Call>
  static Status guarded(const char* what, Call call) {
    try {
      return call();
    } catch (const std::exception& e) {
      return failure(Code::kInternal, Blame::kInput, "{} of a queue threw: {}", what, e.what());
    } catch (...) {
      return failure(Code::kInternal, Blame::kInput, "{} of a queue threw something that is no std::exception", what);
    }
  }

  void run() {
    std::unique_lock guard(mutex);
    for (;;) {
      work.wait(guard, [&] { return closed || !tasks.empty(); });
      if (tasks.empty()) return;
      Task task = std::move(tasks.front());
      tasks.pop_front();
      guard.unlock();  // callers and callbacks may queue more meanwhile
      Status status = guarded("a call", [&] { return task.calls(communicator); });
      const Status notified = guarded("a callback", [&] {
        if (task.callback) task.callback(status);
        return Status();
      });
      task.state->finish(status ? notified : std::move(status));
      task = {};
      guard.lock();
    }
  }

  Communicator communicator;
  std::mutex mutex;  // of what follows
  std::condition_variable work;
  std::deque<Task> tasks;
  bool closed = false;
  std::thread::id id;  // constant once a queue has it
  std::mutex joining;  // of what follows; a thread may close a queue while another does
  std::thread thread;
  const Owner owner;
};

Queue::Queue(Communicator communicator) : worker_(Worker::start(std::move(communicator))) {}
Queue::Queue(Queue&&) noexcept = default;
Queue& Queue::operator=(Queue&& other) noexcept {
  std::swap(worker_, other.worker_);
  return *this;
}

Queue::~Queue() { close(); }

Queue::Handle Queue::start(std::function<Status(Communicator&)> calls, Callback callback) {
  Handle handle;
  handle.state_ = std::make_shared<Handle::State>();
  if (!worker_) {
    handle.state_->finish(bad_input("the queue is empty: it was moved from"));
    return handle;
  }
  if (!calls) {
    handle.state_->finish(bad_input("a queue was given an empty function"));
    return handle;
  }
  {
    const std::lock_guard guard(worker_->mutex);
    if (!worker_->closed) {
      handle.state_->worker = worker_->id;
      worker_->tasks.push_back({std::move(calls), std::move(callback), handle.state_});
      worker_->work.notify_one();
      return handle;
    }
  }
  handle.state_->finish(bad_input("the queue is closed"));
  return handle;
}

Queue::Handle Queue::start(const Request& request, Callback callback) {
  return start(
      [request = request, counts = std::vector(request.counts.begin(), request.counts.end()),
       receive_counts = std::vector(request.receive_counts.begin(), request.receive_counts.end()),
       experts = std::vector(request.experts.begin(), request.experts.end())](Communicator& c) mutable {
        request.counts = counts;
        request.experts = experts;
        request.receive_counts = receive_counts;
        return c.run(request);
      },
      std::move(callback));
}

Queue::Handle Queue::start(std::vector<Transfer> transfers, Callback callback) {
  return start([transfers = std::move(transfers)](Communicator& c) { return c.exchange(transfers); },
               std::move(callback));
}

void Queue::abort() {
  if (worker_) worker_->communicator.abort();
}

void Queue::close() {
  if (!worker_) return;
  if (worker_->owner.inherited()) return leave(worker_);
  {
    const std::lock_guard guard(worker_->mutex);
    worker_->closed = true;
  }
  worker_->work.notify_all();
  const std::lock_guard guard(worker_->joining);
  if (!worker_->thread.joinable()) return;
  if (worker_->id == std::this_thread::get_id())
    worker_->thread.detach();
  else
    worker_->thread.join();
}

}  // namespace weft
