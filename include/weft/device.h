#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "weft/device_mark.h"
#include "weft/types.h"

// One-sided operations inside a kernel: put, get, put_signal, waits, atomics and barriers between ranks, by a thread,
// a warp or a block. The memory is a Window of weft/cuda.h, whose heap() a kernel gets as a parameter; weft/device.cuh
// has what a GPU's thread is, and docs/gpu.md an example.
//
//   __global__ void kernel(weft::device::Heap heap, float* mine, std::uint64_t* arrived) {
//     weft::device::GpuThread thread;
//     weft::device::OneSided<weft::device::GpuThread, weft::device::ByBlock> block(thread, heap);
//     block.put_signal(mine, ..., bytes, arrived, 1, next);
//     if (!block.wait(arrived, 1)) ...  // the time is up
//   }
//
// A template over the machine, so that the host's threads test the same text. Kernels that wait for each other must be
// resident at the same time, as weft/cuda.h says of Communicators.
// Compiled for sm_90; tested on the host's threads, by interpreting its PTX, and on one H200; not yet across GPUs.
namespace weft::device {

// The widest load and store there is.
struct alignas(16) Pack {
  std::uint64_t low, high;

  constexpr bool operator==(const Pack&) const = default;
};

// Loads and stores of bytes that lie anywhere, by one thread. Machine: load, store (Pack, and integers).
template <class Step, class Machine>
WEFT_DEVICE Pack load_steps(Machine& machine, const std::byte* from, std::int64_t size) {
  Pack loaded{0, 0};  // no array: a thread's registers have no index
  constexpr int kStep = static_cast<int>(sizeof(Step));
  for (int i = 0; i < size; i += kStep) {
    const auto step = static_cast<std::uint64_t>(machine.load(reinterpret_cast<const Step*>(from + i))) << i % 8 * 8;
    (i < 8 ? loaded.low : loaded.high) |= step;
  }
  return loaded;
}

// Up to 16 bytes: with one load where they are aligned to that, else in the largest steps that their address allows.
template <class Machine>
WEFT_DEVICE Pack load_some(Machine& machine, const std::byte* from, std::int64_t size) {
  const auto place = reinterpret_cast<std::uint64_t>(from) | static_cast<std::uint64_t>(size);
  if (place % sizeof(Pack) == 0) return machine.load(reinterpret_cast<const Pack*>(from));
  if (place % 8 == 0) return load_steps<std::uint64_t>(machine, from, size);
  if (place % 4 == 0) return load_steps<std::uint32_t>(machine, from, size);
  return load_steps<std::uint8_t>(machine, from, size);
}

template <class Step, class Machine>
WEFT_DEVICE void store_steps(Machine& machine, std::byte* to, Pack value, std::int64_t size) {
  constexpr int kStep = static_cast<int>(sizeof(Step));
  for (int i = 0; i < size; i += kStep)
    machine.store(reinterpret_cast<Step*>(to + i), static_cast<Step>((i < 8 ? value.low : value.high) >> i % 8 * 8));
}

template <class Machine>
WEFT_DEVICE void store_some(Machine& machine, std::byte* to, Pack value, std::int64_t size) {
  const auto place = reinterpret_cast<std::uint64_t>(to) | static_cast<std::uint64_t>(size);
  if (size == 0) return;
  if (place % sizeof(Pack) == 0) return machine.store(reinterpret_cast<Pack*>(to), value);
  if (place % 8 == 0) return store_steps<std::uint64_t>(machine, to, value, size);
  if (place % 4 == 0) return store_steps<std::uint32_t>(machine, to, value, size);
  store_steps<std::uint8_t>(machine, to, value, size);
}

// The `lane`-th of `lanes` threads' share of a copy.
template <class Machine>
WEFT_DEVICE void copy_share(Machine& machine, std::byte* to, const std::byte* from, std::int64_t bytes, int lane,
                            int lanes) {
  constexpr std::int64_t kPack = sizeof(Pack);
  for (std::int64_t at = lane * kPack; at < bytes; at += lanes * kPack) {
    const std::int64_t size = bytes - at < kPack ? bytes - at : kPack;
    store_some(machine, to + at, load_some(machine, from + at, size), size);
  }
}

// Memory of all ranks, laid out alike: an address in one's own heap stands for the same place in the peers'. What is
// all zero is in a valid initial state. Owns: nothing.
struct Heap {
  std::byte* const* bases = nullptr;  // [ranks] where this rank sees their heaps
  Rank rank = 0, ranks = 1;
  std::int64_t timeout_ns = 0;  // of one wait

