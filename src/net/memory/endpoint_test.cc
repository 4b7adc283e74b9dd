#include "net/memory/endpoint.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <numeric>
#include <random>

#include "net/memory/heap.h"
#include "net/memory/test_segment.h"

namespace weft::net::memory {
namespace {

using fabric::Call;
using protocol::End;
using protocol::Operation;
using protocol::Protocol;

void copy(std::byte* const* destinations, int destination_count, const std::byte* const* sources, int, Bytes bytes,
          const fabric::Scalar*) {
  for (int k = 0; k < destination_count; ++k)
    if (destinations[k] != sources[0]) std::memcpy(destinations[k], sources[0], static_cast<std::size_t>(bytes));
}

Operation send(Bytes bytes) {
  return {.bytes = bytes, .sources = End{}, .destinations = End{.kind = End::Kind::kMessage, .peer = 1}};
}
Operation receive(Bytes bytes) {
  return {.bytes = bytes,
          .sources = End{.kind = End::Kind::kMessage, .peer = 0},
          .destinations = End{.memory = protocol::Memory::kOut}};
}
Operation signal_to(Rank peer) {
  return {.kind = Operation::Kind::kSignal, .peer = peer, .sources = {}, .destinations = {}};
}
Operation wait_for(Rank peer) {
  return {.kind = Operation::Kind::kWait, .peer = peer, .sources = {}, .destinations = {}};
}
Operation load(Rank peer, Bytes bytes) {
  return {.bytes = bytes,
          .sources = End{.kind = End::Kind::kRemote, .peer = peer},
          .destinations = End{.memory = protocol::Memory::kOut}};
}

// Both ends of a pair in one thread, so that every step can be looked at.
class Pair : public testing::TestWithParam<Protocol> {
 protected:
  static constexpr std::int64_t kHeap = 8192;

  void SetUp() override {
    std::iota(input.begin(), input.end(), 1);
    begin(0, 0);
    begin(1, 0);
  }
  void begin(Rank r, std::uint64_t signature, bool publishes = false) { begin(r, signature, publishes, GetParam()); }
  void begin(Rank r, std::uint64_t signature, bool publishes, Protocol protocol) {
    std::byte* const heap = segment.heap(r);  // the only memory that peers may touch
    end[r].begin({.in = publishes ? heap : reinterpret_cast<std::byte*>(input.data()),
                  .out = publishes ? heap + kHeap / 2 : reinterpret_cast<std::byte*>(output.data()),
                  .protocol = protocol,
                  .fold = copy,
                  .publishes = publishes,
                  .signature = signature});
  }

