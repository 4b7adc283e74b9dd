#include "net/link/dial.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace weft::net::link {
namespace {

using namespace std::chrono_literals;

constexpr auto kAgainAfter = 20ms;

}  // namespace

Result<Attempt> dial_once(const Dial& dial, const WaitLimit& limit) {
  Attempt tried{.handshake = Handshake(Handshake::Role::kOpener, dial.key, dial.claim)};
  WEFT_TRY(tried.fd, start_connect(dial.to));
  const int fd = tried.fd.get();
  // Before the greeting, whose end by a refusal would be taken for one that may be tried again.
  tried.outcome = wait_for(fd, POLLOUT, limit);
  if (tried.outcome != Outcome::kDone) return tried;
  if (const int error = connect_error(fd); error != 0) {
    tried.outcome = Outcome::kOver;
    tried.problem = std::strerror(error);
    return tried;
  }
  tried.connected = true;
  while (tried.outcome == Outcome::kDone && tried.handshake.advance(fd) == Handshake::State::kRunning)
    tried.outcome = wait_for(fd, POLLIN, limit);
  if (tried.handshake.state() != Handshake::State::kFailed) return tried;
  tried.outcome = Outcome::kOver;
  tried.problem = tried.handshake.problem();
  return tried;
}

Result<Dialled> dial(const Dial& dial) {
  const WaitLimit limit{.deadline = WaitLimit::Clock::now() + dial.timeout, .interrupted = &dial.interrupted};
  for (;; std::this_thread::sleep_for(kAgainAfter)) {
    WEFT_TRY(Attempt tried, dial_once(dial, limit));
    switch (tried.outcome) {
      case Outcome::kDone:
        end_when_cut(tried.fd.get(), std::max<std::chrono::milliseconds>(dial.timeout, 1s));
        return Dialled{std::move(tried.fd), tried.handshake.session_key()};
      case Outcome::kLate:
        return failure(Code::kTimeout, Blame::kOperation, "no answer for {} ms", dial.timeout.count());
      case Outcome::kInterrupted:
        return failure(Code::kAborted, Blame::kOperation, "interrupted");
      case Outcome::kOver:
        break;
    }
    const bool broke = tried.handshake.broke();
    if (broke && WaitLimit::Clock::now() < limit.deadline) continue;
    if (broke || !tried.connected) return failure(Code::kPeerDied, Blame::kOperation, "{}", tried.problem);
    const bool other_key = tried.handshake.refused() == kRefusedProof;
    return failure(Code::kInvalidArgument, Blame::kInput, "{}", other_key ? "it has another key" : tried.problem);
  }
}

}  // namespace weft::net::link
