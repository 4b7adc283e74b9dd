#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "net/link/handshake.h"
#include "net/link/socket.h"

namespace weft::net::link {

// The serving side of a connection. Nothing here blocks. Thread: the loop's.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~Connection() = default;
  virtual bool open() const = 0;
  // False: it is closed unless it becomes known within LoopOptions::stranger_time of its acceptance.
  virtual bool known() const { return true; }
  // Adds what poll() is to wait for. False: advance() has something to do already. Requires: open.
  virtual bool watch(std::vector<pollfd>& list) = 0;
  // When advance() has something to do although nothing comes.
  virtual Clock::time_point due() const { return Clock::time_point::max(); }
  virtual void advance() = 0;
};

struct LoopOptions {
  // How connections are greeted: with this key, as claims that `welcomes` lets in. Without: they are not.
  Key key{};
  std::function<bool(const Claim& claim)> welcomes = {};
  // `greeting`: of a connection that was greeted; its socket does not block.
  std::function<std::unique_ptr<Connection>(UniqueFd fd, const Handshake* greeting)> serve;
  std::chrono::milliseconds stranger_time{5000};
  std::size_t most_strangers = 64;  // more wait in the listener's queue
  std::size_t most_connections = std::numeric_limits<std::size_t>::max();
  std::chrono::milliseconds cut{0};  // see end_when_cut(); 0: connections are too short to need it
  // The thread looks for more without sleep for so long after a known connection has had something, and yields to other
  // threads of its core.
  std::chrono::microseconds look_for{0};
};

// A descriptor in reserve: a process that has used up all that it may have open still opens one more. Thread: one at a
// time.
class Reserve {
 public:
  Reserve() { refill(); }
  // Gives it back to the system for one more to be opened; false: it is spent already.
  bool spend();
  void refill();

 private:
  UniqueFd fd_;
};

// A thread that accepts connections and serves them. A connection is a stranger's until it has been greeted, and for
// good where none is. Strangers cost at most `most_strangers` descriptors: no more are accepted, and the one that came
// first makes place for another after 50 ms.
class Loop {
 public:
  explicit Loop(LoopOptions options);
  ~Loop() { stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Connections to this listener wait until start(). Thread: any.
  void listen(UniqueFd listener);
  // Starts the thread, and ends it with all connections. Once each. Signals are for the program's other threads.
  void start();
  void stop();
  // How many connections are known. Thread: any.
  std::int64_t known() const { return known_.load(); }

 private:
  using Clock = Connection::Clock;
  struct Guest {
    UniqueFd fd;  // until it is served
    std::optional<Handshake> handshake;
    Clock::time_point since = Clock::now();
    std::unique_ptr<Connection> connection = nullptr;
    std::size_t begin = 0, end = 0;  // of watched_
    bool at_once = false;
  };
  bool open(const Guest& guest) const { return guest.connection ? guest.connection->open() : guest.fd.open(); }
  bool stranger(const Guest& guest) const { return guest.connection == nullptr || options_.welcomes == nullptr; }
  void run();
  bool look();
  static void close(Guest& guest);
  void begin(Guest& guest) const;
  void make_place(Clock::time_point now);
  Clock::time_point watch(bool accepts);
  void greet(Guest& guest) const;
  void advance(Guest& guest, Clock::time_point now);
  void accept(int listener);
  void add_listeners();
  void wake() const;

  const LoopOptions options_;
  UniqueFd wake_;  // an eventfd
  std::atomic<bool> stopped_{false};
  std::atomic<std::int64_t> known_{0};
  Mutex mutex_;
  std::vector<UniqueFd> fresh_ WEFT_GUARDED_BY(mutex_);  // listeners that the thread does not watch yet
  // All that follows: by the thread.
  std::vector<UniqueFd> listeners_;
  std::vector<Guest> guests_;  // in the order of their acceptance
  std::size_t strangers_ = 0;
  std::vector<pollfd> watched_;  // wake_, the listeners, then every guest's
  Reserve reserve_;
  bool exhausted_ = false;  // no descriptor is left
  Clock::time_point had_{};
  std::thread thread_;
};

}  // namespace weft::net::link
