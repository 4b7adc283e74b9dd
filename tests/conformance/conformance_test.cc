// The promises of exec/fabric/fabric.h, tried on every fabric. What a fabric does not advertise is skipped, and says
// so.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/conformance/job.h"

namespace weft::conformance {
namespace {

using protocol::End;
using protocol::Protocol;

class Conformance : public testing::TestWithParam<const FabricUnderTest*> {
 protected:
  void SetUp() override {
    if (GetParam()->available == nullptr) return;
    if (const Status s = GetParam()->available(); !s) GTEST_SKIP() << s.error().message;
  }
  void run(const Job& job) {
    for (const std::string& wrong : GetParam()->run(job)) ADD_FAILURE() << GetParam()->name << ": " << wrong;
  }
  const fabric::Capabilities can = GetParam()->capabilities();
  const std::vector<Protocol>& protocols = GetParam()->protocols;
};

Bytes largest(Protocol protocol, const fabric::Capabilities& can) { return can.slot_data(protocol); }

TEST_P(Conformance, AdvertisesWhatMessagesNeed) {
  EXPECT_FALSE(can.name.empty());
  EXPECT_GE(can.max_strands, 1);
  EXPECT_GE(can.max_slice, 56);
}

TEST_P(Conformance, MessagesArriveInTheOrderTheyWereSent) {
  for (const Protocol p : protocols) {
    // Thirty times as many messages as a connection has slots, each from its own place.
    constexpr Bytes kEach = 48, kCount = 240;
    Job job(2, kEach * kCount);
    job.begin(p);
    for (Bytes m = 0; m < kCount; ++m) job.message(0, 1, (kCount - 1 - m) * kEach, m * kEach, kEach);
    run(job);
  }
}

TEST_P(Conformance, MessagesOfEverySizeArriveWhole) {
  for (const Protocol p : protocols) {
    const Bytes most = largest(p, can);
    std::vector<Bytes> sizes;
    for (Bytes b = 1; b <= std::min<Bytes>(most, 300); ++b) sizes.push_back(b);  // around one, two … five lines
    for (Bytes b = 512; b < most; b *= 2) sizes.insert(sizes.end(), {b - 1, b, b + 1});
    for (Bytes b = 56; b < most; b *= 3) sizes.insert(sizes.end(), {b - 1, b, b + 1});
    sizes.insert(sizes.end(), {most - 1, most});
    std::erase_if(sizes, [&](Bytes b) { return b > most; });
    Bytes total = 0;
    for (const Bytes b : sizes) total += b;
    Job job(2, total);
    job.begin(p);
    Bytes at = 0;
    for (const Bytes b : sizes) job.message(1, 0, at, at, b), at += b;
    run(job);
  }
}

// Both ends cut a message into parts of their own.
TEST_P(Conformance, MessagesArePutTogetherAndTakenApartInParts) {
  constexpr Bytes kSent[] = {1, 56, 3, 120, 64, 7}, kTaken[] = {60, 60, 1, 130};
  for (const Protocol p : protocols) {
    for (const Bytes bytes : {Bytes{8}, Bytes{57}, Bytes{500}, largest(p, can)}) {
      constexpr int kMessages = 20;
      Job job(2, kMessages * bytes);
      job.begin(p);
      const auto parts = [&](Rank self, std::span<const Bytes> sizes, Bytes first) {
        std::size_t next = 0;
        for (Bytes at = 0; at < bytes;) {
          const Bytes part = std::min(sizes[next++ % sizes.size()], bytes - at);
          End message = message_of(1 - self);
          message.offset = at;
          message.last = at + part == bytes;
          job.add(self, self == 0 ? move(part, {in(first + at)}, {message}) : move(part, {message}, {out(first + at)}));
          at += part;
        }
      };
      for (int m = 0; m < kMessages; ++m) {
        parts(0, kSent, m * bytes);
        parts(1, kTaken, m * bytes);
        job.expect(1, m * bytes, {0}, m * bytes, bytes);
      }
      run(job);
    }
  }
}

// Rank 1 takes nothing before rank 0's signal, which comes after as many messages as there are slots: they must all be
// accepted without it. Then more follow, which must wait for slots to come free.
TEST_P(Conformance, AConnectionTakesAllItsSlotsBeforeAnyIsReleased) {
  for (const Protocol p : protocols) {
    const Bytes most = largest(p, can);
    const int slots = protocol::traits(p).slots;
    Job job(2, most * slots * 3);
    job.begin(p);
    job.wait(1, 0);
    for (int m = 0; m < slots; ++m) job.message(0, 1, m * most, m * most, most);
    job.signal(0, 1);
    for (int m = slots; m < 3 * slots; ++m) job.message(0, 1, m * most, m * most, most);
    run(job);
  }
}

TEST_P(Conformance, BothDirectionsOfAPairAreFullAtTheSameTime) {
  for (const Protocol p : protocols) {
    const int slots = protocol::traits(p).slots;
    constexpr Bytes kEach = 1000;
    Job job(2, kEach * slots * 4);
    job.begin(p);
    // Each sends as much as fits, then both take, four times over.
    for (int round = 0; round < 4; ++round) {
      for (const Rank self : {0, 1})
        for (int m = round * slots; m < (round + 1) * slots; ++m)
          job.add(self, move(kEach, {in(m * kEach)}, {message_of(1 - self)}));
      for (const Rank self : {0, 1})
        for (int m = round * slots; m < (round + 1) * slots; ++m) {
          job.add(self, move(kEach, {message_of(1 - self)}, {out(m * kEach)}));
          job.expect(self, m * kEach, {1 - self}, m * kEach, kEach);
        }
    }
    run(job);
  }
}

TEST_P(Conformance, ProtocolsTakeTurnsOnOneConnection) {
  // Sizes below, at and above one line; the count of messages per call is no multiple of the slots.
  constexpr Bytes kSizes[] = {8, 56, 57, 200, 2000};
  Job job(2, 20 * 3 * 2321);
  Bytes at = 0;
  for (int call = 0; call < 20; ++call) {
    job.begin(protocols[static_cast<std::size_t>(call) % protocols.size()]);
    for (int repeat = 0; repeat < 3; ++repeat)
      for (const Bytes b : kSizes) job.message(0, 1, at, at, b), at += b;
  }
  ASSERT_EQ(at, job.bytes());
  run(job);
}

TEST_P(Conformance, StrandsAreIndependentOfEachOther) {
  for (const Protocol p : protocols) {
    constexpr Bytes kEach = 72, kCount = 40;
    Job job(3, kEach * kCount * can.max_strands * 2);
    job.begin(p, false, can.max_strands);
    Bytes at = 0;
    // Every strand carries messages 0 -> 1 -> 2 -> 0; strand 0 is driven last, so it must not hold up the others.
    for (int strand = can.max_strands - 1; strand >= 0; --strand)
      for (Bytes m = 0; m < kCount; ++m, at += kEach)
        for (const Rank r : {0, 1, 2}) job.message(r, (r + 1) % 3, at, at, kEach, strand);
    run(job);
  }
}

TEST_P(Conformance, AFoldAddsMessagesAndMemoryAndGoesToManyPlaces) {
  for (const Protocol p : protocols) {
    const Bytes most = largest(p, can) / 4 * 4;
    for (const Bytes bytes : {Bytes{4}, Bytes{52}, Bytes{60}, Bytes{2000}, most}) {
      // Ranks 1, 2, 3 send to rank 0, which adds its own and keeps the sum and sends it to all of them.
      Job job(4, bytes);
      job.begin(p);
      for (const Rank r : {1, 2, 3}) job.add(r, move(bytes, {in(0)}, {message_of(0)}));
      job.add(0, move(bytes, {message_of(1), in(0), message_of(2), message_of(3)},
                      {out(0), message_of(1), message_of(2), message_of(3)}));
      for (const Rank r : {1, 2, 3}) job.add(r, move(bytes, {message_of(0)}, {out(0)}));
      for (const Rank r : {0, 1, 2, 3}) job.expect(r, 0, {0, 1, 2, 3}, 0, bytes);
      run(job);
    }
  }
}

TEST_P(Conformance, AMessageIsPassedOnFromOneConnectionToTheNext) {
  for (const Protocol p : protocols) {
    const Bytes bytes = largest(p, can);
    Job job(4, 10 * bytes);
    job.begin(p);
    for (int m = 0; m < 10; ++m) {
      job.add(0, move(bytes, {in(m * bytes)}, {message_of(1)}));
      for (const Rank r : {1, 2}) job.add(r, move(bytes, {message_of(r - 1)}, {out(m * bytes), message_of(r + 1)}));
      job.add(3, move(bytes, {message_of(2)}, {out(m * bytes)}));
      for (const Rank r : {1, 2, 3}) job.expect(r, m * bytes, {0}, m * bytes, bytes);
    }
    run(job);
  }
}

TEST_P(Conformance, ARankSendsMessagesToItself) {
  if (can.virtual_time) GTEST_SKIP() << can.name << " has no path from a device to itself";
  for (const Protocol p : protocols) {
    const Bytes bytes = largest(p, can) / 4;
    Job job(2, 20 * bytes);
    job.begin(p);
    for (const Rank r : {0, 1})
      for (int m = 0; m < 20; ++m) job.message(r, r, m * bytes, m * bytes, bytes);
    run(job);
  }
}

TEST_P(Conformance, ReceivingAndReturningOnOnePairInOneOperation) {
  for (const Protocol p : protocols) {
    for (const Bytes bytes : {Bytes{8}, Bytes{56}, Bytes{400}, largest(p, can) / 4 * 4}) {
      Job job(2, bytes);
      job.begin(p);
      job.add(0, move(bytes, {in(0)}, {message_of(1)}));
      job.add(1, move(bytes, {in(0), message_of(0)}, {message_of(0), out(0)}));
      job.add(0, move(bytes, {message_of(1)}, {out(0)}));
      for (const Rank r : {0, 1}) job.expect(r, 0, {0, 1}, 0, bytes);
      run(job);
    }
  }
}

// Many ranks signal each other; a wait takes one signal of one peer and strand, no other.
TEST_P(Conformance, SignalsAreCountedPerPeerAndStrand) {
  constexpr Rank kRanks = 4;
  Job job(kRanks, 64);
  const int strands = std::min(can.max_strands, 2);
  job.begin(Protocol::kSimple, false, strands);
  for (int round = 0; round < 50; ++round)
    for (int strand = 0; strand < strands; ++strand) {
      for (Rank r = 0; r < kRanks; ++r)
        for (Rank k = 1; k < kRanks; ++k) job.signal(r, (r + k) % kRanks, strand);
      for (Rank r = 0; r < kRanks; ++r)
        for (Rank k = 1; k < kRanks; ++k) job.wait(r, (r + k) % kRanks, strand);
    }
  run(job);
}

TEST_P(Conformance, PeersMemoryIsLoadedAndStored) {
  if (!can.load_store) GTEST_SKIP() << can.name << " does not advertise load_store";
  constexpr Bytes kBytes = 4096;
  for (const Bytes bytes : {Bytes{4}, Bytes{1000}, kBytes}) {
    // Rank 0 adds the inputs of both and stores the sum into both outputs, after rank 1 has said that it may.
    Job job(2, kBytes);
    job.begin(Protocol::kDirect, true);
    job.signal(1, 0);
    job.wait(0, 1);
    job.add(0, move(bytes, {in(0), remote(1, in(0))}, {out(0), remote(1, out(0))}));
    job.signal(0, 1);
    job.wait(1, 0);
    for (const Rank r : {0, 1}) job.expect(r, 0, {0, 1}, 0, bytes);
    run(job);
  }
}

// An input is multiplied by its rank's scale where it is read, alone or with others, here or at a peer; what has become
// of it is not multiplied again.
TEST_P(Conformance, InputsAreScaledWhereverTheyAreRead) {
  for (const Protocol p : protocols) {
    for (const Bytes bytes : {4, 56, 64, 1000}) {
      Job job(2, 2 * bytes);
      job.begin(p);
      job.scale();
      job.add(0, move(bytes, {in(0)}, {message_of(1)}));
      job.add(1, move(bytes, {message_of(0), in(0)}, {out(0), message_of(0)}));
      job.add(0, move(bytes, {message_of(1)}, {out(0)}));
      job.add(0, move(bytes, {in(bytes)}, {out(bytes)}));
      for (const Rank r : {0, 1}) job.expect(r, 0, {0, 1}, 0, bytes);
      job.expect(0, bytes, {0}, bytes, bytes);
      run(job);
    }
  }
  if (!can.load_store) return;
  for (const Bytes bytes : {4, 1000, 200000}) {
    Job job(2, bytes);
    for (int call = 0; call < 5; ++call) {  // more calls than a rank has boards
      job.begin(Protocol::kDirect, true);
      job.scale();
      job.signal(1, 0);
      job.wait(0, 1);
      job.add(0, move(bytes, {remote(1, in(0)), in(0)}, {out(0), remote(1, out(0))}));
      job.signal(0, 1);
      job.wait(1, 0);
      for (const Rank r : {0, 1}) job.expect(r, 0, {0, 1}, 0, bytes);
    }
    run(job);
  }
}

TEST_P(Conformance, PeersScratchIsLoadedAndStored) {
  if (!can.load_store) GTEST_SKIP() << can.name << " does not advertise load_store";
  constexpr Bytes kBytes = 10000;
  Job job(3, kBytes);
  for (int call = 0; call < 5; ++call) {  // more calls than a rank has boards
    job.begin(Protocol::kDirect, true);
    for (const Rank r : {0, 1, 2}) {
      const Rank next = (r + 1) % 3, previous = (r + 2) % 3;
      job.signal(r, previous);  // my scratch may be written
      job.wait(r, next);
      job.add(r, move(kBytes, {in(0)}, {remote(next, scratch(0))}));
      job.signal(r, next);
      job.wait(r, previous);
      job.add(r, move(kBytes, {scratch(0)}, {out(0)}));
      job.expect(r, 0, {previous}, 0, kBytes);
    }
  }
  run(job);
}

TEST_P(Conformance, WhatWasStoredBeforeASignalIsSeenAfterItsWait) {
  if (!can.load_store) GTEST_SKIP() << can.name << " does not advertise load_store";
  // One place in the peer's scratch is written again and again; every copy taken after a wait must be the new value.
  constexpr Bytes kEach = 64, kCount = 10000;
  Job job(2, kEach * kCount);
  job.begin(Protocol::kDirect, true);
  for (const Rank r : {0, 1}) job.signal(r, 1 - r);
  for (Bytes m = 0; m < kCount; ++m)
    for (const Rank r : {0, 1}) {
      job.wait(r, 1 - r);  // the peer has taken the value before
      job.add(r, move(kEach, {in(m * kEach)}, {remote(1 - r, scratch(0))}));
      job.signal(r, 1 - r);
      job.wait(r, 1 - r);
      job.add(r, move(kEach, {scratch(0)}, {out(m * kEach)}));
      job.signal(r, 1 - r);
      job.expect(r, m * kEach, {1 - r}, m * kEach, kEach);
    }
  for (const Rank r : {0, 1}) job.wait(r, 1 - r);
  run(job);
}

// Both ranks send without pause, in both directions and on two strands; every message differs from its predecessor in
// the slot, so that a flag or counter seen before its data shows as a wrong byte.
TEST_P(Conformance, NoFlagIsSeenBeforeItsDataUnderLoad) {
  for (const Protocol p : protocols) {
    for (const Bytes each : {Bytes{8}, Bytes{56}, Bytes{136}}) {
      constexpr Bytes kCount = 16000, kBurst = 4;  // bursts keep the slots busy while both directions are under way
      Job job(2, each * kCount);
      const int strands = std::min(can.max_strands, 2);
      job.begin(p, false, strands);
      for (Bytes first = 0; first < kCount; first += kBurst) {
        const int strand = static_cast<int>(first / kBurst) % strands;
        for (const Rank r : {0, 1}) {
          for (Bytes m = first; m < first + kBurst; ++m)
            job.add(r, move(each, {in(m * each)}, {message_of(1 - r, strand)}), strand);
          for (Bytes m = first; m < first + kBurst; ++m)
            job.add(r, move(each, {message_of(1 - r, strand)}, {out(m * each)}), strand);
          job.expect(r, first * each, {1 - r}, first * each, kBurst * each);
        }
      }
      run(job);
    }
  }
}

// Two groups in turn on one strand, a third on another, for more rounds than a connection has slots.
TEST_P(Conformance, NodesOfTheNetworkSumMessagesOfGroups) {
  if (!can.aggregation) GTEST_SKIP() << can.name << " does not advertise aggregation";
  constexpr Rank kRanks = 6;
  for (const Bytes bytes : {Bytes{4}, Bytes{1000}, largest(Protocol::kSimple, can)}) {
    const Bytes rounds = bytes > 1000 ? 4 : 40;
    Job job(kRanks, 3 * rounds * bytes);
    job.begin(Protocol::kSimple, false, 2);
    const auto sum_all = [&](Rank first, Rank count, Rank stride, int strand, Bytes at) {
      std::vector<Rank> members;
      for (Rank i = 0; i < count; ++i) members.push_back(first + i * stride);
      for (const Rank r : members) {
        job.add(r, move(bytes, {in(at)}, {sum_over(first, count, stride, strand)}), strand);
        job.add(r, move(bytes, {sum_over(first, count, stride, strand)}, {out(at)}), strand);
        job.expect(r, at, members, at, bytes);
      }
    };
    for (Bytes round = 0; round < rounds; ++round) {
      sum_all(0, 3, 2, 0, 3 * round * bytes);        // the even ones
      sum_all(3, 3, 1, 0, (3 * round + 1) * bytes);  // the last ones
      sum_all(0, 6, 1, 1, (3 * round + 2) * bytes);
    }
    run(job);
  }
}

TEST_P(Conformance, ManyCallsFollowEachOther) {
  constexpr Bytes kEach = 16, kCalls = 2000;
  Job job(3, kEach * kCalls);
  for (Bytes call = 0; call < kCalls; ++call) {
    job.begin(protocols[static_cast<std::size_t>(call) / 7 % protocols.size()]);
    const Rank root = static_cast<Rank>(call % 3);
    for (const Rank r : {0, 1, 2})
      if (r != root) job.message(root, r, call * kEach, call * kEach, kEach);
  }
  run(job);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Conformance,
                         testing::Values(&kThreads, &kShm, &kTcp, &kStripedTcp, &kSummingTcp, &kUcx, &kUcxAcross,
                                         &kMixedInTurn, &kMixedInPairs, &kMixedUcxInTurn, &kMixedUcxInPairs, &kFlow,
                                         &kPacket),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace weft::conformance
