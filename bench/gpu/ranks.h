#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bench/gpu/commands.h"
#include "exec/device/kernels.h"
#include "exec/device/layout.h"
#include "plan/schedule/lower/lower.h"

namespace weft::gpu {

Status checked(cudaError_t error, const char* call);
// Waits for the device: copies from pageable memory, and clears, of the default stream may still be under way when
// their calls have returned, and streams that do not block do not wait for them.
Status settled();

// Device memory that is given back.
class DeviceMemory {
 public:
  static Result<DeviceMemory> make(std::size_t bytes);
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& o) noexcept : at_(std::exchange(o.at_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& o) noexcept {
    std::swap(at_, o.at_);
    return *this;
  }
  ~DeviceMemory() { cudaFree(at_); }
  std::byte* data() const { return static_cast<std::byte*>(at_); }

 private:
  void* at_ = nullptr;
};

// Ranks on the current GPU, and the collectives that their kernels run.
// Thread: one at a time.
class Ranks {
 public:
  static Result<std::unique_ptr<Ranks>> open(const exec::device::Geometry& geometry, const Options& options);
  ~Ranks();

  const exec::device::Geometry& geometry() const { return geometry_; }
  // Prepares programs of all ranks, by rank, and memory for each; input and output stay from call to call if they
  // are large enough. Errors: of flatten; kUnsupported: not all blocks fit on the GPU at the same time.
  Status prepare(std::span<const schedule::Program> programs, protocol::Protocol protocol, bool publishes,
                 DataType type, ReduceOp op, std::size_t in_bytes, std::size_t out_bytes);
  Status prepare(const schedule::Task& task, const schedule::Plan& plan, DataType type, ReduceOp op);
  std::byte* in(Rank rank) const { return ins_[static_cast<std::size_t>(rank)].data(); }
  std::byte* out(Rank rank) const { return outs_[static_cast<std::size_t>(rank)].data(); }

  // What was prepared. Returns at once.
  Status start();
  // Errors: kTimeout, kMismatch, kAborted with rank, strand, peer and step.
  Status wait();
  // Microseconds of one call: the mean of `calls`, one after the other; by launches, or replayed as a graph of one.
  Result<double> time(int calls);
  Result<double> time_as_graph(int calls);

 private:
  Ranks(const exec::device::Geometry& geometry, const Options& options) : geometry_(geometry), options_(options) {}
  Status fork();
  Status join();
  Status check_trouble() const;
  Result<double> time(int calls, const std::function<Status()>& one);

  exec::device::Geometry geometry_;
  const Options options_;
  std::unique_ptr<exec::device::Kernels> kernels_;
  std::vector<DeviceMemory> regions_, images_, ins_, outs_;
  std::size_t in_bytes_ = 0, out_bytes_ = 0;  // of each of them
  DeviceMemory table_;                        // of the regions' addresses
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> ends_;  // of every rank's stream
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::vector<exec::device::Frame> frames_;
  int strands_ = 0;  // of every rank
  DataType type_ = DataType::kFloat32;
};

}  // namespace weft::gpu
