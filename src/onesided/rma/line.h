#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "net/link/bytes.h"
#include "net/link/seal.h"
#include "net/link/socket.h"
#include "onesided/rma/message.h"

namespace weft::net::rma {

// The asking side of a connection to one peer. Blocks until the kernel has taken a request, and for answers; the peer's
// server always reads on.
// Thread: any number at a time; one request after the other.
class Line {
 public:
  // Connects and proves to know `key`. Errors: kPeerDied, kTimeout, kNoResources.
  Status open(const link::Address& peer, const link::Key& key, const link::Sealing& sealing, Rank self, Rank to,
              std::chrono::milliseconds timeout);

  // Errors of all: kPeerDied; kAborted: an answer was changed on its way. An empty `answer` waits for none.
  Status ask(const Request& request, std::span<const std::byte> payload, std::span<std::byte> answer);
  // Asks for an acknowledgement of everything before, if there is anything; takes it. Between the two the line is
  // locked.
  Status begin_flush();
  Status end_flush();

 private:
  Status send(const Request& request, std::span<const std::byte> payload);
  Status receive(std::span<std::byte> into);
  Status check(link::Outcome outcome) const;

  std::mutex mutex_;
  UniqueFd fd_;  // constant after open
  Rank peer_ = -1;
  std::optional<link::Sealer> sealer_, opener_;  // guarded by mutex_; null: the line is not sealed
  std::vector<std::byte> record_;                // guarded by mutex_
  bool unacknowledged_ = false;                  // guarded by mutex_
};

}  // namespace weft::net::rma
