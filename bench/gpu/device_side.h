#pragma once

#include "weft/device.h"

// Kernels that communicate: a block of them, as a template over the machine. `blocks`: of one rank; block b of
// every rank meets block b of the others.
namespace weft::gpu {

using device::ByBlock;
using device::ByThread;
using device::ByWarp;
using device::Heap;
using device::OneSided;

// The destination of a rank's token, by the router; -1: none.
struct Dispatch {
  const std::int32_t* route = nullptr;  // [tokens] the expert's rank
  const std::byte* tokens = nullptr;    // this rank's, one after the other
  std::int32_t count = 0, token_bytes = 0;
  // In the heap: what every rank has received, its number, and the blocks' barriers (all zero before the first call).
  std::byte* slots = nullptr;
  std::uint64_t* arrived = nullptr;
  std::uint64_t* meetings = nullptr;  // [blocks]
  std::uint64_t times = 1;            // this call's number, from 1
};

// Mixture of experts: a warp per token draws a slot at the expert and puts the token there; the expert takes no part.
// When it returns, all tokens of the peers' blocks with this number have arrived. False: the time is up.
template <class Machine>
WEFT_DEVICE bool dispatch_tokens(Machine& machine, const Heap& heap, const Dispatch& d, int block, int blocks) {
  OneSided<Machine, ByWarp> by_warp(machine, heap);
  const int warps = machine.threads() / Machine::kWarp;
  for (int t = block * warps + machine.thread() / Machine::kWarp; t < d.count; t += blocks * warps) {
    const Rank expert = d.route[t];
    if (expert < 0) continue;
    const std::uint64_t slot = machine.warp_first(by_warp.fetch_add(d.arrived, 1, expert));
    by_warp.put(d.slots + slot * static_cast<std::uint64_t>(d.token_bytes), d.tokens + std::int64_t{t} * d.token_bytes,
                d.token_bytes, expert);
  }
  return OneSided<Machine, ByBlock>(machine, heap).barrier(d.meetings + block, d.times);
}

// A square matrix of `size` x `size`, of which every rank has size / ranks rows in the heap.
struct Transpose {
  const std::uint64_t* in = nullptr;  // in the heap
  std::uint64_t* out = nullptr;       // this rank's rows of the transposed matrix
  std::int32_t size = 0;
  std::uint64_t* meetings = nullptr;  // [blocks] in the heap, all zero before the first call
  std::uint64_t times = 1;            // this call's number, from 1
};

// Exchange and transposition in one pass: every element is loaded out of its owner's memory where it belongs here,
// without a buffer between. Blocks meet before, when inputs are ready, and after, when they were read.
template <class Machine>
WEFT_DEVICE bool transpose(Machine& machine, const Heap& heap, const Transpose& t, int block, int blocks) {
  OneSided<Machine, ByBlock> by_block(machine, heap);
  if (!by_block.barrier(t.meetings + block, 2 * t.times - 1)) return false;
  const std::int64_t rows = t.size / heap.ranks, size = t.size;
  const std::int64_t step = std::int64_t{blocks} * machine.threads();
  for (std::int64_t i = std::int64_t{block} * machine.threads() + machine.thread(); i < rows * size; i += step) {
    const std::int64_t row = i / size, column = i % size;  // of the output here
    const auto owner = static_cast<Rank>(column / rows);
    const std::uint64_t* const from = t.in + column % rows * size + heap.rank * rows + row;
    machine.store(t.out + i, machine.load(heap.pointer(from, owner)));
  }
  return by_block.barrier(t.meetings + block, 2 * t.times);
}

// A message between ranks 0 and 1, several times to and fro; its receiver counts every word up and sends it back.
struct PingPong {
  std::uint64_t* inbox = nullptr;    // in the heap
  std::uint64_t* outbox = nullptr;   // rank 0 begins with what is there, and has it at the end with 2 * times more
  std::int64_t bytes = 0;            // a multiple of eight
  std::uint64_t* arrived = nullptr;  // in the heap, zero before the call
  std::uint64_t times = 1;
};

// By the first threads of the block that make up a group; the others have nothing to do.
template <template <class> class By, class Machine>
WEFT_DEVICE bool ping_pong(Machine& machine, const Heap& heap, const PingPong& p) {
  using Who = By<Machine>;
  if (machine.thread() >= Who::lanes(machine)) return true;
  OneSided<Machine, By> group(machine, heap);
  const Rank peer = 1 - heap.rank;
  const auto count_up = [&] {  // every lane what it puts itself
    constexpr std::int64_t kPack = sizeof(device::Pack);
    for (std::int64_t at = Who::lane(machine) * kPack; at < p.bytes; at += Who::lanes(machine) * kPack)
      for (std::int64_t w = at / 8; w < (at + kPack) / 8 && w < p.bytes / 8; ++w)
        machine.store(p.outbox + w, machine.load(p.inbox + w) + 1);
  };
  for (std::uint64_t t = 1; t <= p.times; ++t) {
    if (heap.rank == 0) group.put_signal(p.inbox, p.outbox, p.bytes, p.arrived, 1, peer);
    if (!group.wait(p.arrived, t)) return false;
    count_up();
    if (heap.rank == 1) group.put_signal(p.inbox, p.outbox, p.bytes, p.arrived, 1, peer);
  }
  return true;
}

}  // namespace weft::gpu
