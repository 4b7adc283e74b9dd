#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
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
  Status begin_flush() WEFT_THREAD_SAFETY(acquire_capability(mutex_));
  Status end_flush() WEFT_THREAD_SAFETY(release_capability(mutex_));

 private:
  Status send(const Request& request, std::span<const std::byte> payload) WEFT_REQUIRES(mutex_);
  Status receive(std::span<std::byte> into) WEFT_REQUIRES(mutex_);
  Status check(link::Outcome outcome) const;

  Mutex mutex_;
  UniqueFd fd_;  // constant after open
  Rank peer_ = -1;
  std::optional<link::Sealer> sealer_ WEFT_GUARDED_BY(mutex_), opener_
      WEFT_GUARDED_BY(mutex_);  // null: the line is not sealed
  std::vector<std::byte> record_ WEFT_GUARDED_BY(mutex_);
  bool unacknowledged_ WEFT_GUARDED_BY(mutex_) = false;
};

}  // namespace weft::net::rma
