#pragma once

#include <chrono>
#include <cstring>
#include <optional>

#include "net/bootstrap/handshake.h"
#include "net/bootstrap/socket.h"
#include "onesided/rma/message.h"
#include "onesided/rma/server.h"

namespace weft::net::rma {

// The serving side of a connection: a stranger until it has proved that it knows the key, then a peer whose requests
// are executed as they come. Thread: the server's.
class Server::Connection {
 public:
  Connection(bootstrap::UniqueFd fd, const bootstrap::Key& key, const bootstrap::Sealing& sealing,
             const pgas::Space& space, Rank ranks);

  int fd() const { return fd_.get(); }
  bool open() const { return fd_.open(); }
  Rank peer() const { return peer_; }  // -1: not known yet
  bool is_stranger() const { return peer_ < 0; }
  std::chrono::steady_clock::time_point since() const { return since_; }
  bool sends() const { return !answer_.empty() || !record_.empty(); }
  // Reads and writes as far as the socket allows.
  void advance();

 private:
  void greet();
  bool send_answer();
  // Bytes that the next use needs in the buffer: `bytes`, and a tag if the connection is sealed.
  std::size_t with_tag(std::size_t bytes) const { return bytes + (opener_ ? bootstrap::Sealer::kTagBytes : 0); }
  // Opens `bytes` bytes at the buffer's beginning where they lie, if the connection is sealed.
  void open_next(std::size_t bytes);
  bool receive();
  void work();
  bool take(Request& request);
  void carry_out();
  std::byte* memory(std::int64_t bytes) const;
  void close() { fd_.reset(); }

  static constexpr std::size_t kBuffer = std::size_t{64} << 10;
  bootstrap::UniqueFd fd_;
  const bootstrap::Sealing sealing_;
  const pgas::Space& space_;
  Rank ranks_, peer_ = -1;
  std::optional<bootstrap::Handshake> handshake_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kBuffer);
  std::size_t begin_ = 0, end_ = 0;  // what was received and not used
  std::optional<Request> request_;   // being executed
  std::span<std::byte> landing_;     // of a put: where the rest goes
  Word word_ = 0;
  std::span<const std::byte> answer_;                 // what is left to send
  std::optional<bootstrap::Sealer> sealer_, opener_;  // null: the connection is not sealed
  std::vector<std::byte> record_;                     // of the answer, sealed: being sent
  std::size_t record_sent_ = 0;
};

}  // namespace weft::net::rma
