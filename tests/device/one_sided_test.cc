// The device-side operations and the kernels that use them, on the host's threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "bench/gpu/device_side.h"
#include "exec/device/host_machine.h"

namespace weft {
namespace {

using device::ByBlock;
using device::ByThread;
using device::ByWarp;
using device::Heap;
using device::OneSided;
using exec::device::HostBlock;
using exec::device::HostMachine;

// Heaps of some ranks, and kernels of as many blocks of two warps.
class Ranks {
 public:
  Ranks(Rank ranks, std::size_t words) : heaps_(static_cast<std::size_t>(ranks), std::vector<std::uint64_t>(words)) {
    for (auto& h : heaps_) bases_.push_back(reinterpret_cast<std::byte*>(h.data()));
  }
  std::uint64_t* heap(Rank rank) { return heaps_[static_cast<std::size_t>(rank)].data(); }

  using RankContext = std::function<void(HostMachine&, const Heap&, int block)>;
  void run(int blocks, const RankContext& context, std::int64_t timeout_ns = 20'000'000'000) {
    std::vector<std::unique_ptr<HostBlock>> all;
    std::vector<std::thread> threads;
    for (Rank r = 0; r < static_cast<Rank>(bases_.size()); ++r)
      for (int b = 0; b < blocks; ++b) {
        HostBlock& block = *all.emplace_back(std::make_unique<HostBlock>(kThreads));
        for (int t = 0; t < kThreads; ++t)
          threads.emplace_back([&, r, b, t] {
            HostMachine machine(block, t);
            context(machine, {bases_.data(), r, static_cast<Rank>(bases_.size()), timeout_ns}, b);
          });
      }
    for (std::thread& t : threads) t.join();
  }

