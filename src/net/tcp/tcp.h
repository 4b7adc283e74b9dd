#pragma once

#include <memory>

#include "net/tcp/aggregator.h"
#include "net/tcp/patience.h"

namespace weft::net::tcp {

// One rank of a job whose ranks are joined by TCP. See exec::WorldExecutor for what it is used as.
struct World {
  using Endpoint = tcp::Endpoint;

  World(bootstrap::Meeting meeting, Rank rank, const Options& options, Patience::Limits limits);

  Rank ranks() const { return endpoint.ranks(); }
  // Ordinary memory: no peer loads or stores it.
  Result<void*> allocate(Bytes bytes);
  void deallocate(void* memory);

  std::unique_ptr<Aggregator> aggregator;  // where this process has it
  Endpoint endpoint;
  Patience patience;
};

}  // namespace weft::net::tcp