  const TestSegment memory{2, kHeap};
  const Segment segment = memory.segment;
  Endpoint end[2] = {{segment, 0, false, "test"}, {segment, 1, false, "test"}};
  std::vector<int> input = std::vector<int>(10000), output = std::vector<int>(10000);
};

TEST_P(Pair, AMessageIsReadyOnlyAfterItWasSent) {
  for (const Bytes size : {1, 56, 57, 3000}) {
    EXPECT_FALSE(end[1].ready(0, receive(size)));
    EXPECT_EQ(end[1].blocker(0, receive(size)), 0);
    ASSERT_TRUE(end[0].ready(0, send(size)));
    end[0].post(0, send(size));
    ASSERT_TRUE(end[1].ready(0, receive(size)));
    EXPECT_EQ(end[1].blocker(0, receive(size)), -1);
    end[1].post(0, receive(size));
    EXPECT_EQ(std::memcmp(output.data(), input.data(), static_cast<std::size_t>(size)), 0);
  }
}

// Small messages are counted a few at a time.
TEST_P(Pair, AFullConnectionTakesMoreOnlyWhenSomeWereTaken) {
  const std::size_t most = GetParam() == Protocol::kSimple ? kUnderWay : kLinesUnderWay;
  constexpr std::size_t kSome = 4;
  std::size_t under_way = 0;
  for (int round = 0; round < 20; ++round) {
    for (; under_way < most; ++under_way) {
      ASSERT_TRUE(end[0].ready(0, send(50))) << under_way;
      end[0].post(0, send(50));
    }
    EXPECT_FALSE(end[0].ready(0, send(50)));
    EXPECT_EQ(end[0].blocker(0, send(50)), 1);
    for (std::size_t m = 0; m < kSome; ++m, --under_way) {
      ASSERT_TRUE(end[1].ready(0, receive(50))) << m;
      end[1].post(0, receive(50));
    }
    EXPECT_TRUE(end[0].ready(0, send(50)));
    EXPECT_EQ(end[0].blocker(0, send(50)), -1);
  }
  for (; under_way > 0; --under_way) end[1].post(0, receive(50));
  EXPECT_FALSE(end[1].ready(0, receive(50)));
}

// Messages that a receiver has taken but not reported yet never keep their sender from sending.
TEST_P(Pair, ASenderWhoseMessagesWereAllTakenHasRoomForAny) {
  const Bytes largest = GetParam() == Protocol::kSimple ? kSlotBytes : 64 * 56;
  std::mt19937 random(3);
  for (int m = 0; m < 3000; ++m) {
    const Bytes bytes = 1 + static_cast<Bytes>(random() % static_cast<std::size_t>(m % 5 == 0 ? largest : largest / 8));
    Operation any = send(largest);
    any.destinations[0].last = false;
    ASSERT_TRUE(end[0].ready(0, any)) << m;
    end[0].post(0, send(bytes));
    ASSERT_TRUE(end[1].ready(0, receive(bytes)));
    end[1].post(0, receive(bytes));
  }
}

// As many as there is room for are under way at any time, and arrive in order and whole.
TEST_P(Pair, MessagesOfAllSizesFollowEachOtherThroughTheRing) {
  std::mt19937 random(7);
  std::deque<std::vector<int>> under_way;
  std::size_t most = 0;
  for (int step = 0; step < 20000; ++step) {
    // Long runs of small or of large messages, so that the ring fills up with both.
    const bool large = step / 500 % 2 == 1;
    const Bytes bytes = 4 * (1 + static_cast<Bytes>(random() % (large ? 890 : 14)));
    if (random() % 8 != 0 && end[0].ready(0, send(bytes))) {
      std::iota(input.begin(), input.begin() + bytes / 4, step);
      end[0].post(0, send(bytes));
      under_way.emplace_back(input.begin(), input.begin() + bytes / 4);
      most = std::max(most, under_way.size());
    } else if (!under_way.empty()) {
      const std::vector<int>& expected = under_way.front();
      const Operation next = receive(4 * static_cast<Bytes>(expected.size()));
      ASSERT_TRUE(end[1].ready(0, next)) << step;
      end[1].post(0, next);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), output.begin())) << step;
      under_way.pop_front();
    } else {
      ASSERT_FALSE(end[1].ready(0, receive(bytes))) << step;
    }
  }
  EXPECT_EQ(most, GetParam() == Protocol::kSimple ? kUnderWay : kLinesUnderWay);
}

// Calls by any protocols follow each other on one connection; the sender is a few ahead.
TEST_P(Pair, MessagesOfAllProtocolsShareAConnection) {
  constexpr Protocol kAll[] = {Protocol::kLL64, Protocol::kSimple, Protocol::kLL128, Protocol::kLL};
  struct Sent {
    std::uint64_t call;
    Protocol protocol;
    std::vector<int> data;
  };
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  std::deque<Sent> under_way;
  std::uint64_t calls = 0;
  for (int step = 0; step < 20000; ++step) {
    const Protocol protocol = kAll[random() % 4];
    const Bytes bytes = 4 * (1 + static_cast<Bytes>(random() % (random() % 4 == 0 ? 400 : 14)));
    begin(0, calls + 1, false, protocol);
    if (random() % 16 < 9 && end[0].ready(0, send(bytes))) {
      std::iota(input.begin(), input.begin() + bytes / 4, step);
      end[0].post(0, send(bytes));
      under_way.push_back({++calls, protocol, {input.begin(), input.begin() + bytes / 4}});
    } else if (!under_way.empty()) {
      const Sent& next = under_way.front();
      begin(1, next.call, false, next.protocol);
      const Operation taken = receive(4 * static_cast<Bytes>(next.data.size()));
      ASSERT_TRUE(end[1].ready(0, taken)) << step;
      end[1].post(0, taken);
      ASSERT_TRUE(std::equal(next.data.begin(), next.data.end(), output.begin())) << step;
      under_way.pop_front();
    }
  }
  EXPECT_GT(calls, 5000u);
}