 private:
  static constexpr int kThreads = 2 * HostBlock::kWarp;
  std::vector<std::vector<std::uint64_t>> heaps_;
  std::vector<std::byte*> bases_;
};

constexpr int kGroups = 16, kBytes = 93;

// Every thread, warp or block sends to the next rank with a signal, which reads it and gets it a second time.
template <template <class> class By>
void send_around() {
  Ranks ranks(3, 1024);
  std::atomic<int> wrong = 0;
  ranks.run(1, [&](HostMachine& machine, const Heap& heap, int) {
    OneSided<HostMachine, By> one_sided(machine, heap);
    const int group = machine.thread() / By<HostMachine>::lanes(machine);
    std::uint64_t* const own = reinterpret_cast<std::uint64_t*>(heap.bases[heap.rank]);
    auto* const signal = own + group;
    auto* const place = reinterpret_cast<std::byte*>(own + kGroups) + group * kBytes + 1;  // at any byte
    std::byte data[kBytes], again[kBytes];
    for (int i = 0; i < kBytes; ++i) data[i] = static_cast<std::byte>(heap.rank * 31 + group * 7 + i);
    const Rank next = (heap.rank + 1) % heap.ranks, before = (heap.rank + 2) % heap.ranks;
    one_sided.put_signal(place, data, kBytes, signal, 5, next);
    if (!one_sided.wait(signal, 5)) ++wrong;
    for (int i = 0; i < kBytes; ++i)
      if (place[i] != static_cast<std::byte>(before * 31 + group * 7 + i)) ++wrong;
    one_sided.get(again + 0, place, kBytes, heap.rank);
    if (By<HostMachine>::lanes(machine) == 1 && !std::equal(again, again + kBytes, place)) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(OneSided, PutSignalWaitAndGetByThreads) { send_around<ByThread>(); }
TEST(OneSided, PutSignalWaitAndGetByWarps) { send_around<ByWarp>(); }
TEST(OneSided, PutSignalWaitAndGetByBlocks) { send_around<ByBlock>(); }

TEST(OneSided, AtomicsCountEveryThreadOnce) {
  Ranks ranks(3, 64);
  ranks.run(2, [&](HostMachine& machine, const Heap& heap, int) {
    OneSided<HostMachine, ByThread> by_thread(machine, heap);
    auto* const own = reinterpret_cast<std::uint64_t*>(heap.bases[heap.rank]);
    by_thread.fetch_add(own, 1, 0);
    while (true) {  // an addition by compare and swap
      const std::uint64_t seen = machine.load_acquire(heap.pointer(own + 1, 0));
      if (by_thread.compare_swap(own + 1, seen, seen + 2, 0) == seen) break;
    }
  });
  EXPECT_EQ(ranks.heap(0)[0], 3u * 2 * 16);
  EXPECT_EQ(ranks.heap(0)[1], 2u * 3 * 2 * 16);
}

TEST(OneSided, NobodyLeavesABarrierBeforeAllHavePut) {
  Ranks ranks(4, 64);
  std::atomic<int> wrong = 0;
  ranks.run(1, [&](HostMachine& machine, const Heap& heap, int) {
    OneSided<HostMachine, ByBlock> by_block(machine, heap);
    auto* const own = reinterpret_cast<std::uint64_t*>(heap.bases[heap.rank]);
    for (std::uint64_t times = 1; times <= 20; ++times) {
      const auto round = times % 2 * 8;  // what is put now is not what is read now
      for (Rank peer = 0; peer < heap.ranks; ++peer) by_block.put(own + 1 + round + heap.rank, &times, 8, peer);
      if (!by_block.barrier(own, times)) ++wrong;
      for (Rank peer = 0; peer < heap.ranks; ++peer)
        if (own[1 + round + static_cast<std::uint64_t>(peer)] != times) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(OneSided, AWaitInVainEnds) {
  Ranks ranks(1, 8);
  std::atomic<int> gave_up = 0;
  ranks.run(
      1,
      [&](HostMachine& machine, const Heap& heap, int) {
        OneSided<HostMachine, ByBlock> by_block(machine, heap);
        if (!by_block.wait(reinterpret_cast<std::uint64_t*>(heap.bases[0]), 1)) ++gave_up;
      },
      20'000'000);
  EXPECT_EQ(gave_up, 16) << "all threads of the block alike";
}

TEST(DeviceSide, EveryTokenArrivesOnceAtItsExpert) {
  constexpr int kTokens = 50, kBlocks = 2, kWords = 5;
  constexpr Rank kRanks = 3;
  Ranks ranks(kRanks, 8 + std::size_t{kRanks} * kTokens * kWords);
  std::vector<std::vector<std::uint64_t>> tokens(kRanks);
  std::vector<std::vector<std::int32_t>> routes(kRanks);
  std::vector<std::vector<std::uint64_t>> expected(kRanks);
  for (Rank r = 0; r < kRanks; ++r)
    for (int t = 0; t < kTokens; ++t) {
      const auto i = static_cast<std::size_t>(r);
      const auto number = static_cast<std::uint64_t>(r * 1000 + t);
      for (int w = 0; w < kWords; ++w) tokens[i].push_back(number * 10 + static_cast<std::uint64_t>(w));
      routes[i].push_back(t % 7 == 6 ? -1 : (t * t + r) % kRanks);
      if (routes[i].back() >= 0) expected[static_cast<std::size_t>(routes[i].back())].push_back(number * 10);
    }
  ranks.run(kBlocks, [&](HostMachine& machine, const Heap& heap, int block) {
    const auto i = static_cast<std::size_t>(heap.rank);
    std::uint64_t* const own = ranks.heap(heap.rank);
    const gpu::Dispatch d{.route = routes[i].data(),
                          .tokens = reinterpret_cast<const std::byte*>(tokens[i].data()),
                          .count = kTokens,
                          .token_bytes = kWords * 8,
                          .slots = reinterpret_cast<std::byte*>(own + 8),
                          .arrived = own,
                          .meetings = own + 1};
    EXPECT_TRUE(gpu::dispatch_tokens(machine, heap, d, block, kBlocks));
  });
  for (Rank r = 0; r < kRanks; ++r) {
    std::vector<std::uint64_t> got;
    const std::uint64_t* const slots = ranks.heap(r) + 8;
    for (std::uint64_t s = 0; s < ranks.heap(r)[0]; ++s) {
      got.push_back(slots[s * kWords]);
      for (std::uint64_t w = 0; w < kWords; ++w) ASSERT_EQ(slots[s * kWords + w], got.back() + w);
    }
    std::sort(got.begin(), got.end());
    std::sort(expected[static_cast<std::size_t>(r)].begin(), expected[static_cast<std::size_t>(r)].end());
    EXPECT_EQ(got, expected[static_cast<std::size_t>(r)]) << "rank " << r;
  }
}

TEST(DeviceSide, AMatrixIsTransposedAcrossRanks) {
  constexpr int kSize = 24, kBlocks = 2;
  constexpr Rank kRanks = 3;
  constexpr std::size_t kPart = kSize * kSize / kRanks;
  Ranks ranks(kRanks, 8 + kPart);
  std::vector<std::vector<std::uint64_t>> out(kRanks, std::vector<std::uint64_t>(kPart));
  for (std::uint64_t times = 1; times <= 3; ++times) {
    for (std::size_t i = 0; i < kPart * kRanks; ++i)
      ranks.heap(static_cast<Rank>(i / kPart))[8 + i % kPart] = i * times;
    ranks.run(kBlocks, [&](HostMachine& machine, const Heap& heap, int block) {
      std::uint64_t* const own = ranks.heap(heap.rank);
      const gpu::Transpose t{.in = own + 8,
                             .out = out[static_cast<std::size_t>(heap.rank)].data(),
                             .size = kSize,
                             .meetings = own,
                             .times = times};
      EXPECT_TRUE(gpu::transpose(machine, heap, t, block, kBlocks));
    });
    for (std::size_t i = 0; i < kPart * kRanks; ++i)
      ASSERT_EQ(out[i / kPart][i % kPart], (i % kSize * kSize + i / kSize) * times);
  }
}

TEST(DeviceSide, AMessageComesBackCountedUp) {
  constexpr std::size_t kWords = 21;  // no multiple of 16 bytes
  const auto words_after = [&]<template <class> class By>(std::uint64_t round_trips) {
    Ranks ranks(2, 1 + 2 * kWords);
    ranks.run(1, [&](HostMachine& machine, const Heap& heap, int) {
      std::uint64_t* const own = ranks.heap(heap.rank);
      const gpu::PingPong p{
          .inbox = own + 1, .outbox = own + 1 + kWords, .bytes = kWords * 8, .arrived = own, .times = round_trips};
      EXPECT_TRUE(gpu::ping_pong<By>(machine, heap, p));
    });
    return std::vector(ranks.heap(0) + 1 + kWords, ranks.heap(0) + 1 + 2 * kWords);
  };
  const std::vector<std::uint64_t> twice_thirty(kWords, 60);
  EXPECT_EQ(words_after.operator()<ByThread>(30), twice_thirty);
  EXPECT_EQ(words_after.operator()<ByWarp>(30), twice_thirty);
  EXPECT_EQ(words_after.operator()<ByBlock>(30), twice_thirty);
}

}  // namespace
}  // namespace weft
