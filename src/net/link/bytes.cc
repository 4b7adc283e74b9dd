#include "net/link/bytes.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <thread>

namespace weft::net::link {
namespace {

using std::chrono::milliseconds;

template <class Call>
Moved moved_by(const Call& call) {
  for (;;) {
    const ssize_t n = call();
    if (n > 0) return {.bytes = static_cast<std::size_t>(n)};
    if (n == 0) return {.over = true};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
    if (errno != EINTR) return {.over = true, .error = errno};
  }
}

// Until the deadline or the next question, in milliseconds of poll(); -1: never.
int next_look(const WaitLimit& limit) {
  const bool asks = limit.interrupted != nullptr && *limit.interrupted;
  const bool ends = limit.deadline != WaitLimit::Clock::time_point::max();
  if (!asks && !ends) return -1;
  std::int64_t wait = asks ? limit.ask_every.count() : std::numeric_limits<int>::max();
  if (ends) {
    const auto left = std::chrono::ceil<milliseconds>(limit.deadline - WaitLimit::Clock::now());
    wait = std::clamp<std::int64_t>(left.count(), 0, wait);
  }
  return static_cast<int>(wait);
}

Outcome over(int error) {
  errno = error;
  return Outcome::kOver;
}

}  // namespace

Moved receive_now(int fd, void* into, std::size_t bytes) {
  return moved_by([&] { return recv(fd, into, bytes, MSG_DONTWAIT); });
}

Moved send_now(int fd, const void* from, std::size_t bytes) {
  const Moved moved = moved_by([&] { return send(fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT); });
  return moved.error == ENOTCONN ? Moved{} : moved;  // it is still being made
}

Outcome wait_for(int fd, short events, const WaitLimit& limit) {
  for (;;) {
    const int wait = next_look(limit);
    if (wait == 0) return Outcome::kLate;
    pollfd watched{.fd = fd, .events = events, .revents = 0};
    const int n = poll(&watched, 1, wait);
    if (n > 0) return Outcome::kDone;
    if (n < 0 && errno != EINTR) return Outcome::kOver;
    if (limit.interrupted != nullptr && *limit.interrupted && (*limit.interrupted)()) return Outcome::kInterrupted;
  }
}

Outcome send_all(int fd, std::span<const std::byte> first, std::span<const std::byte> second, const WaitLimit& limit) {
  iovec parts[2] = {{const_cast<std::byte*>(first.data()), first.size()},
                    {const_cast<std::byte*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    const Moved moved = moved_by([&] { return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT); });
    if (moved.over) return over(moved.error);
    if (moved.bytes == 0)
      if (const Outcome waited = wait_for(fd, POLLOUT, limit); waited != Outcome::kDone) return waited;
    std::size_t taken = moved.bytes;
    for (iovec& part : parts) {
      const std::size_t here = std::min(taken, part.iov_len);
      part.iov_base = static_cast<std::byte*>(part.iov_base) + here;
      part.iov_len -= here;
      taken -= here;
    }
  }
  return Outcome::kDone;
}

Outcome receive_all(int fd, std::span<std::byte> into, const WaitLimit& limit) {
  const bool looks = limit.look_for.count() > 0;
  const auto sleeps = looks ? WaitLimit::Clock::now() + limit.look_for : WaitLimit::Clock::time_point();
  while (!into.empty()) {
    const Moved moved = receive_now(fd, into.data(), into.size());
    if (moved.over) return over(moved.error);
    into = into.subspan(moved.bytes);
    if (moved.bytes > 0) continue;
    if (looks && WaitLimit::Clock::now() < sleeps)
      std::this_thread::yield();
    else if (const Outcome waited = wait_for(fd, POLLIN, limit); waited != Outcome::kDone)
      return waited;
  }
  return Outcome::kDone;
}

}  // namespace weft::net::link
