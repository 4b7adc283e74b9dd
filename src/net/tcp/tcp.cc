#include "net/tcp/tcp.h"

namespace weft::net::tcp {

fabric::Capabilities capabilities() { return messages::capabilities("tcp"); }

std::unique_ptr<messages::World> open(bootstrap::Meeting meeting, Rank rank, const Options& options,
                                      messages::WaitPolicy::Limits limits) {
  fabric::Capabilities can = capabilities();
  can.aggregation = meeting.ranks.front().aggregation_port != 0;
  const std::size_t ends = meeting.ranks.size() + 1;  // a node that sums messages among them
  const bootstrap::Sealing sealing = meeting.sealing();
  const auto make_carrier = [&](messages::Receiver& receiver, int epoll) {
    return std::make_unique<Sockets>(ends, options.sockets, options.zero_copy, sealing, limits.timeout, receiver,
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