TEST_P(Pair, AMessageInPartsWaitsForRoomForTheLargest) {
  Operation part = send(400);
  part.destinations[0].last = false;
  const Bytes largest = GetParam() == Protocol::kSimple ? kSlotBytes : 64 * 56;
  std::size_t sent = 0;
  while (end[0].ready(0, send(largest / 2))) {
    end[0].post(0, send(largest / 2));
    ++sent;
  }
  EXPECT_GE(sent, 2u * kSlots - 2);
  EXPECT_FALSE(end[0].ready(0, part));
  end[1].post(0, receive(largest / 2));
  EXPECT_FALSE(end[0].ready(0, part));
  for (int m = 0; m < 2; ++m) end[1].post(0, receive(largest / 2));
  EXPECT_TRUE(end[0].ready(0, part));
}

TEST_P(Pair, AWaitTakesOneSignalOfItsOwnStrand) {
  end[0].post(1, signal_to(1));
  end[0].post(1, signal_to(1));
  EXPECT_FALSE(end[1].ready(0, wait_for(0)));
  EXPECT_EQ(end[1].blocker(0, wait_for(0)), 0);
  for (int k = 0; k < 2; ++k) {
    ASSERT_TRUE(end[1].ready(1, wait_for(0)));
    end[1].post(1, wait_for(0));
  }
  EXPECT_FALSE(end[1].ready(1, wait_for(0)));
}

TEST_P(Pair, PeersMemoryIsTouchedOnlyIfBothPublishedTheSameCall) {
  for (std::uint64_t call = 1; call <= 2 * kBoards; ++call) {
    begin(0, 70 + call, true);
    EXPECT_FALSE(end[0].ready(0, load(1, 8)));  // the peer is still in the call before
    begin(1, 70 + call, true);
    EXPECT_TRUE(end[0].ready(0, load(1, 8)));
    EXPECT_TRUE(end[1].ready(0, load(0, 8)));
  }
}

// What a peer publishes is copied once, then checked against the heaps.
TEST_P(Pair, OffsetsOfAPeerThatLeadOutOfTheHeapsAreRefused) {
  const std::int64_t heaps = segment.heap(0) - segment.base(), end_of_heaps = segment.heap(1) + kHeap - segment.base();
  Board& first = segment.block(1).boards[1 % kBoards];
  for (const std::int64_t lie : {heaps - 1, end_of_heaps - 7, end_of_heaps, std::int64_t{0}, INT64_MIN, INT64_MAX}) {
    Endpoint victim(segment, 0, false, "test");
    first.call.store(1);
    first.signature.store(1);
    first.in.store(lie);
    victim.begin({.in = segment.heap(0), .out = segment.heap(0), .fold = copy, .publishes = true, .signature = 1});
    EXPECT_FALSE(victim.ready(0, load(1, 8))) << lie;
    EXPECT_EQ(victim.mismatched(), 1) << lie;
  }
  begin(0, 1, true);
  Endpoint& victim = end[0];
  Board& board = segment.block(1).boards[2 % kBoards];
  board.call.store(2);
  board.signature.store(1);
  board.in.store(end_of_heaps - 8);
  ASSERT_TRUE(victim.ready(0, load(1, 8)));
  board.in.store(INT64_MAX);
  victim.post(0, load(1, 8));  // reads what was checked
}

