#pragma once

#include "exec/device/image.h"
#include "exec/device/packs.h"
#include "exec/device/waits.h"

namespace weft::exec::device {

// The addresses of an operation's operands, found once per operation and shared by the threads of a block.
struct Operands {
  const std::byte* source[kMostEnds];  // of messages: their slot
  std::byte* destination[kMostEnds];
  std::uint64_t source_flag[kMostEnds];  // of messages in lines, else 0
  std::uint64_t destination_flag[kMostEnds];
  Scalar scale[kMostEnds];
};

// How a block moves the bytes of one operation, when its operands have been found: memory, and messages of LL and LL128
// as they lie in lines. Lines are waited for while they are read.
//
// Machine: one thread's view of the hardware (host_machine.h, machine.cuh):
//   thread() threads() kWarp  barrier() all(bool)       of the block; all() is a barrier and a vote
//   operands() staged()                                 the block's Operands and Staged, in its shared memory
//   load_acquire store_release (64 bits)                at system scope; they order what barriers have collected
//   load_stop store_stop compare_swap (32 bits)         the last of own memory only
//   load store (Pack, and small integers)               plain, for data
//   load_words store_words (Pack)                       two 64-bit words, each of them whole, unordered
//   load_line store_line (Pack)                         by a warp: see move_lines
//   clock_ns() relax()
template <class T, class Machine>
class BlockMover : protected BlockWaits<Machine> {
 protected:
  using Waits = BlockWaits<Machine>;
  using Waits::frame_;
  using Waits::machine_;
  using Waits::trouble_;

  WEFT_DEVICE BlockMover(Machine& machine, const Frame& frame, int strand) : Waits(machine, frame, strand) {}

  static_assert(sizeof(Pack) % sizeof(T) == 0);

  WEFT_DEVICE const FlatEnd& end(const FlatOperation& o, int e) const {
    return reinterpret_cast<const FlatEnd*>(reinterpret_cast<const std::byte*>(&o) + o.ends)[e];
  }
  // The cursors of this rank's end of a connection.
  WEFT_DEVICE Outgoing& link(std::int32_t peer, int strand) const {
    return this->template at<Outgoing>(frame_.rank, frame_.geometry.outgoing(peer, strand));
  }

  WEFT_DEVICE void move(const FlatOperation& o) {
    if (o.destinations == 0 || o.bytes == 0) return;
    if (frame_.crossing == Crossing::kLL)
      move_words(o);
    else if (frame_.crossing == Crossing::kLL128)
      move_lines(o);
    else if (o.sources == 1 && !frame_.scales)
      copy_memory(o);
    else
      move_memory(o);
  }

 private:
  // Folds the sources of one unit; `load` gets the operand's number.
  template <class Load>
  WEFT_DEVICE Pack fold(const FlatOperation& o, Load&& load) {
    const Operands& all = machine_.operands();
    const Pack first = load(0);
    if (o.sources == 1 && !frame_.scales) return first;
    Lanes<T> sum = Lanes<T>::widen(first);
    if (frame_.scales) sum.scale(all.scale[0]);
    for (int s = 1; s < o.sources; ++s) {
      Lanes<T> next = Lanes<T>::widen(load(s));
      if (frame_.scales) next.scale(all.scale[s]);
      sum.combine(frame_.op, next);
    }
    return sum.narrow();
  }

  WEFT_DEVICE bool aligned(const FlatOperation& o) const {
    const Operands& all = machine_.operands();
    std::uint64_t places = 0;
    for (int s = 0; s < o.sources; ++s) places |= reinterpret_cast<std::uint64_t>(all.source[s]);
    for (int d = 0; d < o.destinations; ++d) places |= reinterpret_cast<std::uint64_t>(all.destination[d]);
    return places % sizeof(Pack) == 0;
  }

