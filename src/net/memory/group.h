#pragma once

#include <functional>
#include <span>

#include "net/memory/endpoint.h"
#include "net/memory/wait_policy.h"

namespace weft::net::memory {

// What the ranks of a job that share memory can build on. Owns: nothing; a value of handles.
struct Commons {
  std::byte* base = nullptr;              // offsets from it name the same memory on all ranks
  std::span<const std::byte> reach = {};  // what all ranks see at those offsets; null: everything
  // Zeroed memory that all ranks see, of this rank's share; none of it is touched yet. Errors: kNoResources.
  std::function<Result<std::byte*>(Bytes)> allocate;
  std::function<void(std::byte*, Bytes)> release;
  std::function<bool(Rank)> has_ended;  // a rank of the job has died or left
};

// Some ranks of a job as a world of their own: connections of their own, in memory that the first of them gave. What
// the whole job shares, the group reaches too. See exec::WorldExecutor for what it is used as.
struct Group {
  using Endpoint = memory::Endpoint;

  static Bytes bytes(Rank ranks) { return static_cast<Bytes>(Segment::total_bytes(ranks, 0)); }

  // `links`: bytes(ranks) that are zero or already used by other members; stays the giver's. `job_rank`: of a member.
  Group(const Commons& commons, std::byte* links, Rank rank, Rank ranks, WaitPolicy::Limits limits,
        std::function<Rank(Rank)> job_rank);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Rank ranks() const { return endpoint.segment().ranks(); }
  // Groups have no memory of their own. Errors: kUnsupported.
  Result<void*> allocate(Bytes bytes);
  void deallocate(void*) {}
  // Of the job's memory, for copies of what peers do not reach. Errors: kNoResources.
  Result<void*> allocate_beyond(Bytes bytes);
  void deallocate_beyond(void* memory, Bytes bytes) { release_(static_cast<std::byte*>(memory), bytes); }

  Endpoint endpoint;
  WaitPolicy wait_policy;

 private:
  const std::function<Result<std::byte*>(Bytes)> allocate_;
  const std::function<void(std::byte*, Bytes)> release_;
};

// Have all members but `rank` left the group, or ended? Then its memory can be given back.
bool alone(const Commons& commons, std::byte* links, Rank rank, Rank ranks, const std::function<Rank(Rank)>& job_rank);

// Makes the pages of a range exist now, so that a lack of memory is an error here instead of a SIGBUS at the first
// store. False: there is no room.
bool populate(void* memory, Bytes bytes);

}  // namespace weft::net::memory
