#include "onesided/rma/line.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/bootstrap/dial.h"
#include "onesided/rma/record.h"

namespace weft::net::rma {
Status Line::open(const bootstrap::Address& peer, const bootstrap::Key& key, const bootstrap::Sealing& sealing,
                  Rank self, Rank to, std::chrono::milliseconds timeout) {
  peer_ = to;
  auto dialled = bootstrap::dial(
      {.to = peer, .key = key, .claim = {.purpose = bootstrap::kOneSided, .from = self, .to = to}, .timeout = timeout});
  if (!dialled) {
    const Error& e = dialled.error();
    if (e.blame == Blame::kProcess) return tl::make_unexpected(e);
    return failure(e.code == Code::kTimeout ? Code::kTimeout : Code::kPeerDied, Blame::kCommunicator, "PE {} at {}: {}",
                   to, peer.text(), e.message);
  }
  fd_ = std::move(dialled->fd);
  if (sealing.on()) {
    sealer_.emplace(sealing, dialled->session_key, bootstrap::Sealer::Side::kOpener, true);
    opener_.emplace(sealing, dialled->session_key, bootstrap::Sealer::Side::kAcceptor, false);
  }
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

// Sealed, the request is a record, and the payload is one for every kRecordBytes.
Status Line::send(const Request& request, std::span<const std::byte> payload) {
  const auto head = std::as_bytes(std::span(&request, 1));
  if (!sealer_) return send_parts(head, payload);
  record_.clear();
  append_record(*sealer_, head, record_);
  while (!payload.empty()) {
    const std::size_t bytes = std::min(payload.size(), kRecordBytes);
    append_record(*sealer_, payload.first(bytes), record_);
    payload = payload.subspan(bytes);
    if (payload.empty()) break;
    WEFT_CHECK(send_parts(record_, {}));
    record_.clear();
  }
  return send_parts(record_, {});
}

Status Line::send_parts(std::span<const std::byte> first, std::span<const std::byte> second) {
  iovec parts[2] = {{const_cast<std::byte*>(first.data()), first.size()},
                    {const_cast<std::byte*>(second.data()), second.size()}};
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
  if (!opener_) return receive_plain(into);
  while (!into.empty()) {
    const std::size_t bytes = std::min(into.size(), kRecordBytes);
    record_.resize(bytes + bootstrap::Sealer::kTagBytes);
    WEFT_CHECK(receive_plain(record_));
    if (!open_record(*opener_, record_.data(), bytes))
      return failure(Code::kAborted, Blame::kCommunicator, "what came from PE {} was changed on its way", peer_);
    std::memcpy(into.data(), record_.data(), bytes);
    into = into.subspan(bytes);
  }
  return {};
}

Status Line::receive_plain(std::span<std::byte> into) {
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
