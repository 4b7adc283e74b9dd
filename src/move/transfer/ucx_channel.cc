#include "move/transfer/ucx_channel.h"

#include <algorithm>
#include <chrono>

namespace weft::transfer {
namespace {

using Clock = std::chrono::steady_clock;
using net::link::Channel;
using net::link::Outbox;

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
  bool ended();

  std::unique_ptr<Channel> socket_;
  // Buffers that UCX is sending from, and sent ones kept for reuse. Destroyed after the stream.
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
  if (n == 0 && ended()) return failure(Code::kPeerDied, Blame::kOperation, "the connection has ended");
  return n;
}

// By its socket. What the peer sent by UCX before it ended may come after the end of the socket.
bool UcxChannel::ended() {
  constexpr std::chrono::milliseconds kEvery{2}, kForLastWords{50};
  const auto now = Clock::now();
  if (now - looked_ < kEvery) return false;
  looked_ = now;
  std::byte byte{};
  if (const auto came = socket_->receive(&byte, sizeof byte); came && *came == 0) return false;
  if (ended_ == Clock::time_point{}) ended_ = now;
  return now - ended_ >= kForLastWords;
}

}  // namespace

std::unique_ptr<Channel> over_ucx(std::unique_ptr<Channel> socket, std::unique_ptr<net::ucx::ByteStream> stream) {
  return std::make_unique<UcxChannel>(std::move(socket), std::move(stream));
}

}  // namespace weft::transfer
