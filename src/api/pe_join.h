#pragma once

#include "api/connect.h"
#include "api/open.h"
#include "api/pe.h"

// The ways in which a rank that has joined its job becomes a Pe. Internal to api.
namespace weft::api {

inline constexpr Bytes kPage = 4096;
inline Bytes page_up(Bytes bytes) { return (bytes + kPage - 1) / kPage * kPage; }
// To a multiple of Pe::kMostAlignment.
Bytes heap_up(Bytes bytes);
std::byte* heap_up(std::byte* at);

// Zeroed memory of this process, taken when it is touched; to be unmapped. Errors: kNoResources.
Result<std::byte*> map_memory(Bytes bytes);

// Do all ranks have program data of this size, so that it can be symmetric? Errors: of the communicator.
Result<bool> same_everywhere(Communicator& comm, std::int64_t value);

Result<std::unique_ptr<Pe>> pe_over_shm(Joined joined, const env::Settings& settings, bool share_data);
// Over TCP: the heap is this process's own, and a server answers for it.
Result<std::unique_ptr<Pe>> pe_over_tcp(Joined joined, const env::Settings& settings, bool share_data);

}  // namespace weft::api