TEST_P(Pair, ACallThatDiffersIsBlamedOnThePeer) {
  begin(0, 1, true);
  begin(1, 2, true);
  EXPECT_EQ(end[0].mismatched(), -1);
  const Operation store{.bytes = 8, .sources = End{}, .destinations = End{.kind = End::Kind::kRemote, .peer = 1}};
  EXPECT_FALSE(end[0].ready(0, store));
  EXPECT_EQ(end[0].mismatched(), 1);
  EXPECT_FALSE(end[1].ready(0, load(0, 8)));
  EXPECT_EQ(end[1].mismatched(), 0);
}

TEST_P(Pair, ARankThatWaitsSeesThatItsPeerIsInAnotherCall) {
  begin(0, 1, false);
  end[0].compare_calls(1);
  EXPECT_EQ(end[0].mismatched(), -1);  // the peer has not called yet
  begin(1, 2, false);
  end[0].compare_calls(1);
  EXPECT_EQ(end[0].mismatched(), 1);
}

TEST_P(Pair, AReceiverThatLagsBehindStillChecksEveryMessage) {
  for (const std::uint64_t call : {1, 2, 3}) {
    begin(0, call, false);
    end[0].post(0, send(50));
  }
  begin(1, 1, false);
  ASSERT_TRUE(end[1].ready(0, receive(50)));
  end[1].post(0, receive(50));
  begin(1, 7, false);
  EXPECT_FALSE(end[1].ready(0, receive(50)));
  EXPECT_EQ(end[1].mismatched(), 0);
}

TEST_P(Pair, AMessageThatIsTooShortIsAMismatch) {
  begin(0, 1, false);
  begin(1, 2, false);
  end[0].post(0, send(8));
  EXPECT_FALSE(end[1].ready(0, receive(400)));
  EXPECT_EQ(end[1].mismatched(), 0);
}

TEST_P(Pair, ASignalOfAnotherCallIsAMismatch) {
  begin(0, 1, false);
  end[0].post(1, signal_to(1));
  begin(1, 1, false);
  EXPECT_TRUE(end[1].ready(1, wait_for(0)));
  begin(1, 2, false);
  EXPECT_FALSE(end[1].ready(1, wait_for(0)));
  EXPECT_EQ(end[1].mismatched(), 0);
}

TEST_P(Pair, APeerInALaterCallHasSentAllThatItWill) {
  begin(0, 1, false);
  begin(1, 1, false);
  end[0].compare_calls(1);
  EXPECT_EQ(end[0].mismatched(), -1);
  begin(1, 2, false);
  end[0].compare_calls(1);
  EXPECT_EQ(end[0].mismatched(), -1);  // its last message may have come just now
  end[0].compare_calls(1);
  EXPECT_EQ(end[0].mismatched(), 1);
}

TEST_P(Pair, TheFirstCallThatDiffersIsFoundAndDescribed) {
  for (std::uint64_t call = 1; call <= 39; ++call)  // behind the fixture's
    for (const Rank r : {0, 1}) begin(r, call < 37 ? call : 100 * call + static_cast<std::uint64_t>(r), false);
  end[0].compare_calls(1);
  ASSERT_EQ(end[0].mismatched(), 1);
  const fabric::Disagreement found = end[0].disagreement();
  EXPECT_EQ(found.peer, 1);
  EXPECT_EQ(found.number, 38u);
  EXPECT_TRUE(found.own && found.peers);
}

TEST_P(Pair, AMessageThatNobodyReceivedIsUnread) {
  EXPECT_EQ(end[1].unread(), -1);
  end[0].post(0, send(50));
  EXPECT_EQ(end[1].unread(), 0);
  end[1].post(0, receive(50));
  EXPECT_EQ(end[1].unread(), -1);
}

