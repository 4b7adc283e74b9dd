#pragma once

#include "net/messages/aggregator.h"
#include "net/messages/wait_policy.h"

namespace weft::net::messages {

// What every fabric can do whose ranks only send messages. `name` outlives the answer.
fabric::Capabilities capabilities(std::string_view name);

// One rank of a job whose ranks send each other messages. See exec::WorldExecutor for what it is used as.
struct World {
  using Endpoint = messages::Endpoint;

  World(const fabric::Capabilities& capabilities, bootstrap::Meeting meeting, Rank rank, WaitPolicy::Limits limits,
        const Endpoint::MakeCarrier& make_carrier, std::unique_ptr<Aggregator> node = nullptr);
  // Of a group that uses the connections of the communicator that it was split from.
  World(const fabric::Capabilities& capabilities, bootstrap::Meeting meeting, Rank rank, WaitPolicy::Limits limits,
        Branch branch);

  Rank ranks() const { return endpoint.ranks(); }
  // Ordinary memory: no peer loads or stores it.
  Result<void*> allocate(Bytes bytes);
  void deallocate(void* memory);

  std::unique_ptr<Aggregator> aggregator;  // where this process has the node that sums
  Endpoint endpoint;
  WaitPolicy wait_policy;
};

}  // namespace weft::net::messages
