#pragma once

#include "api/connect.h"
#include "api/open.h"
#include "api/pe.h"

// The ways in which a rank that has joined its job becomes a Pe. Internal to api.
namespace weft::api {

inline constexpr Bytes kPage = 4096;
inline Bytes page_up(Bytes bytes) { return (bytes + kPage - 1) / kPage * kPage; }
// Rounds up to a multiple of Pe::kMostAlignment.
Bytes heap_up(Bytes bytes);
std::byte* heap_up(std::byte* at);

// Zeroed memory of this process, taken when it is touched; to be unmapped. Errors: kNoResources.
Result<std::byte*> map_memory(Bytes bytes);

// Do all ranks have program data of this size, so that it can be symmetric? Errors: of the communicator.
Result<bool> same_everywhere(Communicator& comm, std::int64_t value);

// Memory in a segment that some of the ranks share, in the order of the segment; for the others it is not mapped.
// Collective over all ranks.
struct Neighbours {
  net::shm::World& world;
  std::vector<Rank> members;
};
// The memory of this rank that peers reach: the symmetric heap, and the program's variables unless the ranks' programs
// differ.
struct Symmetric {
  pgas::Region heap;
  std::vector<pgas::Region> others = {};
  std::shared_ptr<void> keeps = {};  // outlives its use
};
// Errors: kNoResources, kSystem.
Result<Symmetric> shared_memory(const Neighbours& near, Communicator& comm, Bytes bytes, bool share_data);

// Unless the environment says otherwise, nothing but a peer's end ends a wait.
template <class WaitPolicy>
net::memory::WaitPolicy::Limits patient_limits(const Joined& joined, const env::Settings& settings,
                                               WaitPolicy& wait_policy) {
  net::memory::WaitPolicy::Limits limits = limits_of(settings, joined.comm.ranks(), *joined.machine);
  if (settings.timeout_given) return limits;
  constexpr std::chrono::hours kForEver{24 * 365};
  wait_policy.set_timeout(kForEver);
  limits.timeout = kForEver;
  return limits;
}

Result<std::unique_ptr<Pe>> pe_over_shm(Joined joined, const env::Settings& settings, bool share_data);
// Over TCP, and shared memory with the ranks of this machine: a server answers for this process's memory to the others.
Result<std::unique_ptr<Pe>> pe_over_network(Joined joined, const env::Settings& settings, bool share_data);

}  // namespace weft::api
