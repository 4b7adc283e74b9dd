#include "net/bootstrap/dial.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

namespace weft::net::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kAskEvery = 50ms, kAgainAfter = 20ms;

// May the caller wait on? Errors: as dial().
Status goes_on(const Dial& dial, Clock::time_point deadline, Clock::time_point& asked) {
  const auto now = Clock::now();
  if (now > deadline) return failure(Code::kTimeout, Blame::kOperation, "no answer for {} ms", dial.timeout.count());
  if (!dial.interrupted || now - asked <= kAskEvery) return {};
  asked = now;
  if (dial.interrupted()) return failure(Code::kAborted, Blame::kOperation, "interrupted");
  return {};
}

// Nothing: the connection broke, and may be tried again.
Result<std::optional<Dialled>> try_once(const Dial& dial, Clock::time_point deadline, Clock::time_point& asked) {
  WEFT_TRY(auto fd, start_connect(dial.to));
  const auto look = [&](short events) {
    pollfd wait{.fd = fd.get(), .events = events, .revents = 0};
    return poll(&wait, 1, 2) > 0;
  };
  // Before the greeting, whose end by a refusal would be taken for one that may be tried again.
  do WEFT_CHECK(goes_on(dial, deadline, asked));
  while (!look(POLLOUT));
  if (const int error = connect_error(fd.get()); error != 0)
    return failure(Code::kPeerDied, Blame::kOperation, "{}", std::strerror(error));
  Handshake handshake(Handshake::Role::kOpener, dial.key, dial.claim);
  while (handshake.advance(fd.get()) == Handshake::State::kRunning) {
    WEFT_CHECK(goes_on(dial, deadline, asked));
    look(POLLIN);
  }
  if (handshake.state() == Handshake::State::kDone) {
    end_when_cut(fd.get(), std::max<std::chrono::milliseconds>(dial.timeout, 1s));
    return Dialled{std::move(fd), handshake.session_key()};
  }
  if (handshake.broke() && Clock::now() < deadline) return std::nullopt;
  if (handshake.broke()) return failure(Code::kPeerDied, Blame::kOperation, "{}", handshake.problem());
  return failure(Code::kInvalidArgument, Blame::kInput, "{}",
                 handshake.refused() == kRefusedProof ? std::string("it has another key") : handshake.problem());
}

}  // namespace

Result<Dialled> dial(const Dial& dial) {
  const auto deadline = Clock::now() + dial.timeout;
  for (auto asked = Clock::now();; std::this_thread::sleep_for(kAgainAfter)) {
    WEFT_TRY(auto dialled, try_once(dial, deadline, asked));
    if (dialled) return std::move(*dialled);
  }
}

}  // namespace weft::net::bootstrap
