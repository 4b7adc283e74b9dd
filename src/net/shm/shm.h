#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/memory/endpoint.h"
#include "net/memory/heap.h"
#include "net/memory/patience.h"

namespace weft::net::shm {

struct Options {
  std::string id;  // shared by the ranks of one job and by nobody else: letters, digits, '-' and '_'
  Rank rank = 0;
  Rank ranks = 1;
  Bytes heap_bytes = Bytes{1} << 30;  // registered memory per rank; address space, not memory, until it is used
  memory::Patience::Limits limits;
  // Of ranks that knew each other before: has this one ended, so that it will not come? Empty: nobody knows.
  std::function<bool(Rank)> has_ended = {};
  std::vector<Rank> names = {};  // see memory::Patience
};

// A mapped segment, and how to tell that a peer's process has ended.
class Mapping {
 public:
  Mapping(memory::Segment segment, std::size_t bytes) : segment(segment), bytes_(bytes) {}
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // Watches the peers' processes. Requires: all ranks are attached.
  void watch(Rank self);
  bool has_ended(Rank peer) const;

  const memory::Segment segment;

 private:
  std::size_t bytes_;
  std::vector<int> process_fds_;  // -1: watched by process number instead
};

// One rank as a process. See exec::WorldExecutor for what it is used as.
struct World {
  using Endpoint = memory::Endpoint;

  World(std::unique_ptr<Mapping> mapping, const Options& options);
  ~World();

  Rank ranks() const { return endpoint.segment().ranks(); }
  Result<void*> allocate(Bytes bytes);
  void deallocate(void* memory);

  std::unique_ptr<Mapping> mapping;
  Endpoint endpoint;
  memory::Patience patience;
  memory::Heap heap;
};

// Meets the other ranks; returns when all are there. No server: rank 0 creates the segment under a name made of the id
// (mode 0600), the others find it, and the name is removed as soon as all have mapped it, or one of them gives up.
// Errors: kTimeout naming the missing ranks; kPeerDied: one that has_ended tells of; kInvalidArgument (the ids of two
// jobs collide, ranks disagree); kNoResources (too small a /dev/shm), with what is missing.
Result<std::unique_ptr<World>> attach(const Options& options);

// Removes the segment's name if the job died before it could. For launchers. Errors are ignored: it is usually gone.
void remove_name(const std::string& id);

}  // namespace weft::net::shm
