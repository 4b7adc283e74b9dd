// weft::pgas between threads: what the C tests do between processes.

#include "weft/pgas.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <thread>

namespace weft::pgas {
namespace {

void on_ranks(Rank ranks, const std::function<void(World&)>& body) {
  std::vector<World> worlds = World::threads(ranks).value();
  std::vector<std::thread> threads;
  for (World& world : worlds) threads.emplace_back([&body, own = std::move(world)]() mutable { body(own); });
  for (std::thread& t : threads) t.join();
}

TEST(Pgas, AFlagAfterAFenceSaysThatTheDataIsThere) {
  on_ranks(3, [](World& world) {
    const Rank next = (world.rank() + 1) % world.ranks(), before = (world.rank() + 2) % world.ranks();
    auto data = world.allocate_array<std::uint64_t>(32).value();
    auto flags = world.allocate_array<std::uint64_t>(16).value();  // [0] from the writer, [8] from the reader
    std::fill(flags.begin(), flags.end(), 0);
    ASSERT_TRUE(world.barrier());
    std::vector<std::uint64_t> out(32);
    for (std::uint64_t round = 1; round <= 500; ++round) {
      std::iota(out.begin(), out.end(), round * 100);
      world.put(data.data(), out.data(), 32 * 8, next);
      world.fence();
      world.atomic(AtomicOp::kSet, &flags[0], round, next);
      world.wait_until(&flags[0], Compare::kGreaterEqual, round);
      for (std::uint64_t i = 0; i < 32; ++i) ASSERT_EQ(data[i], round * 100 + i);
      world.atomic(AtomicOp::kSet, &flags[8], round, before);
      world.wait_until(&flags[8], Compare::kGreaterEqual, round);
    }
    ASSERT_TRUE(world.barrier());
  });
}

TEST(Pgas, SignalsAreNotLostAndComeAfterTheirData) {
  on_ranks(4, [](World& world) {
    constexpr std::uint64_t kEach = 300;
    auto count = world.allocate_array<std::uint64_t>(1).value();
    auto box = world.allocate_array<std::uint64_t>(kEach * 4).value();
    count[0] = 0;
    ASSERT_TRUE(world.barrier());
    for (std::uint64_t i = 0; i < kEach; ++i) {
      const std::uint64_t at = static_cast<std::uint64_t>(world.rank()) * kEach + i, value = at + 1;
      world.put_signal(&box[at], &value, 8, &count[0], 1, SignalOp::kAdd, 0);
    }
    if (world.rank() == 0) {
      world.wait_until(&count[0], Compare::kEqual, kEach * 4);
      for (std::uint64_t i = 0; i < kEach * 4; ++i) ASSERT_EQ(box[i], i + 1);
    }
    ASSERT_TRUE(world.barrier());
  });
}

TEST(Pgas, AtomicsOfAllKindsGiveTheOldValue) {
  on_ranks(2, [](World& world) {
    auto cell = world.allocate_array<std::int32_t>(1).value();
    cell[0] = 12;
    ASSERT_TRUE(world.barrier());
    if (world.rank() == 0) {
      EXPECT_EQ(world.fetch_add(&cell[0], 3, 1), 12);
      EXPECT_EQ(world.atomic(AtomicOp::kSwap, &cell[0], 0x55, 1), 15);
      EXPECT_EQ(world.atomic(AtomicOp::kAnd, &cell[0], 0x0f, 1), 0x55);
      EXPECT_EQ(world.atomic(AtomicOp::kOr, &cell[0], 0x30, 1), 0x05);
      EXPECT_EQ(world.atomic(AtomicOp::kXor, &cell[0], 0x01, 1), 0x35);
      EXPECT_EQ(world.atomic(AtomicOp::kCompareSwap, &cell[0], 1, 1, 0x99), 0x34);
      EXPECT_EQ(world.atomic(AtomicOp::kCompareSwap, &cell[0], 1, 1, 0x34), 0x34);
      EXPECT_EQ(world.atomic(AtomicOp::kFetch, &cell[0], 0, 1), 1);
      EXPECT_EQ(cell[0], 12);  // this rank's own is another
    }
    ASSERT_TRUE(world.barrier());
  });
}

TEST(Pgas, StridedPutsAndGetsTouchOnlyTheirElements) {
  on_ranks(2, [](World& world) {
    auto there = world.allocate_array<std::int32_t>(30).value();
    std::fill(there.begin(), there.end(), -1);
    ASSERT_TRUE(world.barrier());
    const Rank peer = 1 - world.rank();
    std::vector<std::int32_t> from(20), back(20, -2);
    std::iota(from.begin(), from.end(), 0);
    world.put_strided(there.data(), from.data(), 4, 3, 2, 10, peer);
    ASSERT_TRUE(world.barrier());
    for (int i = 0; i < 30; ++i) EXPECT_EQ(there[static_cast<std::size_t>(i)], i % 3 == 0 ? i / 3 * 2 : -1);
    world.get_strided(back.data(), there.data(), 4, 2, 3, 10, peer);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(back[static_cast<std::size_t>(i)], i % 2 == 0 ? i : -2);
    ASSERT_TRUE(world.barrier());
  });
}

TEST(Pgas, PointersReachThePeersCopy) {
  on_ranks(3, [](World& world) {
    auto cell = world.allocate_array<int>(1).value();
    cell[0] = 10 + world.rank();
    ASSERT_TRUE(world.barrier());
    for (Rank peer = 0; peer < 3; ++peer) EXPECT_EQ(*world.pointer(&cell[0], peer), 10 + peer);
    ASSERT_TRUE(world.barrier());
  });
}

TEST(Pgas, TeamsReduceAmongThemselvesOnly) {
  on_ranks(5, [](World& world) {
    auto split = world.split(world.team(), 4, -2, 3).value();  // 4, 2, 0
    ASSERT_EQ(split.has_value(), world.rank() % 2 == 0);
    if (split) {
      EXPECT_EQ(split->rank(), (4 - world.rank()) / 2);
      EXPECT_EQ(split->translate(split->rank(), world.team()), world.rank());
      auto value = static_cast<std::int64_t>(world.rank());
      ASSERT_TRUE(split->run(
          {.collective = Collective::kAllReduce, .in = &value, .out = &value, .count = 1, .type = DataType::kInt64}));
      EXPECT_EQ(value, 0 + 2 + 4);
    }
    EXPECT_FALSE(world.split(world.team(), 0, 1, 6));
    ASSERT_TRUE(world.barrier());
  });
}

TEST(Pgas, AFullHeapIsAnErrorOnAllRanksAndMendsWithFree) {
  on_ranks(2, [](World& world) {
    const auto absurd = world.allocate(std::size_t{1} << 50);
    ASSERT_FALSE(absurd);
    EXPECT_EQ(absurd.error().code, Code::kNoResources);
    void* const some = world.allocate(1 << 20).value();
    ASSERT_TRUE(world.free(some));
    EXPECT_EQ(world.allocate(1 << 20).value(), some);
  });
}

TEST(PgasDeathTest, MisuseNamesCallRankAndAddress) {
  std::vector<World> alone = World::threads(1).value();
  int local = 0;
  EXPECT_DEATH(alone[0].put(&local, 1, 0), "weft: PE 0: World::put: address 0x[0-9a-f]+ .4 bytes, for PE 0. is not");
  EXPECT_DEATH(alone[0].put(&local, 1, 1), "weft: PE 0: World::put: PE 1 is outside 0 … 0");
}

}  // namespace
}  // namespace weft::pgas
