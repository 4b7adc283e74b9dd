#include "net/link/channel.h"

#include <netinet/tcp.h>

#include <cstring>

namespace weft::net::link {
namespace {

class SocketChannel final : public Channel {
 public:
  explicit SocketChannel(UniqueFd socket) : socket_(std::move(socket)) {}
  int socket() const override { return socket_.get(); }
  std::size_t unsent() const override { return 0; }
  Status send(Outbox& out) override {
    while (out.waiting() > 0) {
      const Moved moved = send_now(socket_.get(), out.data(), out.waiting());
      if (moved.over)
        return failure(Code::kPeerDied, Blame::kOperation, "the connection has broken: {}", std::strerror(moved.error));
      if (moved.bytes == 0) return {};
      out.take(moved.bytes);
    }
    return {};
  }
  Result<std::size_t> receive(std::byte* into, std::size_t bytes) override {
    const Moved moved = receive_now(socket_.get(), into, bytes);
    if (moved.over) return failure(Code::kPeerDied, Blame::kOperation, "the connection has ended");
    return moved.bytes;
  }
  bool watch(std::vector<pollfd>& list, bool reads, bool writes) override {
    const auto events = static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
    list.push_back({.fd = socket_.get(), .events = events, .revents = 0});
    return true;
  }

 private:
  UniqueFd socket_;
};

}  // namespace

std::unique_ptr<Channel> over_socket(UniqueFd socket) { return std::make_unique<SocketChannel>(std::move(socket)); }

}  // namespace weft::net::link
