#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "net/bootstrap/seal.h"
#include "net/bootstrap/socket.h"
#include "onesided/rma/message.h"

namespace weft::net::rma {

// The asking side of a connection to one peer. Blocks until the kernel has taken a request, and for answers; the peer's
// server always reads on.
// Thread: any number at a time; one request after the other.
class Line {
 public:
  // Connects and proves to know `key`. Errors: kPeerDied, kTimeout, kNoResources.
  Status open(const bootstrap::Address& peer, const bootstrap::Key& key, const bootstrap::Sealing& sealing, Rank self,
              Rank to, std::chrono::milliseconds timeout);

  // Errors of all: kPeerDied; kAborted: an answer was changed on its way. An empty `answer` waits for none.
  Status ask(const Request& request, std::span<const std::byte> payload, std::span<std::byte> answer);
  // Asks for an acknowledgement of everything before, if there is anything; takes it. Between the two the line is
  // locked.
  Status begin_flush();
  Status end_flush();

 private:
  Status send(const Request& request, std::span<const std::byte> payload);
  Status send_parts(std::span<const std::byte> first, std::span<const std::byte> second);
  Status receive(std::span<std::byte> into);
  Status receive_plain(std::span<std::byte> into);

  std::mutex mutex_;
  bootstrap::UniqueFd fd_;  // constant after open
  Rank peer_ = -1;
  std::optional<bootstrap::Sealer> sealer_, opener_;  // guarded by mutex_; null: the line is not sealed
  std::vector<std::byte> record_;                     // guarded by mutex_
  bool unacknowledged_ = false;                       // guarded by mutex_
};

}  // namespace weft::net::rma
