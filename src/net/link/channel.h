#pragma once

#include <poll.h>

#include <memory>
#include <vector>

#include "net/link/bytes.h"
#include "net/link/outbox.h"
#include "net/link/socket.h"

namespace weft::net::link {

// A channel carries the bytes of a connection between two processes: in order, both ways. Nothing here blocks.
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

// A channel's bytes, as Framed takes them; `why`: the error of their end.
inline auto receiver(Channel& channel, Status& why) {
  return [&channel, &why](std::byte* into, std::size_t bytes) -> Moved {
    auto came = channel.receive(into, bytes);
    if (came) return {.bytes = *came};
    why = tl::make_unexpected(std::move(came.error()));
    return {.over = true};
  };
}

// Owns: the socket.
std::unique_ptr<Channel> over_socket(UniqueFd socket);

}  // namespace weft::net::link
