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
  const std::size_t ranks = meeting.ranks.size();
  return std::make_unique<messages::World>(
      capabilities(), std::move(meeting), rank, limits, [&](messages::Receiver& receiver, int epoll) {
        return std::make_unique<Sockets>(ranks, options.sockets, options.zero_copy, limits.timeout, receiver, epoll);
      });
}

}  // namespace weft::net::tcp
