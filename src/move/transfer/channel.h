#pragma once

#include <poll.h>

#include <memory>
#include <vector>

#include "move/transfer/outbox.h"
#include "net/bootstrap/socket.h"
#include "net/ucx/byte_stream.h"

namespace weft::transfer {

// A channel carries the bytes of a connection between two agents: in order, both ways. Nothing here blocks.
// Thread: one at a time.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual int socket() const = 0;
  // Sends what goes now. Errors: kPeerDied; it stays so.
  virtual Status send(Outbox& out) = 0;
  // Bytes that send() has taken and that are not sent yet.
  virtual std::size_t unsent() const = 0;
  // How many bytes came, at most `bytes`; 0: none now. Errors: kPeerDied.
  virtual Result<std::size_t> receive(std::byte* into, std::size_t bytes) = 0;
  // Adds what poll() is to wait for before the channel is worth another look. False: it is worth one now.
  virtual bool watch(std::vector<pollfd>& list, bool reads, bool writes) = 0;
};

// Owns: the socket.
std::unique_ptr<Channel> over_socket(net::bootstrap::UniqueFd socket);
// `socket`: between the same two processes; nothing comes over it any more, but it says when the peer ends.
std::unique_ptr<Channel> over_ucx(std::unique_ptr<Channel> socket, std::unique_ptr<net::ucx::ByteStream> stream);

}  // namespace weft::transfer
