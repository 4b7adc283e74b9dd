#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/device/layout.h"
#include "protocol/capabilities.h"
#include "stream/runtime.h"

namespace weft::stream {

// Every rank's bytes, in their order, to all; all ranks call it together. Errors: of what carries it.
using Gather = std::function<Status(std::span<const std::byte> own, std::span<std::byte> all)>;

// Ranks of one process, each on a device of its own or on one that it shares, or of as many processes, each on a device
// of its own: their regions, which all of them reach.
// Thread: constant after open(), but for abort(), which any thread may call.
class Group {
 public:
  // `devices`: by rank; may name one several times. Errors: bad input: no ranks, a device that there is not;
  // kUnsupported: devices that do not reach each other, or so many ranks on one that their blocks do not fit on it at
  // the same time (decision 0082); kNoResources.
  static Result<std::shared_ptr<Group>> open(std::shared_ptr<Runtime> runtime, std::span<const int> devices,
                                             std::chrono::nanoseconds timeout);

  // As one of ranks that are a process each, on the calling thread's device, which no other rank uses. All of them call
  // it together, and none may end the group's last owner before all are done with it: they write to its region.
  // Errors: kUnsupported, on all ranks alike: one of them cannot; of the gathering.
  static Result<std::shared_ptr<Group>> join(std::shared_ptr<Runtime> runtime, Rank rank, Rank ranks,
                                             const Gather& gather, std::chrono::nanoseconds timeout);

  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  // Else ranks reach each other's regions, but not each other's buffers.
  bool in_one_process() const { return opened_.empty(); }
  // What kernels of these ranks can do.
  protocol::Capabilities capabilities() const;
  net::cuda::Device& device() const { return *runtime_->device; }
  Rank ranks() const { return geometry_.ranks; }
  int device_of(Rank rank) const { return devices_[static_cast<std::size_t>(rank)]; }
  const exec::device::Geometry& geometry() const { return geometry_; }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  std::byte* region(Rank rank) const { return regions_[static_cast<std::size_t>(rank)]; }
  // Of all regions' addresses, in the rank's own memory.
  std::byte* const* table(Rank rank) const {
    return reinterpret_cast<std::byte* const*>(region(rank) + geometry_.total_bytes());
  }

  // Closes the memory of other processes. Requires: no kernel uses it any more; nothing else is called afterwards.
  void forget_others() { opened_.clear(); }
  // Stops what waits in any kernel of the group, for good.
  Status abort();
  // Why a strand of this rank gave up; the first of them. Errors: kTimeout, kAborted, kMismatch with strand, step and
  // the rank that was waited for.
  Status trouble(Rank rank) const;

 private:
  Group(std::shared_ptr<Runtime> runtime, std::span<const int> devices, std::chrono::nanoseconds timeout)
      : runtime_(std::move(runtime)), devices_(devices.begin(), devices.end()), timeout_(timeout) {}
  Status connect();
  Result<int> strands() const;
  Result<std::byte*> make_region(Rank rank);
  Status write_table(Rank rank);
  Status allocate();

  std::shared_ptr<Runtime> runtime_;
  std::vector<int> devices_;
  std::chrono::nanoseconds timeout_;
  exec::device::Geometry geometry_;
  std::vector<DeviceMemory> own_;              // regions of this process's ranks …
  std::vector<std::shared_ptr<void>> opened_;  // … and of others, if they are processes of their own
  std::vector<std::byte*> regions_;            // by rank
};

}  // namespace weft::stream