  // Whole packs of aligned memory, several of a thread under way at once; then the rest, or all of it, one by one.
  WEFT_DEVICE void copy_memory(const FlatOperation& o) {
    constexpr int kAtOnce = 8;
    const Operands& all = machine_.operands();
    if (o.destinations == 1 && all.destination[0] == all.source[0]) return;  // in place; peers may be reading it
    const std::int64_t step = machine_.threads(), whole = aligned(o) ? o.bytes / 16 : 0;
    std::int64_t u = machine_.thread();
    for (; u + (kAtOnce - 1) * step < whole; u += kAtOnce * step) {
      Pack packs[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k)
        packs[k] = machine_.load(reinterpret_cast<const Pack*>(all.source[0]) + u + k * step);
      for (int d = 0; d < o.destinations; ++d)
        for (int k = 0; k < kAtOnce; ++k)
          machine_.store(reinterpret_cast<Pack*>(all.destination[d]) + u + k * step, packs[k]);
    }
    move_singly(o, u);
  }

  WEFT_DEVICE void move_memory(const FlatOperation& o) {
    constexpr int kAtOnce = sizeof(Computed<T>) > sizeof(T) ? 4 : 8;
    const Operands& all = machine_.operands();
    const std::int64_t step = machine_.threads(), whole = aligned(o) ? o.bytes / 16 : 0;
    std::int64_t u = machine_.thread();
    for (; u + (kAtOnce - 1) * step < whole; u += kAtOnce * step) {
      Lanes<T> sums[kAtOnce];
      for (int s = 0; s < o.sources; ++s) {
        Pack packs[kAtOnce];  // all of them under way before the first is waited for
        for (int k = 0; k < kAtOnce; ++k)
          packs[k] = machine_.load(reinterpret_cast<const Pack*>(all.source[s]) + u + k * step);
        for (int k = 0; k < kAtOnce; ++k) {
          Lanes<T> next = Lanes<T>::widen(packs[k]);
          if (frame_.scales) next.scale(all.scale[s]);
          if (s == 0)
            sums[k] = next;
          else
            sums[k].combine(frame_.op, next);
        }
      }
      for (int k = 0; k < kAtOnce; ++k) {
        const Pack sum = sums[k].narrow();
        for (int d = 0; d < o.destinations; ++d)
          machine_.store(reinterpret_cast<Pack*>(all.destination[d]) + u + k * step, sum);
      }
    }
    move_singly(o, u);
  }
  WEFT_DEVICE void move_singly(const FlatOperation& o, std::int64_t u) {
    const Operands& all = machine_.operands();
    for (; u < MemoryUnits::count(o.bytes); u += machine_.threads()) {
      const Unit unit = MemoryUnits::at(u, o.bytes);
      const Pack sum = fold(o, [&](int s) { return load_some(machine_, all.source[s] + unit.offset, unit.size); });
      for (int d = 0; d < o.destinations; ++d) store_some(machine_, all.destination[d] + unit.offset, sum, unit.size);
    }
  }

