#pragma once

#include "net/messages/world.h"
#include "net/tcp/sockets.h"

// The fabric of ranks that TCP joins.
namespace weft::net::tcp {

struct Options {
  int sockets = 1;  // connections per pair of ranks and rail; large messages are spread over them
  ZeroCopy zero_copy = ZeroCopy::kByAdapter;
  messages::Aggregator::FoldOf fold_of = nullptr;  // needed where this process has the node that sums messages
};

fabric::Capabilities capabilities();

// A rank of those who have met.
std::unique_ptr<messages::World> open(bootstrap::Meeting meeting, Rank rank, const Options& options,
                                      messages::WaitPolicy::Limits limits);

}  // namespace weft::net::tcp
