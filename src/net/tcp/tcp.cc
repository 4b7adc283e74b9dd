#include "net/tcp/tcp.h"

#include "net/tcp/sockets.h"

namespace weft::net::tcp {

fabric::Capabilities capabilities() {
  return {.name = "tcp",
          .max_strands = messages::kStrands,
          .max_slice = messages::kSlotBytes,
          .scratch_bytes = static_cast<Bytes>(messages::kScratchBytes)};
}

std::unique_ptr<messages::World> open(bootstrap::Meeting meeting, Rank rank, const Options& options,
                                      messages::Patience::Limits limits) {
  const std::size_t peers = meeting.ranks.size() + 1;  // there may be a node behind the last rank
  const auto make_carrier = [&](messages::Receiver& receiver, int epoll) {
    return std::make_unique<Sockets>(peers, options.sockets, options.zero_copy, limits.timeout, receiver, epoll);
  };
  return std::make_unique<messages::World>(capabilities(), std::move(meeting), rank, limits, make_carrier,
                                           options.fold_of);
}

}  // namespace weft::net::tcp
