#include "net/messages/wait_policy.h"

#include <sched.h>

#include <algorithm>

namespace weft::net::messages {
namespace {

constexpr std::chrono::milliseconds kExamineEvery{20};

}  // namespace

void WaitPolicy::restart() {
  looks_ = 0;
  since_ = {};
  endpoint_.failures().waits_beside(-1);
  endpoint_.failures().say_awaited({}, lately());
}

std::chrono::milliseconds WaitPolicy::lately() const { return std::max(FailureDetector::kLately, limits_.timeout / 4); }

Status WaitPolicy::look(const WaitingFor& waiting_for) {
  moved_ = endpoint_.pump_all();
  const auto now = Clock::now();
  if (looks_ == 0) looks_ = 1;
  if (since_ == Clock::time_point{}) since_ = examined_ = now;
  if (endpoint_.failures().failure()) return examine(now, waiting_for);
  if (now - examined_ < kExamineEvery) return {};
  examined_ = now;
  return examine(now, waiting_for);
}

Status WaitPolicy::pause_slowly(const WaitingFor& waiting_for) {
  const bool shares = limits_.spins <= 1, much = shares && endpoint_.awaits_much();
  if (shares && !much && ++yields_ % kYields != 0) {
    sched_yield();
    return {};
  }
  WEFT_CHECK(look(waiting_for));
  if (moved_ || (looks_ < limits_.spins && !much)) return {};  // what is waited for may just have come
  looks_ = limits_.spins;
  if (!much && Clock::now() - since_ < limits_.yielding) {
    sched_yield();
  } else {
    endpoint_.give_back();
    endpoint_.sleep(kExamineEvery);
  }
  return {};
}

Status WaitPolicy::examine(Clock::time_point now, const WaitingFor& waiting_for) {
  endpoint_.failures().listen_to_member();
  const std::vector<Rank> awaited = endpoint_.failures().failure() ? std::vector<Rank>{} : waiting_for();
  if (const auto& failure = endpoint_.failures().failure()) {
    const Error error = *failure;
    endpoint_.failures().break_off(endpoint_.rank());
    return tl::make_unexpected(error);
  }
  if (awaited.empty() && !endpoint_.failures().waits_beside()) return {};
  endpoint_.failures().say_awaited(awaited, lately());
  for (const Rank peer : awaited) {
    endpoint_.failures().ask_silent(peer);
    (void)endpoint_.failures().stays_away(peer);
    if (endpoint_.failures().failure()) return examine(now, waiting_for);
  }
  for (const Rank peer : awaited) {
    const std::string reason = endpoint_.failures().end_of(peer);
    if (reason.empty()) continue;
    // The peer's last messages may have come, or its last acknowledgement, since `awaited` was written down.
    const std::vector<Rank> still = waiting_for();
    if (endpoint_.failures().failure()) return examine(now, waiting_for);
    if (std::find(still.begin(), still.end(), peer) == still.end()) {
      moved_ = true;
      return {};
    }
    const auto cause = endpoint_.failures().fate_of(peer);
    if (endpoint_.failures().failure()) return examine(now, waiting_for);
    endpoint_.failures().break_off(peer, cause);
    if (cause == fabric::Cause::kLeft)
      return failure_of(peer, fabric::code(cause), Blame::kCommunicator, "rank {} ({}) {}", peer,
                        endpoint_.describe(peer), fabric::word(cause));
    return failure_of(peer, fabric::code(cause), Blame::kCommunicator, "rank {} ({}) has ended: {}", peer,
                      endpoint_.describe(peer), reason);
  }
  return awaited.empty() || now - since_ < limits_.timeout ? Status{} : time_out(awaited);
}

Status WaitPolicy::health() {
  endpoint_.give_back();
  endpoint_.pump_all();
  endpoint_.failures().listen_to_member();
  if (const auto& failure = endpoint_.failures().failure()) return tl::make_unexpected(*failure);
  const Rank died = endpoint_.failures().died();
  if (died < 0) return {};
  return failure_of(died, Code::kPeerDied, Blame::kCommunicator, "rank {} ({}) has ended: {}", died,
                    endpoint_.describe(died), endpoint_.failures().end_of(died));
}

Status WaitPolicy::time_out(const std::vector<Rank>& awaited) {
  const auto [first, culprit] = endpoint_.failures().wait_chain(awaited, lately());
  if (culprit < 0) {
    endpoint_.failures().break_off(endpoint_.rank(), fabric::Cause::kCircle);
    return failure(Code::kTimeout, Blame::kCommunicator,
                   "waited {} ms for rank {} ({}), which waits itself: ranks wait for each other in a circle, and "
                   "nobody can know who is at fault",
                   limits_.timeout.count(), first, endpoint_.describe(first));
  }
  endpoint_.failures().break_off(culprit, fabric::Cause::kTimedOut);
  const std::string through = culprit == first ? "" : fmt::format(", which keeps rank {} waiting too", first);
  return failure_of(culprit, Code::kTimeout, Blame::kCommunicator, "waited {} ms for rank {} ({}){}",
                    limits_.timeout.count(), culprit, endpoint_.describe(culprit), through);
}

}  // namespace weft::net::messages
