#pragma once

#include "api/stream/group.h"

namespace weft::stream {

enum class Way {
  kHostMemory,
  kKernels,        // all ranks in one process
  kJoinedKernels,  // each rank a process with a device of its own: see Group::join
};

// The way in which collectives of ranks on GPUs run, and why; one line.
struct Path {
  Way way = Way::kHostMemory;
  std::shared_ptr<Group> group;  // of kKernels
  std::string why;
};

// Where ranks are.
struct Places {
  std::vector<net::cuda::Identity> devices;
  std::vector<std::uint64_t> processes;  // equal numbers: the same process
};

// The way for ranks at these places, as far as that can be said without asking the devices; every rank says the same.
// kKernels: if their blocks fit, see choose_path; kJoinedKernels: if all ranks reach each other's memory. `forced`: as
// WEFT_DEVICE_PATH, the same on all ranks.
Path choose_way(const Places& places, const std::string& forced);
// The way of ranks of one process, or of a process each, on devices of this process. Errors (bad input): no ranks, a
// device that there is not.
Result<Path> choose_path(std::shared_ptr<Runtime> runtime, std::span<const int> devices, bool one_process,
                         const std::string& forced, std::chrono::nanoseconds timeout);

}  // namespace weft::stream