  template <class T>
  WEFT_DEVICE T* pointer(T* own, Rank peer) const {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return reinterpret_cast<T*>(bases[peer] + (reinterpret_cast<Byte*>(own) - bases[rank]));
  }
};

// Who makes a call: all its threads call it together, with the same arguments. A machine's part of each:
// lane and lanes of this thread, a barrier of them that orders their memory, and one that returns whether all said yes.
template <class Machine>
struct ByThread {
  WEFT_DEVICE static int lane(Machine&) { return 0; }
  WEFT_DEVICE static int lanes(Machine&) { return 1; }
  WEFT_DEVICE static void meet(Machine&) {}
  WEFT_DEVICE static bool agree(Machine&, bool yes) { return yes; }
};
template <class Machine>
struct ByWarp {
  WEFT_DEVICE static int lane(Machine& m) { return m.thread() % Machine::kWarp; }
  WEFT_DEVICE static int lanes(Machine&) { return Machine::kWarp; }
  WEFT_DEVICE static void meet(Machine& m) { m.warp_barrier(); }
  WEFT_DEVICE static bool agree(Machine& m, bool yes) {
    const bool all = !m.warp_any(!yes);
    m.warp_barrier();  // a vote alone orders no memory
    return all;
  }
};
template <class Machine>
struct ByBlock {
  WEFT_DEVICE static int lane(Machine& m) { return m.thread(); }
  WEFT_DEVICE static int lanes(Machine& m) { return m.threads(); }
  WEFT_DEVICE static void meet(Machine& m) { m.barrier(); }
  WEFT_DEVICE static bool agree(Machine& m, bool yes) { return m.all(yes); }
};

// Order: what a thread, warp or block put before put_signal, signal or barrier is seen by a rank that sees the signal
// or leaves the barrier: the group meets, then one thread stores with release at system scope, which is cumulative; the
// other side loads with acquire, then meets. Puts alone are in no order.
template <class Machine, template <class> class By>
class OneSided {
  using Who = By<Machine>;

 public:
  WEFT_DEVICE OneSided(Machine& machine, const Heap& heap) : machine_(machine), heap_(heap) {}

  // `to` (put) and `from` (get) are places in this rank's heap that stand for the peer's; the other side is any device
  // memory, but not a kernel's shared memory. On return a put's source may be changed, and what was got is there for
  // all of the group.
  WEFT_DEVICE void put(void* to, const void* from, std::int64_t bytes, Rank peer) {
    copy(heap_.pointer(static_cast<std::byte*>(to), peer), static_cast<const std::byte*>(from), bytes);
  }
  WEFT_DEVICE void get(void* to, const void* from, std::int64_t bytes, Rank peer) {
    copy(static_cast<std::byte*>(to), heap_.pointer(static_cast<const std::byte*>(from), peer), bytes);
  }
  // Adds `value` to the peer's signal, after what the group has put before.
  WEFT_DEVICE void signal(std::uint64_t* signal, std::uint64_t value, Rank peer) {
    Who::meet(machine_);
    if (Who::lane(machine_) == 0) machine_.fetch_add(heap_.pointer(signal, peer), value);
  }
  WEFT_DEVICE void put_signal(void* to, const void* from, std::int64_t bytes, std::uint64_t* at, std::uint64_t value,
                              Rank peer) {
    put(to, from, bytes, peer);
    signal(at, value, peer);
  }
  // Until this rank's signal is at least `value`. False, for all of the group alike: the time is up.
  WEFT_DEVICE bool wait(std::uint64_t* signal, std::uint64_t value) {
    constexpr int kLooks = 1024;  // between two looks at the clock
    std::int64_t since = 0;
    bool there = true;
    if (Who::lane(machine_) == 0)
      for (int look = 1; (there = machine_.load_acquire(signal) >= value) == false; ++look) {
        machine_.relax();
        if (look % kLooks != 0) continue;
        if (since == 0) since = machine_.clock_ns();
        if (machine_.clock_ns() - since > heap_.timeout_ns) break;
      }
    return Who::agree(machine_, there);
  }
  // The old value, for the thread that is first in its group; the others get 0.
  WEFT_DEVICE std::uint64_t fetch_add(std::uint64_t* at, std::uint64_t value, Rank peer) {
    return Who::lane(machine_) == 0 ? machine_.fetch_add(heap_.pointer(at, peer), value) : 0;
  }
  WEFT_DEVICE std::uint64_t compare_swap(std::uint64_t* at, std::uint64_t expected, std::uint64_t value, Rank peer) {
    return Who::lane(machine_) == 0 ? machine_.compare_swap_word(heap_.pointer(at, peer), expected, value) : 0;
  }
  // All ranks' groups that use this counter, one of each rank, meet; `times`: how often they have, this time included.
  // What they put before is there afterwards. False: as wait.
  WEFT_DEVICE bool barrier(std::uint64_t* counter, std::uint64_t times) {
    Who::meet(machine_);
    for (Rank peer = Who::lane(machine_); peer < heap_.ranks; peer += Who::lanes(machine_))
      machine_.fetch_add(heap_.pointer(counter, peer), 1);
    return wait(counter, times * static_cast<std::uint64_t>(heap_.ranks));
  }

 private:
  WEFT_DEVICE void copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
    copy_share(machine_, to, from, bytes, Who::lane(machine_), Who::lanes(machine_));
    Who::meet(machine_);
  }

  Machine& machine_;
  const Heap heap_;
};

}  // namespace weft::device
