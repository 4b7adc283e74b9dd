#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <optional>
#include <thread>

#include "net/object/client.h"

namespace weft::transfer {

// An object of S3 that an agent has registered. Thread: any.
struct Object {
  net::object::Place place;
  net::object::Name name;

  // The size that the last look, read or write reported; nothing after it turned out to be another one.
  std::optional<net::object::Known> known() const {
    const std::lock_guard guard(mutex);
    return seen;
  }
  void set(std::optional<net::object::Known> now) {
    const std::lock_guard guard(mutex);
    seen = std::move(now);
  }

  mutable std::mutex mutex;
  std::optional<net::object::Known> seen;  // by mutex
};

// Moves parts of objects in threads of its own. Thread: any.
class ObjectIo {
 public:
  struct Job {
    explicit Job(net::object::Clock::time_point until) : leave(until) {}
    std::shared_ptr<Object> object;
    bool writes = false;
    Bytes offset = 0;
    std::span<std::byte> memory;  // not touched after leave.take()
    net::object::Leave leave;
    std::optional<Error> error;      // before `over`
    std::atomic<bool> over = false;  // from here on the thread is done with it
  };
  static constexpr std::size_t kThreads = 8;
  // Errors: kUnsupported: there is no libcurl.
  static Result<std::unique_ptr<ObjectIo>> open();
  ~ObjectIo();  // jobs that are left end as cancelled
  void submit(std::shared_ptr<Job> job);
  // Asks for the object's size. Errors: as net::object::Client::look.
  static Status look(Object& object, std::chrono::milliseconds limit);

 private:
  ObjectIo() = default;
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> queue_;     // by mutex_
  std::vector<std::shared_ptr<Job>> running_;  // by mutex_
  std::size_t idle_ = 0;                       // by mutex_
  bool ends_ = false;                          // by mutex_
  std::vector<std::thread> threads_;           // by mutex_
};

}  // namespace weft::transfer
