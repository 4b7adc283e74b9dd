#pragma once

#include <optional>

#include "onesided/rma/message.h"
#include "onesided/rma/server.h"

namespace weft::net::rma {

// The serving side of a connection: the peer's requests are executed as they come. Thread: the server's.
class Server::Connection final : public link::Connection {
 public:
  // `greeting`: of both sides. `left`: becomes true with the connection's end.
  Connection(UniqueFd fd, const link::Handshake& greeting, const link::Sealing& sealing, const pgas::Space& space,
             std::atomic<bool>& left);
  ~Connection() override { left_.store(true, std::memory_order_release); }

  bool open() const override { return fd_.open(); }
  bool watch(std::vector<pollfd>& list) override {
    list.push_back({.fd = fd_.get(), .events = static_cast<short>(sends() ? POLLOUT : POLLIN), .revents = 0});
    return true;
  }
  // Reads and writes as far as the socket allows.
  void advance() override;

 private:
  bool sends() const { return !answer_.empty() || !record_.empty(); }
  bool send_answer();
  // Bytes that the next use needs in the buffer: `bytes`, and a tag if the connection is sealed.
  std::size_t with_tag(std::size_t bytes) const { return bytes + (opener_ ? link::Sealer::kTagBytes : 0); }
  // Opens `bytes` bytes at the buffer's beginning where they lie, if the connection is sealed.
  void open_next(std::size_t bytes);
  bool receive();
  void work();
  bool take(Request& request);
  void carry_out();
  std::byte* memory(std::int64_t bytes) const;
  void close() { fd_.reset(); }

  static constexpr std::size_t kBuffer = std::size_t{64} << 10;
  UniqueFd fd_;
  const pgas::Space& space_;
  const Rank peer_;
  std::atomic<bool>& left_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kBuffer);
  std::size_t begin_ = 0, end_ = 0;  // what was received and not used
  std::optional<Request> request_;   // being executed
  std::span<std::byte> landing_;     // of a put: where the rest goes
  Word word_ = 0;
  std::span<const std::byte> answer_;            // what is left to send
  std::optional<link::Sealer> sealer_, opener_;  // null: the connection is not sealed
  std::vector<std::byte> record_;                // of the answer, sealed: being sent
  std::size_t record_sent_ = 0;
};

}  // namespace weft::net::rma
