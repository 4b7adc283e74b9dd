#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "exec/device/exchange.h"

namespace weft::exec::device {

// The kernels, as a GPU's runtime launches them or as the host's threads carry them out. All calls are for the calling
// thread's device. Thread: any.
class Kernels {
 public:
  virtual ~Kernels() = default;

  // Threads of a block that suit the machine.
  virtual int threads() const = 0;
  // The number of blocks of `threads` that a device can hold at once. Also loads the kernels of this type, which CUDA
  // otherwise does when they are first launched, and then waits for kernels that run and may be waiting for this one.
  virtual Result<int> resident_blocks(DataType type, int threads) = 0;
  virtual Result<int> resident_exchange_blocks(int threads) = 0;  // likewise
  // One collective of one rank, or of several ranks of this device together, all with `strands`: a block for
  // each. Returns at once. Requires: the blocks of all ranks fit on their devices at the same time, see
  // resident_blocks; of those launched together CUDA checks it. Errors: kUnsupported: more than kMostTogether; kSystem.
  virtual Status launch(std::span<const Frame> ranks, DataType type, int strands, int threads, void* stream) = 0;
  // Messages between single ranks, otherwise as launch.
  virtual Status exchange(const Exchange& ranks, int threads, void* stream) = 0;
  // The end of an average of integers, in stream order.
  virtual Status divide(DataType type, void* data, std::int64_t bytes, std::int32_t divisor, void* stream) = 0;
};

// CUDA's. Errors (kNotFound): weft was built without it.
Result<std::unique_ptr<Kernels>> cuda_kernels();

// The host's threads: a block is eight of them. `in_stream` does its work behind what the stream has to do.
using InStream = std::function<Status(void* stream, std::function<void()> work)>;
std::unique_ptr<Kernels> host_kernels(InStream in_stream);

}  // namespace weft::exec::device
