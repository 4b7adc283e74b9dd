#include "net/mixed/wait_policy.h"

#include <sched.h>

#include <algorithm>

namespace weft::net::mixed {
namespace {

constexpr std::chrono::milliseconds kAsleep{20};       // waiting for one side only
constexpr std::chrono::microseconds kHalfAsleep{200};  // for this machine: the sockets still want a look now and then

}  // namespace

void WaitPolicy::restart() {
  looks_ = 0;
  since_ = {};
  near_.reset();
  far_.reset();
}

void WaitPolicy::break_off(Rank culprit, fabric::Cause cause) {
  if (endpoint_.is_near(culprit))
    near_.break_off(endpoint_.local(culprit), cause);
  else
    near_.break_off_for(culprit, cause);
  sockets_.break_off(culprit, cause);
}

Status WaitPolicy::share(Status found) {
  if (found) return found;
  if (const auto near = near_.broken())
    sockets_.break_off(near->culprit, near->cause);
  else if (const auto& far = sockets_.broken_by())
    break_off(far->culprit, far->cause);
  return found;
}

Status WaitPolicy::health() {
  WEFT_CHECK(share(near_.health()));
  return share(far_.health());
}

Status WaitPolicy::look(const WaitingFor& waiting_for) {
  if (looks_ == 0) looks_ = 1;
  if (since_ == messages::Clock::time_point{}) since_ = messages::Clock::now();
  const auto only = [&](bool near) {
    std::vector<Rank> peers = waiting_for();
    std::erase_if(peers, [&](Rank r) { return endpoint_.is_near(r) != near; });
    if (near) std::transform(peers.begin(), peers.end(), peers.begin(), [&](Rank r) { return endpoint_.local(r); });
    return peers;
  };
  WEFT_CHECK(share(near_.look([&] { return only(true); })));
  return share(far_.look([&] { return only(false); }));
}

Status WaitPolicy::pause_slowly(const WaitingFor& waiting_for) {
  WEFT_CHECK(look(waiting_for));
  if (far_.moved() || looks_ < limits_.spins) return {};
  looks_ = limits_.spins;
  const bool sends = sockets_.unsettled() >= 0;  // far peers wait for what the kernel has not yet taken
  if (sends || messages::Clock::now() - since_ < limits_.yielding) {
    sched_yield();
    return {};
  }
  const std::vector<Rank> awaited = waiting_for();
  if (std::any_of(awaited.begin(), awaited.end(), [&](Rank r) { return endpoint_.is_near(r); }))
    near_.sleep(kHalfAsleep);
  else if (!awaited.empty())
    sockets_.sleep(kAsleep);
  return {};
}

}  // namespace weft::net::mixed
