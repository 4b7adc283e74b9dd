#include "net/rma/line.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/uio.h>

#include <cerrno>
#include <thread>

namespace weft::net::rma {
namespace {

using bootstrap::Handshake;

}  // namespace

Status Line::open(const bootstrap::Address& peer, const bootstrap::Key& key, Rank self, Rank to,
                  std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  // A connection that breaks before its greeting is over may have had to make place for others.
  for (;;) {
    bool again = false;
    const Status opened = try_open(peer, key, self, to, deadline, again);
    if (opened || !again || std::chrono::steady_clock::now() > deadline) return opened;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Status Line::try_open(const bootstrap::Address& peer, const bootstrap::Key& key, Rank self, Rank to,
                      std::chrono::steady_clock::time_point deadline, bool& again) {
  peer_ = to;
  fd_ = bootstrap::UniqueFd();
  WEFT_TRY(fd_, bootstrap::start_connect(peer));
  Handshake handshake(Handshake::Role::kOpener, key, {.purpose = bootstrap::kOneSided, .from = self, .to = to});
  while (handshake.advance(fd_.get()) == Handshake::State::kRunning) {
    if (std::chrono::steady_clock::now() > deadline)
      return failure(Code::kTimeout, Blame::kCommunicator, "PE {} at {} does not answer", to, peer.text());
    if (const int error = bootstrap::connect_error(fd_.get()); error != 0)
      return failure(Code::kPeerDied, Blame::kCommunicator, "PE {} at {}: {}", to, peer.text(), std::strerror(error));
    pollfd wait{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    poll(&wait, 1, 10);
  }
  again = handshake.broke();
  if (handshake.state() == Handshake::State::kFailed)
    return failure(Code::kPeerDied, Blame::kCommunicator, "PE {} at {}: {}", to, peer.text(), handshake.problem());
  const int on = 1;
  setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {};
}

Status Line::ask(const Request& request, std::span<const std::byte> payload, std::span<std::byte> answer) {
  const std::lock_guard guard(mutex_);
  WEFT_CHECK(send(request, payload));
  if (answer.empty()) {
    unacknowledged_ = true;
    return {};
  }
  return receive(answer);
}

Status Line::begin_flush() {
  mutex_.lock();
  return unacknowledged_ ? send({.kind = Request::Kind::kFlush}, {}) : Status{};
}

Status Line::end_flush() {
  const std::unique_lock guard(mutex_, std::adopt_lock);
  if (!unacknowledged_) return {};
  unacknowledged_ = false;
  Word answer = 0;
  return receive(std::as_writable_bytes(std::span(&answer, 1)));
}

Status Line::send(const Request& request, std::span<const std::byte> payload) {
  iovec parts[2] = {{const_cast<Request*>(&request), sizeof request},
                    {const_cast<std::byte*>(payload.data()), payload.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    const ssize_t n = sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) {
      pollfd wait{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
      poll(&wait, 1, -1);
    } else if (n < 0 && errno != EINTR) {
      return failure(Code::kPeerDied, Blame::kCommunicator, "PE {} has ended", peer_);
    }
    auto taken = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    for (iovec& part : parts) {
      const std::size_t here = std::min(taken, part.iov_len);
      part.iov_base = static_cast<std::byte*>(part.iov_base) + here;
      part.iov_len -= here;
      taken -= here;
    }
  }
  return {};
}

Status Line::receive(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t n = recv(fd_.get(), into.data(), into.size(), 0);
    if (n < 0 && errno == EAGAIN) {
      pollfd wait{.fd = fd_.get(), .events = POLLIN, .revents = 0};
      poll(&wait, 1, -1);
    } else if (n == 0 || (n < 0 && errno != EINTR)) {
      return failure(Code::kPeerDied, Blame::kCommunicator, "PE {} has ended", peer_);
    } else if (n > 0) {
      into = into.subspan(static_cast<std::size_t>(n));
    }
  }
  return {};
}

}  // namespace weft::net::rma
