#pragma once

#include "exec/device/image.h"
#include "exec/device/layout.h"
#include "weft/types.h"

namespace weft::exec::device {

// How messages cross; the numbers of protocol::Protocol.
enum class Crossing : std::uint8_t { kSimple = 0, kLL = 1, kLL128 = 3, kDirect = 4 };

// One collective of one rank, as its kernel gets it. A value of plain numbers and device addresses; what changes from
// call to call (message and call numbers) is kept in the region, so that a graph may replay the kernel.
// Owns: nothing; everything must stay valid until the kernel has ended.
struct Frame {
  const std::byte* image = nullptr;     // the program, see image.h
  std::byte* const* regions = nullptr;  // [ranks] where this rank sees their regions
  Geometry geometry;
  std::int32_t rank = 0;
  Crossing crossing = Crossing::kSimple;
  ReduceOp op = ReduceOp::kSum;
  bool publishes = false;          // peers will load and store in and out
  bool scales = false;             // inputs are multiplied by their rank's scale
  Scalar scale;                    // this rank's, unless …
  const void* scale_at = nullptr;  // … it is an element in device memory, read when the kernel begins
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  // Windows that all ranks have mapped, of ranks that do not share an address space: [windows][ranks] where this rank
  // sees them; and in which of them `in` and `out` lie.
  std::byte* const* windows = nullptr;
  std::int32_t in_window = -1, out_window = -1;  // -1: all ranks see the buffer at its address
  std::uint64_t signature = 0;                   // equal on all ranks that call the same thing
  std::int64_t timeout_ns = 0;                   // of one wait
};

// The work of one launch: the collective of one rank, or of several ranks of one GPU; a block per rank and strand.
inline constexpr int kMostTogether = 16;
struct Frames {
  std::int32_t count = 0, strands = 0;  // ranks, and strands of each
  Frame of[kMostTogether];
};
static_assert(sizeof(Frames) <= 4096, "what every GPU takes as a kernel's parameters");

}  // namespace weft::exec::device
