#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/memory/endpoint.h"
#include "net/memory/wait_policy.h"

namespace weft::net::threads {

// The segment that the ranks of one process share. Every pointer is reachable: all memory is everybody's.
class Room;

// One rank of a room. See exec::WorldExecutor for what it is used as.
struct World {
  using Endpoint = memory::Endpoint;

  World(std::shared_ptr<Room> room, Rank rank, memory::WaitPolicy::Limits limits);
  ~World();

  Rank ranks() const { return endpoint.segment().ranks(); }
  Result<void*> allocate(Bytes bytes);
  void deallocate(void* memory);

  // This rank in a new room of `ranks`, which all that give the same name find. Errors: kNoResources.
  Result<std::unique_ptr<World>> move(const std::string& name, Rank rank, Rank ranks,
                                      memory::WaitPolicy::Limits limits) const;

  std::shared_ptr<Room> room;
  Endpoint endpoint;
  memory::WaitPolicy wait_policy;
};

// All ranks of a new communicator; each is then used by a thread of its own. Errors: kNoResources.
Result<std::vector<std::unique_ptr<World>>> open(Rank ranks, memory::WaitPolicy::Limits limits);

}  // namespace weft::net::threads