TEST_P(Pair, OnlyTheOwnHeapIsReached) {
  const std::byte* heap = segment.heap(0);
  EXPECT_TRUE(end[0].reaches(heap, kHeap));
  EXPECT_FALSE(end[0].reaches(heap, kHeap + 1));
  EXPECT_FALSE(end[0].reaches(heap - 1, 1));
  EXPECT_FALSE(end[1].reaches(heap, 1));
  EXPECT_FALSE(end[0].reaches(input.data(), 4));
  EXPECT_TRUE(Endpoint(segment, 0, true, "threads").reaches(input.data(), 4));
}

INSTANTIATE_TEST_SUITE_P(Protocols, Pair, testing::Values(Protocol::kSimple, Protocol::kLL64),
                         [](const auto& info) { return std::string(protocol::traits(info.param).name); });

TEST(Ring, BeginsAnewWhereTheLargestWouldNotFit) {
  Ring<64, 256> ring(1024);
  ring.pass(1);
  EXPECT_EQ(ring.place(), 64u);
  for (int m = 0; m < 2; ++m) ring.pass(256);
  EXPECT_EQ(ring.place(), 576u);
  ring.pass(200);  // 192 left
  EXPECT_EQ(ring.place(), 0u);
  EXPECT_EQ(ring.at(), 1024u);
  EXPECT_FALSE(ring.has_room(1, 0));
  EXPECT_TRUE(ring.has_room(64, 64));  // the first message is taken
  EXPECT_FALSE(ring.has_room(65, 64));
}

TEST(Segment, ItsPartsDoNotOverlap) {
  for (const Rank n : {1, 2, 5, 64}) {
    auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);  // only computed with, never touched
    const Segment s(base, n, 12345);
    const auto at = [&](auto& part) { return reinterpret_cast<std::byte*>(&part) - base; };
    EXPECT_LE(static_cast<std::ptrdiff_t>(sizeof(Header)), at(s.block(0)));
    EXPECT_LE(at(s.block(n - 1)) + static_cast<std::ptrdiff_t>(sizeof(RankBlock)), at(s.connection(0, 0, 0)));
    EXPECT_LE(at(s.connection(n - 1, n - 1, kStrands - 1)) + static_cast<std::ptrdiff_t>(sizeof(Connection)),
              s.scratch(0) - base);
    EXPECT_EQ((s.scratch(0) - base) % 4096, 0);
    EXPECT_LE(s.scratch(n - 1) + kScratchBytes, s.heap(0));
    EXPECT_LE(s.heap(n - 1) + 12345, base + Segment::total_bytes(n, 12345));
  }
}

TEST(Heap, GivesPagesAndTakesThemBack) {
  std::vector<std::byte> range(10 * 4096);
  Heap heap(range.data(), static_cast<Bytes>(range.size()));
  void* const a = heap.allocate(1).value();
  void* const b = heap.allocate(4097).value();
  void* const c = heap.allocate(0).value();
  EXPECT_EQ(static_cast<std::byte*>(b) - static_cast<std::byte*>(a), 4096);
  EXPECT_EQ(static_cast<std::byte*>(c) - static_cast<std::byte*>(b), 2 * 4096);
  EXPECT_FALSE(heap.allocate(7 * 4096));  // 6 pages are left
  EXPECT_EQ(heap.deallocate(b), 2 * 4096);
  EXPECT_EQ(heap.allocate(8192).value(), b);  // first fit
  for (void* p : {b, a, c}) heap.deallocate(p);
  EXPECT_EQ(heap.allocate(10 * 4096).value(), range.data());  // free blocks were joined again
}

TEST(Heap, SaysWhatToRaiseWhenItIsUsedUp) {
  std::vector<std::byte> range(4096);
  Heap heap(range.data(), 4096);
  const auto r = heap.allocate(8192);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, Code::kNoResources);
  EXPECT_EQ(r.error().message, "no 8 KiB left in the shared heap; raise WEFT_HEAP");
}

}  // namespace
}  // namespace weft::net::memory
