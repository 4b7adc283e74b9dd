#include "net/tcp/tcp.h"

#include <algorithm>

namespace weft::net::tcp {

fabric::Capabilities capabilities() { return messages::capabilities("tcp"); }

std::unique_ptr<messages::World> open(bootstrap::Meeting meeting, Rank rank, const Options& options,
                                      messages::WaitPolicy::Limits limits) {
  fabric::Capabilities can = capabilities();
  can.aggregation = meeting.ranks.front().aggregation_port != 0;
  const std::size_t ends = meeting.ranks.size() + 1;  // a node that sums messages among them
  const link::Sealing sealing = meeting.sealing();
  constexpr int kMostLanes = 16;
  const int rails = static_cast<int>(meeting.most_rails());
  const int lanes = std::min(options.sockets * rails, std::max(kMostLanes, rails));
  const auto make_carrier = [&](messages::Receiver& receiver, int epoll) {
    return std::make_unique<Sockets>(ends, lanes, rails > 1, options.zero_copy, sealing, limits.timeout, receiver,
                                     epoll);
  };
  std::unique_ptr<messages::Aggregator> node;
  if (meeting.aggregation.open()) {
    WEFT_REQUIRE(options.fold_of != nullptr, "a node that sums needs arithmetic");
    bootstrap::Meeting behind{.ranks = meeting.ranks,
                              .key = meeting.key,
                              .name = meeting.name,
                              .listener = std::move(meeting.aggregation),
                              .aggregation = {}};
    node =
        std::make_unique<messages::Aggregator>(can, std::move(behind), limits.timeout, options.fold_of, make_carrier);
  }
  return std::make_unique<messages::World>(can, std::move(meeting), rank, limits, make_carrier, std::move(node));
}

}  // namespace weft::net::tcp
