#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "api/stream/runtime.h"
#include "exec/device/layout.h"
#include "plan/protocol/capabilities.h"

namespace weft::stream {

// Every rank's bytes, in their order, to all; all ranks call it together. Errors: of what carries it.
using Gather = std::function<Status(std::span<const std::byte> own, std::span<std::byte> all)>;

// Ranks of one process, each on a device of its own or on one that it shares, or of as many processes, each on a device
// of its own: their regions, which all of them reach.
// Thread: constant after open(), but for abort(), which any thread may call.
class Group {
 public:
  // `devices`: by rank; may name one several times. Errors: bad input: no ranks, a device that there is not;
  // kUnsupported: devices that do not reach each other, or too many ranks on one, whose blocks do not fit on it at
  // the same time (decision 0082); kNoResources.
  static Result<std::shared_ptr<Group>> open(std::shared_ptr<Runtime> runtime, std::span<const int> devices,
                                             std::chrono::nanoseconds timeout);

  // As one of ranks that are a process each, on the calling thread's device, which no other rank uses. All of them call
  // it together, and none may end the group's last owner before all are done with it: they write to its region.
  // Errors: kUnsupported, on all ranks alike: one of them cannot; of the gathering.
  static Result<std::shared_ptr<Group>> join(std::shared_ptr<Runtime> runtime, Rank rank, Rank ranks,
                                             const Gather& gather, std::chrono::nanoseconds timeout);

  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  // Otherwise ranks reach each other's regions, but of each other's buffers only those in windows.
  bool in_one_process() const { return !joined_; }

  // Memory that every rank of another process opens, too, so that kernels load and store it: `bytes` at `memory`. All
  // ranks call it together, each for memory of its own. `symmetric`: this rank's caller promises that buffers of one
  // call lie here at the same place on all ranks. Requires: ranks are processes. Errors: kUnsupported, on all ranks
  // alike: not symmetric, too many windows, or one rank's memory cannot be opened; of the gathering.
  Status add_window(Rank rank, void* memory, Bytes bytes, bool symmetric, const Gather& gather);
  // Closes what others have there. Errors (bad input): it is no window. Requires: no kernel uses it any more.
  Status remove_window(const void* memory);
  // The window that the buffer lies in; -1: none.
  int window_of(const void* buffer, Bytes bytes) const;
  // Where `peer`'s part of the window lies here whose own part begins at `memory`; null: there is no such window.
  std::byte* window_of_peer(const void* memory, Rank peer) const;
  // For kernels, see exec::device::Frame; null while there are none.
  std::byte* const* windows() const { return reinterpret_cast<std::byte* const*>(window_table_.data()); }
  // What kernels of these ranks can do.
  protocol::Capabilities capabilities() const;
  net::cuda::Device& device() const { return *runtime_->device; }
  Rank ranks() const { return geometry_.ranks; }
  int device_of(Rank rank) const { return devices_[static_cast<std::size_t>(rank)]; }
  const exec::device::Geometry& geometry() const { return geometry_; }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  // Bytes of one rank's region, its table and its room for programs included.
  Bytes region_bytes() const { return room_begins() + Bytes{kProgramRoom}; }
  std::byte* region(Rank rank) const { return regions_[static_cast<std::size_t>(rank)]; }
  // The table of all regions' addresses, in the rank's own memory.
  std::byte* const* table(Rank rank) const {
    return reinterpret_cast<std::byte* const*>(region(rank) + geometry_.total_bytes());
  }

  // Room for programs in the rank's memory: what allocates later may have to wait until kernels have ended, of which
  // some may wait for this rank.
  std::span<std::byte> program_room(Rank rank) const { return {region(rank) + room_begins(), kProgramRoom}; }

  // Closes the memory of other processes. Requires: no kernel uses it any more; nothing else is called afterwards.
  void forget_others() { opened_.clear(), windows_.clear(); }
  // Stops what waits in any kernel of the group, for good.
  Status abort();
  // Why a strand of this rank gave up; the first of them. Errors: kTimeout, kAborted, kMismatch with strand, step and
  // the rank that was waited for.
  Status trouble(Rank rank) const;

 private:
  Group(std::shared_ptr<Runtime> runtime, std::span<const int> devices, std::chrono::nanoseconds timeout)
      : runtime_(std::move(runtime)), devices_(devices.begin(), devices.end()), timeout_(timeout) {}
  static constexpr std::size_t kProgramRoom = std::size_t{1} << 20;
  // A rank's memory: its region, the table of all, the room for programs.
  Bytes room_begins() const {
    const Bytes table = Bytes{ranks()} * Bytes{sizeof(std::byte*)};
    return (geometry_.total_bytes() + table + 127) / 128 * 128;
  }
  Status connect();
  Result<int> strands() const;
  Result<std::byte*> make_region(Rank rank);
  Status write_table(Rank rank);
  // Memory of all ranks but this one; `places`: by rank, where it lies here.
  Result<std::vector<std::shared_ptr<void>>> open_others(Rank rank, std::span<const net::cuda::SharedMemory> shared,
                                                         std::span<std::byte*> places);
  Status allocate();

  std::shared_ptr<Runtime> runtime_;
  std::vector<int> devices_;
  std::chrono::nanoseconds timeout_;
  exec::device::Geometry geometry_;
  std::vector<DeviceMemory> own_;              // regions of this process's ranks …
  std::vector<std::shared_ptr<void>> opened_;  // … and of others, if they are processes of their own
  std::vector<std::byte*> regions_;            // by rank
  bool joined_ = false;

  struct Opened {
    const std::byte* memory;  // this rank's
    Bytes bytes;              // of the smallest
    std::vector<std::shared_ptr<void>> others;
    std::vector<std::byte*> places;  // by rank
  };
  static constexpr int kMostWindows = 64;
  std::map<int, Opened> windows_;  // by the number that they have on all ranks
  DeviceMemory window_table_;      // [kMostWindows][ranks]
};

}  // namespace weft::stream
