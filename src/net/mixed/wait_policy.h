#pragma once

#include <functional>

#include "net/memory/wait_policy.h"
#include "net/messages/wait_policy.h"
#include "net/mixed/endpoint.h"

namespace weft::net::mixed {

// How a rank waits for peers on both sides: each side looks for failures of its own peers and notifies the
// other. Sleeps on the doorbell while it waits for a rank of its own machine, else on its sockets.
// Thread: the endpoint's.
class WaitPolicy {
 public:
  using Limits = messages::WaitPolicy::Limits;
  using WaitingFor = messages::WaitPolicy::WaitingFor;

  WaitPolicy(Endpoint& endpoint, memory::WaitPolicy& near, messages::Endpoint& sockets, Limits limits)
      : endpoint_(endpoint), near_(near), sockets_(sockets), far_(sockets, limits), limits_(limits) {}

  void reset() {
    if (looks_ != 0) restart();
  }
  void break_off(Rank culprit, fabric::Cause cause = fabric::Cause::kFailed);
  void say_why(const std::string& words) {
    near_.say_why(words);
    sockets_.failures().say_why(words);
  }
  Status health();
  std::chrono::milliseconds timeout() const { return limits_.timeout; }
  // How long to wait from now on.
  void set_timeout(std::chrono::milliseconds timeout) {
    limits_.timeout = timeout;
    near_.set_timeout(timeout);
    far_.set_timeout(timeout);
  }
  Status look(const WaitingFor& waiting_for);
  Status pause(const WaitingFor& waiting_for) {
    if (++looks_ < limits_.spins && looks_ % kBroadEvery != 0) [[likely]]
      return {};
    return pause_slowly(waiting_for);
  }

 private:
  static constexpr int kBroadEvery = 32;  // looks at what is awaited per look at all
  void restart();
  Status pause_slowly(const WaitingFor& waiting_for);
  Rank in_segment(Rank r) const;
  // Tells the other side what one has found.
  Status share(Status found);

  Endpoint& endpoint_;
  memory::WaitPolicy& near_;
  messages::Endpoint& sockets_;
  messages::WaitPolicy far_;
  Limits limits_;
  int looks_ = 0;
  messages::Clock::time_point since_{};
};

}  // namespace weft::net::mixed
