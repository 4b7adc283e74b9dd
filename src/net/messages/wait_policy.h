#pragma once

#include <functional>

#include "net/messages/endpoint.h"

namespace weft::net::messages {

// How a rank waits when nothing moves: looks at its sockets for a while, then sleeps until one has something. Notices,
// while it waits, that a peer it waits for has ended, that the communicator is broken, and that too much time has
// passed; it then notifies every peer that it is connected with.
// Thread: the endpoint's.
class WaitPolicy {
 public:
  struct Limits {
    int spins = 1000;                         // looks before the first yield; each is a system call or two
    std::chrono::microseconds yielding{200};  // before the first sleep
    std::chrono::milliseconds timeout{30000};
  };
  // Whom the caller waits for; empty: it can go on.
  using WaitingFor = std::function<std::vector<Rank>()>;

  WaitPolicy(Endpoint& endpoint, Limits limits) : endpoint_(endpoint), limits_(limits) {}

  void reset() {
    endpoint_.calm();
    if (looks_ != 0) restart();
  }
  void break_off(Rank culprit, fabric::Cause cause = fabric::Cause::kFailed) {
    endpoint_.failures().break_off(culprit, cause);
  }
  // What is wrong by now, whether or not this rank waits, as far as peers are known by a connection.
  void say_why(const std::string& words) { endpoint_.failures().say_why(words); }
  Status health();
  // How long what a peer said of its waiting holds.
  std::chrono::milliseconds lately() const;
  std::chrono::milliseconds timeout() const { return limits_.timeout; }
  // How long to wait from now on.
  void set_timeout(std::chrono::milliseconds timeout) { limits_.timeout = timeout; }
  // Call when nothing has moved and the caller does not want to wait.
  Status look(const WaitingFor& waiting_for);
  // Has anything come or gone in the last look? Then the caller tries again before it sleeps.
  bool moved() const { return moved_; }
  // Call when nothing has moved, then look again. Errors: kPeerDied, kPeerLeft, kAborted, kTimeout: blame the
  // communicator; kNoResources.
  Status pause(const WaitingFor& waiting_for) {
    if (++looks_ < limits_.spins && looks_ % kBroadEvery != 0) [[likely]]
      return {};
    return pause_slowly(waiting_for);
  }

 private:
  static constexpr int kBroadEvery = 32;  // looks at the awaited socket per look at all
  static constexpr int kYields = 8;       // the same where ranks share cores
  void restart();
  Status pause_slowly(const WaitingFor& waiting_for);
  Status examine(Clock::time_point now, const WaitingFor& waiting_for);
  Status time_out(const std::vector<Rank>& awaited);

  Endpoint& endpoint_;
  Limits limits_;
  int looks_ = 0;
  unsigned yields_ = 0;
  bool moved_ = false;
  Clock::time_point since_{}, examined_{};
};

}  // namespace weft::net::messages
