#pragma once

#include "base/device.h"
#include "exec/device/frame.h"
#include "exec/device/staged.h"

namespace weft::exec::device {

// Why and how a block of a kernel stops waiting: its time is up, or a rank has set all blocks' `stop`. A cause that a
// thread finds alone stands in `trouble_`; the block agrees on it by votes.
template <class Machine>
class BlockWaits {
 protected:
  WEFT_DEVICE BlockWaits(Machine& machine, const Frame& frame, int strand)
      : machine_(machine), frame_(frame), strand_(strand), regions_(stage_regions(machine, frame)) {}

  template <class Value>
  WEFT_DEVICE Value& at(std::int32_t rank, std::int64_t offset) const {
    return *reinterpret_cast<Value*>(regions_[rank] + offset);
  }
  WEFT_DEVICE Header& header(std::int32_t rank) const { return at<Header>(rank, frame_.geometry.header(strand_)); }
  WEFT_DEVICE Header& own_header() const { return header(frame_.rank); }
  WEFT_DEVICE void fail(Trouble trouble, std::int32_t peer) {
    if (trouble_ == Trouble::kNone) trouble_ = trouble, trouble_peer_ = peer;
  }
  // After a look in vain: true if this thread gives up.
  WEFT_DEVICE bool tired(std::int32_t peer) {
    if (++spins_ % kSpins == 0) look_around(peer);
    machine_.relax();
    return trouble_ != Trouble::kNone;
  }
  WEFT_DEVICE void look_around(std::int32_t peer) {
    if (machine_.load_stop(&own_header().stop) != 0) return fail(Trouble::kAborted, peer);
    const std::int64_t now = machine_.clock_ns();
    if (since_ == 0) since_ = now;
    if (now - since_ > frame_.timeout_ns) fail(Trouble::kTimeout, peer);
  }
  WEFT_DEVICE void stop_all() {
    Header& own = own_header();
    if (machine_.compare_swap(reinterpret_cast<std::uint32_t*>(&own.trouble), 0,
                              static_cast<std::uint32_t>(trouble_)) != 0)
      return;
    own.peer = trouble_peer_;
    own.step = steps_;
    for (std::int32_t r = 0; r < frame_.geometry.ranks; ++r)
      for (int s = 0; s < frame_.geometry.strands; ++s)
        machine_.store_stop(&at<Header>(r, frame_.geometry.header(s)).stop, 1);  // no atomic: PCIe may not carry one
  }

  static constexpr int kSpins = 1024;  // between two looks at clock and stop

  Machine& machine_;
  const Frame& frame_;
  const int strand_;
  std::byte* const* const regions_;   // of all ranks
  Trouble trouble_ = Trouble::kNone;  // of this thread
  std::int32_t trouble_peer_ = -1;
  std::int64_t since_ = 0;  // when this thread began to wait; 0: it does not
  std::int64_t steps_ = 0;

 private:
  std::uint32_t spins_ = 0;
};

}  // namespace weft::exec::device
