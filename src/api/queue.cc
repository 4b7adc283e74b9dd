#include "weft/queue.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

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
  const std::lock_guard guard(state_->mutex);
  return state_->done;
}

bool Queue::Handle::wait_for(std::chrono::milliseconds timeout) const {
  std::unique_lock guard(state_->mutex);
  return state_->ended.wait_for(guard, timeout, [&] { return state_->done; });
}

Status Queue::Handle::wait() const {
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

  explicit Worker(Communicator c) : communicator(std::move(c)), thread([this] { run(); }) {}

  void run() {
    std::unique_lock guard(mutex);
    for (;;) {
      work.wait(guard, [&] { return closed || !tasks.empty(); });
      if (tasks.empty()) return;
      Task task = std::move(tasks.front());
      tasks.pop_front();
      guard.unlock();  // callers and callbacks may queue more meanwhile
      Status status = task.calls(communicator);
      if (task.callback) task.callback(status);
      task.state->finish(std::move(status));
      task = {};
      guard.lock();
    }
  }

  Communicator communicator;
  std::mutex mutex;  // of what follows
  std::condition_variable work;
  std::deque<Task> tasks;
  bool closed = false;
  std::thread thread;  // last: it uses all the others
};

Queue::Queue(Communicator communicator) : worker_(std::make_unique<Worker>(std::move(communicator))) {}
Queue::Queue(Queue&&) noexcept = default;
Queue& Queue::operator=(Queue&& other) noexcept {
  std::swap(worker_, other.worker_);
  return *this;
}

Queue::~Queue() {
  if (worker_) close();
}

Queue::Handle Queue::start(std::function<Status(Communicator&)> calls, Callback callback) {
  Handle handle;
  handle.state_ = std::make_shared<Handle::State>();
  handle.state_->worker = worker_->thread.get_id();
  {
    const std::lock_guard guard(worker_->mutex);
    if (!worker_->closed) {
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
       receive_counts =
           std::vector(request.receive_counts.begin(), request.receive_counts.end())](Communicator& c) mutable {
        request.counts = counts;
        request.receive_counts = receive_counts;
        return c.run(request);
      },
      std::move(callback));
}

Queue::Handle Queue::start(std::vector<Transfer> transfers, Callback callback) {
  return start([transfers = std::move(transfers)](Communicator& c) { return c.exchange(transfers); },
               std::move(callback));
}

void Queue::abort() { worker_->communicator.abort(); }

void Queue::close() {
  {
    const std::lock_guard guard(worker_->mutex);
    worker_->closed = true;
  }
  worker_->work.notify_all();
  if (worker_->thread.joinable()) worker_->thread.join();
}

}  // namespace weft
