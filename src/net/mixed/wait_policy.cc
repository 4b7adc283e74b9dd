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

// The processes of all ranks learn it first, with what this rank says of itself: ranks that learn it from the segment
// pass on less.
void WaitPolicy::break_off(Rank culprit, fabric::Cause cause) {
  sockets_.failures().break_off(culprit, cause);
  near_.break_off(in_segment(culprit), cause);
}

Rank WaitPolicy::in_segment(Rank r) const { return endpoint_.is_near(r) ? endpoint_.local(r) : near_.outside(r); }

Status WaitPolicy::share(Status found) {
  if (found) return found;
  // A rank of another machine has said to this process, and not in the segment, why it aborted.
  if (found.error().code == Code::kAborted) {
    sockets_.failures().listen_to_member();
    if (const auto& why = sockets_.failures().failure(); why && why->code == Code::kAborted)
      found = tl::make_unexpected(*why);
  }
  if (const auto near = near_.broken())
    sockets_.failures().break_off({near->culprit, near->cause, near->finder, {}});
  else if (const auto& far = sockets_.failures().broken_by())
    near_.break_off(in_segment(far->culprit), far->cause, in_segment(far->finder));
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
  // A chain of waits may lead through both sides.
  const auto near = [&] {
    const auto far = only(false);
    near_.waits_beside(far.empty() ? -1 : sockets_.failures().wait_chain(far, far_.lately()).end);
    return only(true);
  };
  const auto far = [&] {
    const auto local = only(true);
    sockets_.failures().waits_beside(local.empty() ? -1 : near_.culprit_behind(local));
    return only(false);
  };
  WEFT_CHECK(share(near_.look(near)));
  return share(far_.look(far));
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
