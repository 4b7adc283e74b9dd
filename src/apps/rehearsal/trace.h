#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::rehearsal {

// True for a trace of torch.profiler (Kineto), as export_chrome_trace writes it.
bool is_profile(std::string_view text);

// One rank's trace as weft.rehearsal/1: its kernels with their measured times and the card they ran on, its NCCL
// kernels as calls, in the order in which the host launched them. A stream waits for a call where the trace says so
// (cuda_sync events), else where it was idle until the call ended. Errors (bad input): names the file and what the
// trace lacks.
Result<std::string> recording_of_profile(const std::string& name, std::string_view text);

// torch's name of a call in its traces and records ("_allgather_base") as torch.distributed names it ("all_gather").
std::optional<std::string> operation_of(const std::string& name);

// The type that torch calls "BFloat16" in its traces and records; bytes where it is not known.
struct ElementType {
  const char* name;
  int bytes;
};
ElementType element_type_of(const std::string& name);

// The catalogue's part for "NVIDIA H100 80GB HBM3" with this many bytes of memory. Errors (bad input): none is called
// so.
Result<std::string> card_of(const std::string& device, double memory);

}  // namespace weft::rehearsal
