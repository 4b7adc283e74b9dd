#include "move/transfer/channel.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

namespace weft::transfer {
namespace {

using Clock = std::chrono::steady_clock;

class SocketChannel final : public Channel {
 public:
  explicit SocketChannel(net::bootstrap::UniqueFd socket) : socket_(std::move(socket)) {
    const int on = 1;
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  int socket() const override { return socket_.get(); }
  std::size_t unsent() const override { return 0; }
  Status send(Outbox& out) override;
  Result<std::size_t> receive(std::byte* into, std::size_t bytes) override;
  bool watch(std::vector<pollfd>& list, bool reads, bool writes) override {
    const auto events = static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
    list.push_back({.fd = socket_.get(), .events = events, .revents = 0});
    return true;
  }

 private:
  net::bootstrap::UniqueFd socket_;
};

Status SocketChannel::send(Outbox& out) {
  while (out.waiting() > 0) {
    const ssize_t n = ::send(socket_.get(), out.data(), out.waiting(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return {};
    if (n < 0)
      return failure(Code::kPeerDied, Blame::kOperation, "the connection has broken: {}", std::strerror(errno));
    out.take(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::size_t> SocketChannel::receive(std::byte* into, std::size_t bytes) {
  for (;;) {
    const ssize_t n = recv(socket_.get(), into, bytes, MSG_DONTWAIT);
    if (n > 0) return static_cast<std::size_t>(n);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return 0;
    return failure(Code::kPeerDied, Blame::kOperation, "the connection has ended");
  }
}

class UcxChannel final : public Channel {
 public:
  UcxChannel(std::unique_ptr<Channel> socket, std::unique_ptr<net::ucx::ByteStream> stream)
      : socket_(std::move(socket)), stream_(std::move(stream)) {}
  int socket() const override { return socket_->socket(); }
  std::size_t unsent() const override { return stream_->unsent(); }
  Status send(Outbox& out) override;
  Result<std::size_t> receive(std::byte* into, std::size_t bytes) override;
  bool watch(std::vector<pollfd>& list, bool, bool) override {
    (void)socket_->watch(list, true, false);
    list.push_back({.fd = stream_->event_descriptor(), .events = POLLIN, .revents = 0});
    return stream_->arm();
  }

 private:
  Status look_at_socket();

  std::unique_ptr<Channel> socket_;
  // Of what UCX still reads, and of what it has read, to be filled again. They end after the stream.
  std::vector<std::shared_ptr<Outbox>> boxes_;
  std::unique_ptr<net::ucx::ByteStream> stream_;
  Clock::time_point looked_{}, ended_{};
};

Status UcxChannel::send(Outbox& out) {
  stream_->progress();  // also where nobody receives because much is unsent
  if (out.waiting() == 0) return {};
  const auto idle = std::find_if(boxes_.begin(), boxes_.end(), [](const auto& box) { return box.use_count() == 1; });
  const auto box = idle != boxes_.end() ? *idle : boxes_.emplace_back(std::make_shared<Outbox>());
  box->take(box->waiting());
  std::swap(*box, out);
  return stream_->send({box->data(), box->waiting()}, box);
}

Result<std::size_t> UcxChannel::receive(std::byte* into, std::size_t bytes) {
  WEFT_TRY(const std::size_t n, stream_->receive({into, bytes}));
  if (n == 0) WEFT_CHECK(look_at_socket());
  return n;
}

// What the peer sent by UCX before it ended may come after the end of the socket.
Status UcxChannel::look_at_socket() {
  constexpr std::chrono::milliseconds kEvery{2}, kForLastWords{50};
  const auto now = Clock::now();
  if (now - looked_ < kEvery) return {};
  looked_ = now;
  std::byte byte{};
  const auto came = socket_->receive(&byte, sizeof byte);
  if (came && *came == 0) return {};
  if (ended_ == Clock::time_point{}) ended_ = now;
  if (now - ended_ < kForLastWords) return {};
  return failure(Code::kPeerDied, Blame::kOperation, "the connection has ended");
}

}  // namespace

std::unique_ptr<Channel> over_socket(net::bootstrap::UniqueFd socket) {
  return std::make_unique<SocketChannel>(std::move(socket));
}

std::unique_ptr<Channel> over_ucx(std::unique_ptr<Channel> socket, std::unique_ptr<net::ucx::ByteStream> stream) {
  return std::make_unique<UcxChannel>(std::move(socket), std::move(stream));
}

}  // namespace weft::transfer
