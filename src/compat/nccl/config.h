#pragma once

#include "compat/nccl/group.h"

// Configurations of single collectives (ncclCollConfig_t).
namespace weft::compat::nccl {

// What a configuration asks for, as far as it means something here.
struct Wishes {
  std::string selection;         // of algorithms; empty: weft chooses
  bool forced = true;            // … and nothing else will do
  int least = 0, most = 0;       // channels; 0: no bound
  void* launch_event = nullptr;  // recorded in the stream
};

// Reads no more than the caller's structure has, whatever header it was built with. Null: nothing is asked for.
// Errors (bad input): not initialized, or a field out of its range, by name.
Result<Wishes> wishes_of(const ncclCollConfig_t* config);

// Makes them the request's algorithm and channels, which are part of what ranks must agree on. Errors: bad input: an
// algorithm that weft does not know; kUnsupported: none of those named can do this call, with its channels.
Status apply(const Wishes& wishes, Operation& operation);

// Of any of NCCL's configurations: it begins as all of them do.
template <class Config>
bool is_initialized(const Config* config) {
  constexpr std::size_t kHead = sizeof(std::size_t) + 2 * sizeof(unsigned);
  return config->magic == NCCL_API_MAGIC && config->size >= kHead;
}

}  // namespace weft::compat::nccl
