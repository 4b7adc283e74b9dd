#pragma once

#include "base/device.h"
#include "exec/device/frame.h"

namespace weft::exec::device {

// What a block keeps in its shared memory of what it reads again and again: every acquire at system scope makes a
// multiprocessor forget what it had of global memory, and the next look takes longer than the work of a small message.
struct Staged {
  static constexpr int kRanks = 64;
  static constexpr std::int64_t kProgramBytes = 12 << 10;
  std::byte* regions[kRanks];
  alignas(8) std::byte program[kProgramBytes];
};

// The table of the ranks' regions, in shared memory if it fits. All threads of the block call it.
template <class Machine>
WEFT_DEVICE std::byte* const* stage_regions(Machine& machine, const Frame& frame) {
  if (frame.geometry.ranks > Staged::kRanks) return frame.regions;
  Staged& staged = machine.staged();
  for (int r = machine.thread(); r < frame.geometry.ranks; r += machine.threads()) staged.regions[r] = frame.regions[r];
  machine.barrier();
  return staged.regions;
}

}  // namespace weft::exec::device
