#pragma once

#include <memory>

#include "net/mixed/patience.h"
#include "net/shm/shm.h"
#include "net/tcp/tcp.h"

namespace weft::net::mixed {

// One rank of a job on several machines, joined by shared memory within each and TCP across. See exec::WorldExecutor
// for what it is used as.
struct World {
  using Endpoint = mixed::Endpoint;

  World(std::unique_ptr<shm::World> near, std::unique_ptr<messages::World> far, std::vector<Rank> members,
        Patience::Limits limits);

  Rank ranks() const { return endpoint.ranks(); }
  // Ordinary memory: no peer loads or stores it.
  Result<void*> allocate(Bytes bytes) { return far->allocate(bytes); }
  void deallocate(void* memory) { far->deallocate(memory); }

  std::unique_ptr<shm::World> near;
  std::unique_ptr<messages::World> far;
  Endpoint endpoint;
  Patience patience;
};

inline constexpr Bytes kNoHeap = 4096;  // buffers are not shared

// Joins those who have met: first the ranks of this machine share a segment; connections to others open when they are
// used. Errors: those of shm::attach.
// `heap_bytes`: of every rank's part of that segment, for who puts something there himself.
Result<std::unique_ptr<World>> open(bootstrap::Meeting meeting, Rank rank, const tcp::Options& options,
                                    Patience::Limits limits, Bytes heap_bytes = kNoHeap);

}  // namespace weft::net::mixed
