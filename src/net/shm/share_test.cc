#include "net/shm/share.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace weft::net::shm {
namespace {

using memory::RankState;
using memory::Segment;

constexpr Rank kRanks = 2;
constexpr Bytes kHeap = 1 << 20;
const Bytes kGroup = static_cast<Bytes>(Segment::total_bytes(kRanks, 0));

// Rank 0's share of a segment with room for `groups` of two; `other`: rank 1's process.
std::unique_ptr<Share> share_of(Bytes groups, pid_t other = getpid()) {
  const Bytes room = 8 * groups * kGroup;  // it never gives more than an eighth at once
  const std::size_t bytes = Segment::total_bytes(kRanks, kHeap, room);
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(at, MAP_FAILED);
  auto mapping = std::make_unique<Mapping>(Segment(static_cast<std::byte*>(at), kRanks, kHeap, room), bytes);
  mapping->segment.block(0).pid = getpid();
  mapping->segment.block(1).pid = other;
  mapping->watch(0);
  return std::make_unique<Share>(std::move(mapping), 0);
}

Segment group_in(const Share& share, const Room& room) {
  return {share.mapping().segment.base() + room.place, kRanks, 0};
}

void all_leave(const Segment& group) {
  for (Rank r = 0; r < kRanks; ++r) group.block(r).state = RankState::kLeft;
}

TEST(Share, RoomIsUsedAgainWhenAllHaveLeftAndIsZeroThen) {
  const auto share = share_of(1);
  const Room first = share->reserve(kRanks);
  ASSERT_EQ(first.bytes, kGroup);
  const Segment group = group_in(*share, first);
  std::fill_n(group.scratch(0), 5000, std::byte{7});
  group.connection(0, 1, 0).tail.flags[3] = 3;
  group.block(0).state = RankState::kLeft;
  share->leave(first, {0, 1});
  const Room second = share->reserve(kRanks);  // rank 1 has not even come
  EXPECT_NE(second.place, first.place);
  share->release(second);
  all_leave(group);
  EXPECT_EQ(share->reserve(kRanks).place, first.place);
  EXPECT_EQ(group.connection(0, 1, 0).tail.flags[3], 0u);
  EXPECT_EQ(group.block(1).state, RankState::kAbsent);
  EXPECT_TRUE(std::all_of(group.scratch(0), group.scratch(0) + 5000, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Share, WhatADeadRankNeverLeftIsUsedAgainWhenThereIsNoOther) {
  const pid_t other = fork();
  if (other == 0) {
    pause();
    _exit(0);
  }
  const auto share = share_of(1, other);
  std::vector<Room> rooms;
  for (Room room = share->reserve(kRanks); room.bytes > 0; room = share->reserve(kRanks)) rooms.push_back(room);
  ASSERT_EQ(rooms.size(), 8u);
  group_in(*share, rooms[3]).block(0).state = RankState::kLeft;
  share->leave(rooms[3], {0, 1});
  EXPECT_EQ(share->reserve(kRanks).bytes, 0);  // rank 1 may still use it
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  EXPECT_EQ(share->reserve(kRanks).place, rooms[3].place);
}

TEST(Share, LargeGroupsAreOfferedAnEighthAndWhatTheyDoNotNeedIsFree) {
  const auto share = share_of(1);
  const Room room = share->reserve(100);  // 100 x 100 connections do not fit
  EXPECT_EQ(room.bytes, kGroup);
  const Room most = share->reserve(kRanks);
  share->cut(room, 1);
  share->release(most);
  const Room next = share->reserve(1);
  EXPECT_EQ(next.place, room.place + static_cast<Bytes>(Segment::total_bytes(1, 0)));
}

// 64 ranks touch every pair's connection; of 512 only a bounded number per rank.
TEST(SharedMemory, GrowsWithTheRanksAndNotWithTheirPairs) {
  const auto of = [](Rank ranks) { return static_cast<double>(bytes_touched(ranks)) / ranks; };
  EXPECT_GT(of(64), 1.8 * of(32));
  EXPECT_LT(of(512), 1.5 * of(64));
  EXPECT_TRUE(check_free(std::uint64_t{20} << 30, 512));
  EXPECT_FALSE(check_free(std::uint64_t{4} << 30, 512));
}

// Twice a core's cache, as long as the rings of all pairs leave half of the cache that the cores share.
TEST(SharedMemory, RingsFitBesideEachOtherIntoTheSharedCache) {
  constexpr Bytes kMiB = Bytes{1} << 20;
  EXPECT_EQ(ring_for(kMiB, 32 * kMiB, 2), std::size_t{2} << 20);
  EXPECT_EQ(ring_for(kMiB / 4, 32 * kMiB, 2), std::size_t{512} << 10);
  EXPECT_EQ(ring_for(kMiB, 32 * kMiB, 4), std::size_t{1} << 20);
  EXPECT_EQ(ring_for(kMiB, 32 * kMiB, 8), memory::kSmallRingBytes);
  EXPECT_EQ(ring_for(0, 0, 2), memory::kSmallRingBytes);
  EXPECT_EQ(ring_for(64 * kMiB, 1024 * kMiB, 2), memory::kRingBytes);
}

TEST(SharedMemory, RingsAreSmallWhereTheRoomIs) {
  EXPECT_EQ(affordable_ring(memory::kRingBytes, std::uint64_t{64} << 20, 8), memory::kSmallRingBytes);
  EXPECT_EQ(affordable_ring(memory::kRingBytes, std::uint64_t{64} << 30, 8), memory::kRingBytes);
  EXPECT_EQ(affordable_ring(memory::kRingBytes, 0, 2), memory::kSmallRingBytes);
}

}  // namespace
}  // namespace weft::net::shm
