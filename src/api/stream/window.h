#pragma once

#include <span>
#include <vector>

#include "api/stream/group.h"
#include "weft/device.h"

namespace weft::stream {

// One rank's part of memory that all ranks of a group have, laid out alike, and that kernels of each reach.
// Requires: kernels that use it have ended before its end.
class Window {
 public:
  // Of all ranks, in their order, over memory that they have. Owns: not the memory. Errors: bad input: not as many
  // places as ranks, null, not aligned to 16 bytes, no device memory; kUnsupported: ranks of several processes, GPUs
  // whose link carries no atomic operations.
  static Result<std::vector<Window>> over(const std::shared_ptr<Group>& group, std::span<void* const> memory,
                                          Bytes bytes);
  // Over memory of its own, which is all zero. Errors: kNoResources; likewise.
  static Result<std::vector<Window>> allocate(const std::shared_ptr<Group>& group, Bytes bytes);

  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }
  // The heap for kernels of this rank; valid as long as the window.
  device::Heap heap() const {
    return {.bases = reinterpret_cast<std::byte* const*>(table_.data()),
            .rank = rank_,
            .ranks = group_->ranks(),
            .timeout_ns = group_->timeout().count()};
  }

 private:
  std::shared_ptr<Group> group_;
  Rank rank_ = 0;
  std::byte* data_ = nullptr;
  Bytes size_ = 0;
  DeviceMemory own_, table_;
};

}  // namespace weft::stream
