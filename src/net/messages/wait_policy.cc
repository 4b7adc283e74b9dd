#include "net/messages/wait_policy.h"

#include <sched.h>

namespace weft::net::messages {
namespace {

constexpr std::chrono::milliseconds kExamineEvery{20};

}  // namespace

void WaitPolicy::restart() {
  looks_ = 0;
  since_ = {};
  endpoint_.say_awaited(-1, lately());
}

std::chrono::milliseconds WaitPolicy::lately() const { return std::max(Endpoint::kLately, limits_.timeout / 4); }

Status WaitPolicy::look(const WaitingFor& waiting_for) {
  moved_ = endpoint_.pump_all();
  const auto now = Clock::now();
  if (looks_ == 0) looks_ = 1;
  if (since_ == Clock::time_point{}) since_ = examined_ = now;
  if (endpoint_.failure()) return examine(now, waiting_for);
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
  endpoint_.listen_to_member();
  const std::vector<Rank> awaited = endpoint_.failure() ? std::vector<Rank>{} : waiting_for();
  if (const auto& failure = endpoint_.failure()) {
    const Error error = *failure;
    endpoint_.break_off(endpoint_.rank());
    return tl::make_unexpected(error);
  }
  if (awaited.empty()) return {};
  endpoint_.say_awaited(awaited.front(), lately());
  for (const Rank peer : awaited) {
    const std::string& end = endpoint_.end_of(peer);
    if (end.empty()) continue;
    const std::string reason = end;
    const auto cause = endpoint_.fate_of(peer);
    if (endpoint_.failure()) return examine(now, waiting_for);
    endpoint_.break_off(peer, cause);
    if (cause == fabric::Cause::kLeft)
      return failure_of(peer, fabric::code(cause), Blame::kCommunicator, "rank {} ({}) {}", peer,
                        endpoint_.describe(peer), fabric::word(cause));
    return failure_of(peer, fabric::code(cause), Blame::kCommunicator, "rank {} ({}) has ended: {}", peer,
                      endpoint_.describe(peer), reason);
  }
  return now - since_ < limits_.timeout ? Status{} : time_out(awaited.front());
}

Status WaitPolicy::health() {
  endpoint_.give_back();
  endpoint_.pump_all();
  endpoint_.listen_to_member();
  if (const auto& failure = endpoint_.failure()) return tl::make_unexpected(*failure);
  const Rank died = endpoint_.died();
  if (died < 0) return {};
  return failure_of(died, Code::kPeerDied, Blame::kCommunicator, "rank {} ({}) has ended: {}", died,
                    endpoint_.describe(died), endpoint_.end_of(died));
}

Status WaitPolicy::time_out(Rank awaited) {
  const Rank culprit = endpoint_.culprit_behind(awaited, lately());
  endpoint_.break_off(culprit, fabric::Cause::kTimedOut);
  const std::string through = culprit == awaited ? "" : fmt::format(", which keeps rank {} waiting too", awaited);
  return failure_of(culprit, Code::kTimeout, Blame::kCommunicator, "waited {} ms for rank {} ({}){}",
                    limits_.timeout.count(), culprit, endpoint_.describe(culprit), through);
}

}  // namespace weft::net::messages