  // LL: every word of eight bytes carries its own flag, so a thread that sees the flag has the data.
  WEFT_DEVICE void move_words(const FlatOperation& o) {
    const Operands& all = machine_.operands();
    clear_repeating(o);
    for (std::int64_t u = machine_.thread(); u < WordUnits::count(o.bytes); u += machine_.threads()) {
      const Unit unit = WordUnits::at(u, o.bytes);
      const Pack sum = fold(o, [&](int s) {
        if (all.source_flag[s] == 0) return load_some(machine_, all.source[s] + unit.offset, unit.size);
        return receive_words(all.source[s] + unit.wire, unit.size, all.source_flag[s], end(o, s).peer);
      });
      for (int d = 0; d < o.destinations; ++d) {
        if (all.destination_flag[d] == 0)
          store_some(machine_, all.destination[d] + unit.offset, sum, unit.size);
        else
          send_words(all.destination[d] + unit.wire, sum, unit.size, all.destination_flag[d]);
      }
    }
  }
  WEFT_DEVICE Pack receive_words(const std::byte* wire, std::int64_t size, std::uint64_t flag, std::int32_t peer) {
    Pack value{receive_half(wire, size, flag, peer), 0};
    if (size > 8) value.high = receive_half(wire + sizeof(Pack), size - 8, flag, peer);
    return value;
  }
  // Up to eight bytes: one word, or two.
  WEFT_DEVICE std::uint64_t receive_half(const std::byte* wire, std::int64_t size, std::uint64_t flag,
                                         std::int32_t peer) {
    const auto* const words = reinterpret_cast<const Pack*>(wire);
    const bool both = size > 4;
    Pack seen = machine_.load_words(words);
    while (seen.low >> 32 != flag || (both && seen.high >> 32 != flag)) {
      if (this->tired(peer)) return 0;
      seen = machine_.load_words(words);
    }
    return (seen.low & 0xffffffff) | (both ? seen.high << 32 : 0);
  }
  WEFT_DEVICE void send_words(std::byte* wire, Pack value, std::int64_t size, std::uint64_t flag) {
    for (int h = 0; h * 8 < size; ++h) {
      const std::uint64_t half = h == 0 ? value.low : value.high;
      machine_.store_words(reinterpret_cast<Pack*>(wire) + h,
                           {(half & 0xffffffff) | flag << 32, half >> 32 | flag << 32});
    }
  }
  WEFT_DEVICE void clear_repeating(const FlatOperation& o) {
    for (int e = o.sources; e < o.sources + o.destinations; ++e) {
      const FlatEnd& f = end(o, e);
      if (!f.message() || !protocol::clears_slot(link(f.peer, f.strand).sent + 1)) continue;
      auto* const slot = reinterpret_cast<Pack*>(machine_.operands().destination[e - o.sources]);
      for (std::int64_t i = machine_.thread(); i < frame_.geometry.line_slot_bytes / 16; i += machine_.threads())
        machine_.store_words(slot + i, {0, 0});
      machine_.barrier();
    }
  }

  // LL128: eight lanes of a warp store a line of 128 bytes together, the last of them the flag. That a reader which
  // sees the flag has the line's data rests on the 128 bytes crossing as one: so they do within a GPU and over NVLink,
  // when one instruction of a warp stores them all; PTX does not promise it. (NCCL relies on the same and uses LL128
  // only there.) All lanes of a warp stay together: lanes without data only fill it up.
  WEFT_DEVICE void move_lines(const FlatOperation& o) {
    const Operands& all = machine_.operands();
    const std::int64_t warp = Machine::kWarp;
    const std::int64_t units = (LineUnits::count(o.bytes) + warp - 1) / warp * warp;
    for (std::int64_t u = machine_.thread(); u < units; u += machine_.threads()) {
      const Unit unit = LineUnits::at(u, o.bytes);
      const bool active = u < LineUnits::count(o.bytes), has_flag = LineUnits::has_flag(u);
      const Pack sum = fold(o, [&](int s) {
        if (all.source_flag[s] == 0)
          return unit.size > 0 ? load_some(machine_, all.source[s] + unit.offset, unit.size) : Pack{};
        return receive_line(reinterpret_cast<const Pack*>(all.source[s] + unit.wire), active, has_flag,
                            all.source_flag[s], end(o, s).peer);
      });
      for (int d = 0; d < o.destinations; ++d) {
        if (all.destination_flag[d] == 0)
          store_some(machine_, all.destination[d] + unit.offset, sum, unit.size);
        else
          machine_.store_line(reinterpret_cast<Pack*>(all.destination[d] + unit.wire), active, has_flag,
                              {sum.low, has_flag ? all.destination_flag[d] : sum.high});
      }
    }
  }
  // Once a warp has given up it no longer looks, but its lanes still go through everything together.
  WEFT_DEVICE Pack receive_line(const Pack* line, bool active, bool has_flag, std::uint64_t flag, std::int32_t peer) {
    Pack value{};
    bool stopped = trouble_ != Trouble::kNone;
    while (!machine_.load_line(line, active, has_flag, flag, value)) {
      if (machine_.warp_any(stopped)) break;
      stopped = this->tired(peer);
    }
    if (has_flag) value.high = 0;
    return value;
  }
};

}  // namespace weft::exec::device
