#include "plan/schedule/verify/verify.h"

#include <gtest/gtest.h>

namespace weft::schedule {
namespace {

using Kind = Finding::Kind;

// Small schedules written by hand, one lane unless said otherwise: one for each way to be wrong.
Schedule written(Collective collective, int chunks, std::vector<std::vector<Step>> strands, int lanes = 1) {
  const auto ranks = static_cast<Rank>(strands.size()) / lanes;
  return {{collective, ranks, 0, chunks}, chunks, lanes, std::move(strands)};
}

Finding refuted(const Schedule& schedule, VerifyOptions options = {}) {
  const Proof proof = verify(schedule, options);
  EXPECT_FALSE(proof.ok()) << "nothing was found";
  return proof.counterexample.value_or(Finding{});
}

#define EXPECT_FINDING(found, expected_kind, expected_rank, expected_step, expected_chunk, expected_peer) \
  do {                                                                                                    \
    const Finding was = (found);                                                                          \
    EXPECT_EQ(name(was.kind), name(expected_kind)) << was.text;                                           \
    EXPECT_EQ(was.rank, expected_rank) << was.text;                                                       \
    EXPECT_EQ(was.step, expected_step) << was.text;                                                       \
    EXPECT_EQ(was.chunk, expected_chunk) << was.text;                                                     \
    EXPECT_EQ(was.peer, expected_peer) << was.text;                                                       \
  } while (false)

// Two ranks exchange their inputs and add them up.
Schedule exchange() {
  return written(Collective::kAllReduce, 1,
                 {{move(0, {in(0)}, {to(1)}), move(0, {in(0), from(1)}, {out(0)})},
                  {move(0, {in(0)}, {to(0)}), move(0, {in(0), from(0)}, {out(0)})}});
}

// Rank 0 sums both inputs and stores the sum into both outputs, between a signal from and a signal to rank 1.
Schedule reach() {
  return written(Collective::kAllReduce, 1,
                 {{wait(1), move(0, {in(0), at(1, in(0))}, {out(0), at(1, out(0))}), signal(1)}, {signal(0), wait(0)}});
}

TEST(Verify, ProvesAndCountsWhatIsRight) {
  const Proof messages = verify(exchange());
  ASSERT_TRUE(messages.ok()) << messages.counterexample->text;
  EXPECT_EQ(messages.steps, 4);
  EXPECT_EQ(messages.messages, 2);
  EXPECT_EQ(messages.remote_accesses, 0);
  const Proof memory = verify(reach());
  ASSERT_TRUE(memory.ok()) << memory.counterexample->text;
  EXPECT_EQ(memory.steps, 5);
  EXPECT_EQ(memory.remote_accesses, 2);  // one load and one store
}

TEST(Verify, BadOperandNamesTheRankThatDoesNotExist) {
  Schedule s = exchange();
  s.strand(1, 0)[0] = move(0, {in(0)}, {to(7)});
  const Finding f = refuted(s);
  EXPECT_FINDING(f, Kind::kBadOperand, 1, 0, 0, 7);
  EXPECT_NE(f.text.find("rank 1 lane 0 step 0"), std::string::npos) << f.text;
  EXPECT_NE(f.text.find("rank 7"), std::string::npos) << f.text;
  for (const Rank nobody : {-1, 2, 0}) {  // 0 would send to itself
    s = exchange();
    s.strand(0, 0)[0] = move(0, {in(0)}, {to(nobody)});
    EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 0, 0, nobody);
    s.strand(0, 0)[0] = signal(nobody);
    EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 0, -1, nobody);
    s.strand(0, 0)[0] = wait(nobody);
    EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 0, -1, nobody);
  }
}

TEST(Verify, BadOperandNamesTheChunkThatIsNotThere) {
  Schedule s = exchange();
  s.strand(0, 0)[0] = move(1, {in(1)}, {to(1)});
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 0, 1, -1);
  s.strand(0, 0)[0] = move(0, {in(1)}, {to(1)});  // moves chunk 0, names chunk 1
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 0, 1, -1);
  s.strand(0, 0)[0] = move(-1, {from(1)}, {to(1)});
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 0, -1, -1);
}

TEST(Verify, BadOperandIsAlsoABufferThatDoesNotHoldTheChunk) {
  // In an all_gather a rank's input holds its own chunk only.
  const Schedule s = written(Collective::kAllGather, 2,
                             {{move(1, {in(1)}, {out(1)}), move(0, {in(0)}, {out(0), to(1)})},
                              {move(1, {in(1)}, {out(1)}), move(0, {from(0)}, {out(0)})}});
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 0, 1, -1);
}

TEST(Verify, BadOperandIsAlsoAWriteToAnInput) {
  Schedule s = exchange();
  s.strand(0, 0)[1] = move(0, {in(0), from(1)}, {in(0)});
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 1, 0, -1);
  s = reach();
  s.strand(0, 0)[1] = move(0, {in(0), at(1, in(0))}, {out(0), at(1, in(0))});
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 1, 0, 1);
}

TEST(Verify, BadOperandIsAlsoAMoveOfNothingOrToNowhere) {
  Schedule s = exchange();
  s.strand(1, 0)[1].sources.clear();
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 1, 1, 0, -1);
  s = exchange();
  s.strand(1, 0)[1].destinations.clear();
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 1, 1, 0, -1);
}

TEST(Verify, BadOperandIsAlsoALaneThatDoesNotExist) {
  Schedule s = exchange();
  s.strand(0, 0)[0] = move(0, {in(0)}, {to(1, 3)});
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 0, 0, 1);
}

// A fabric carries at most one message per connection and step.
TEST(Verify, BadOperandIsAlsoAConnectionUsedTwiceInOneStep) {
  Schedule s = exchange();
  s.strand(0, 0)[1] = move(0, {from(1), from(1)}, {out(0)});
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 1, 0, 1);
  s = exchange();
  s.strand(1, 0)[0] = move(0, {in(0)}, {to(0), to(0)});
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 1, 0, 0, 0);
  s = exchange();
  s.strand(1, 0)[1] = move(0, {in(0), from(0)}, {out(0), out(0)});
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 1, 1, 0, -1);
}

TEST(Verify, UndefinedNamesTheMemoryNobodyWrote) {
  Schedule s = exchange();
  s.strand(1, 0)[0] = move(0, {scratch(0)}, {to(0)});
  EXPECT_FINDING(refuted(s), Kind::kUndefined, 1, 0, 0, 1);
  s = reach();
  s.strand(0, 0)[1] = move(0, {in(0), at(1, scratch(0))}, {out(0), at(1, out(0))});
  EXPECT_FINDING(refuted(s), Kind::kUndefined, 0, 1, 0, 1);
}

TEST(Verify, DoubledNamesTheContribution) {
  Schedule s = exchange();
  s.strand(1, 0)[1] = move(0, {in(0), from(0), in(0)}, {out(0)});
  EXPECT_FINDING(refuted(s), Kind::kDoubled, 1, 1, 0, 1);
}

// Rank 1 first adds up, in place, and then sends what it believes to be its input: it already contains rank 0's.
TEST(Verify, DoubledFindsWhatGoesWrongOnlyInPlace) {
  Schedule s = exchange();
  std::swap(s.strand(1, 0)[0], s.strand(1, 0)[1]);
  EXPECT_TRUE(verify(s).ok());
  EXPECT_FINDING(refuted(s, {.in_place = true}), Kind::kDoubled, 0, 1, 0, 0);
}

// The root copies its input while rank 1 reads it; in place there is nothing to copy. Sums scale what they copy.
TEST(Verify, ACopyOntoItselfWritesNothing) {
  const Schedule s = written(
      Collective::kBroadcast, 1,
      {{signal(1), move(0, {in(0)}, {out(0)}), wait(1)}, {wait(0), move(0, {at(0, in(0))}, {out(0)}), signal(0)}});
  EXPECT_TRUE(verify(s).ok());
  EXPECT_TRUE(verify(s, {.in_place = true}).ok());
  Schedule sum = s;
  sum.shape.collective = Collective::kAllReduce;
  sum.strand(1, 0)[1] = move(0, {at(0, in(0)), in(0)}, {out(0)});
  EXPECT_FINDING(refuted(sum, {.in_place = true}), Kind::kRace, 1, 1, 0, 0);
}

TEST(Verify, MissingNamesWhoseContributionIsNotInTheResult) {
  Schedule s = exchange();
  s.strand(0, 0)[1] = move(0, {from(1)}, {out(0)});
  EXPECT_FINDING(refuted(s), Kind::kMissing, 0, 1, 0, 0);
}

TEST(Verify, MissingFindsAnOutputThatIsNeverWritten) {
  Schedule s = exchange();
  s.strand(0, 0)[1] = move(0, {from(1)}, {scratch(0)});
  EXPECT_FINDING(refuted(s), Kind::kMissing, 0, -1, 0, 0);
}

TEST(Verify, MissingNamesTheRankThatLacksItAlsoIfAPeerStoredIt) {
  Schedule s = reach();
  s.strand(0, 0)[1] = move(0, {at(1, in(0))}, {out(0), at(1, out(0))});
  s.strand(0, 0).insert(s.strand(0, 0).begin() + 2, move(0, {in(0), at(1, in(0))}, {out(0)}));
  const Finding f = refuted(s);
  EXPECT_FINDING(f, Kind::kMissing, 1, -1, 0, 0);
  EXPECT_NE(f.text.find("written in step 1 of rank 0"), std::string::npos) << f.text;
}

// kForeign has no schedule: a step's operands all name the chunk it moves, and a message is taken as the chunk it was
// sent as, so nothing of another chunk can reach a buffer without being reported earlier. It stays as a check of last
// resort for collectives that permute chunks.
TEST(Verify, WhatWouldBeForeignIsFoundWhereItEnters) {
  Schedule s = written(Collective::kAllReduce, 2, {{move(0, {in(0)}, {out(0)}), move(1, {in(1)}, {out(1)})}});
  s.strand(0, 0)[1] = move(1, {in(0)}, {out(1)});
  EXPECT_FINDING(refuted(s), Kind::kBadOperand, 0, 1, 0, -1);
}

TEST(Verify, RaceNamesBothSides) {
  // Two lanes of rank 0 write the same output unordered.
  const Schedule s =
      written(Collective::kBroadcast, 1, {{move(0, {in(0)}, {out(0)})}, {move(0, {in(0)}, {out(0)})}}, 2);
  EXPECT_FINDING(refuted(s), Kind::kRace, 0, 0, 0, 0);
}

TEST(Verify, RaceFindsALoadBeforeThePeerHasCalled) {
  Schedule s = reach();
  std::swap(s.strand(0, 0)[0], s.strand(0, 0)[1]);
  const Finding f = refuted(s);
  EXPECT_FINDING(f, Kind::kRace, 0, 0, 0, 1);
  EXPECT_NE(f.text.find("may not have called yet"), std::string::npos) << f.text;
}

TEST(Verify, RaceFindsAStoreAfterThePeerMayHaveReturned) {
  Schedule s = reach();
  std::swap(s.strand(0, 0)[1], s.strand(0, 0)[2]);
  const Finding f = refuted(s);
  EXPECT_FINDING(f, Kind::kRace, 1, -1, 0, 0);
  EXPECT_NE(f.text.find("returns while step 2 of rank 0"), std::string::npos) << f.text;
}

TEST(Verify, RaceFindsALoadAfterThePeerMayHaveReturned) {
  // Rank 0 reads rank 1's input for a copy of its own, after the signal that lets rank 1 return.
  Schedule s = reach();
  s.strand(0, 0).push_back(move(0, {at(1, in(0))}, {scratch(0)}));
  EXPECT_FINDING(refuted(s), Kind::kRace, 1, -1, 0, 0);
}

// With a signal and its wait both gone the counts still match; only the order is lost.
TEST(Verify, RaceFindsAMissingPairOfSignalAndWait) {
  Schedule s = reach();
  s.strand(0, 0).erase(s.strand(0, 0).begin());
  s.strand(1, 0).erase(s.strand(1, 0).begin());
  EXPECT_FINDING(refuted(s), Kind::kRace, 0, 0, 0, 1);
  s = reach();
  s.strand(0, 0).pop_back();
  s.strand(1, 0).pop_back();
  EXPECT_FINDING(refuted(s), Kind::kRace, 1, -1, 0, 0);
}

TEST(Verify, RaceFindsTwoStrandsAtOneEndOfAConnection) {
  // Lane 1 of rank 0 sends on lane 0's connection, which lane 0 uses too: which message is first is chance.
  const Schedule s = written(Collective::kBroadcast, 2,
                             {{move(0, {in(0)}, {out(0), to(1)})},
                              {move(1, {in(1)}, {out(1), to(1, 0)})},
                              {move(0, {from(0)}, {out(0)}), move(1, {from(0)}, {out(1)})},
                              {}},
                             2);
  EXPECT_FINDING(refuted(s), Kind::kRace, 0, 0, 1, 1);
}

TEST(Verify, WrongChunkNamesSenderAndReceiver) {
  const Schedule s = written(Collective::kBroadcast, 2,
                             {{move(0, {in(0)}, {out(0), to(1)}), move(1, {in(1)}, {out(1), to(1)})},
                              {move(1, {from(0)}, {out(1)}), move(0, {from(0)}, {out(0)})}});
  EXPECT_FINDING(refuted(s), Kind::kWrongChunk, 1, 0, 1, 0);
}

TEST(Verify, NeverSentNamesThePeerThatHasEnded) {
  Schedule s = exchange();
  s.strand(0, 0).erase(s.strand(0, 0).begin());
  EXPECT_FINDING(refuted(s), Kind::kNeverSent, 1, 1, 0, 0);
  s = reach();
  s.strand(0, 0).pop_back();
  EXPECT_FINDING(refuted(s), Kind::kNeverSent, 1, 1, -1, 0);
}

TEST(Verify, NeverTakenNamesTheReceiverAndTheSender) {
  Schedule s = exchange();
  s.strand(1, 0).push_back(move(0, {out(0)}, {to(0)}));
  EXPECT_FINDING(refuted(s), Kind::kNeverTaken, 0, -1, 0, 1);
  s = reach();
  s.strand(1, 0).push_back(signal(0));
  EXPECT_FINDING(refuted(s), Kind::kNeverTaken, 0, -1, -1, 1);
}

TEST(Verify, SlotOverrunNamesTheConnectionThatIsNotEmptied) {
  // Both send three messages before they receive any; two slots hold two.
  std::vector<Step> strand[2];
  for (Rank r = 0; r < 2; ++r) {
    for (int c = 0; c < 3; ++c) strand[r].push_back(move(c, {in(c)}, {to(1 - r)}));
    for (int c = 0; c < 3; ++c) strand[r].push_back(move(c, {in(c), from(1 - r)}, {out(c)}));
  }
  const Schedule s = written(Collective::kAllReduce, 3, {strand[0], strand[1]});
  EXPECT_FINDING(refuted(s, {.slots = 2}), Kind::kSlotOverrun, 0, 2, 2, 1);
  EXPECT_TRUE(verify(s, {.slots = 3}).ok());
}

TEST(Verify, DeadlockPrintsItsCycle) {
  // Each waits for its predecessor before it sends: 0 for 2, 2 for 1, 1 for 0.
  std::vector<std::vector<Step>> strands;
  for (Rank r = 0; r < 3; ++r) strands.push_back({move(0, {in(0), from((r + 2) % 3)}, {out(0), to((r + 1) % 3)})});
  const Finding f = refuted(written(Collective::kAllReduce, 1, strands));
  EXPECT_FINDING(f, Kind::kDeadlock, 0, 0, 0, 2);
  EXPECT_NE(f.text.find("0 -> 2 -> 1 -> 0"), std::string::npos) << f.text;
}

TEST(Verify, DeadlockOfSignalsIsFoundToo) {
  const Schedule s = written(
      Collective::kBroadcast, 1,
      {{wait(1), move(0, {in(0)}, {out(0), to(1)}), signal(1)}, {wait(0), move(0, {from(0)}, {out(0)}), signal(0)}});
  const Finding f = refuted(s);
  EXPECT_FINDING(f, Kind::kDeadlock, 0, 0, -1, 1);
  EXPECT_NE(f.text.find("signal"), std::string::npos) << f.text;
  EXPECT_NE(f.text.find("0 -> 1 -> 0"), std::string::npos) << f.text;
}

// Lane 1 copies what lane 0 received. Without an order nothing says that it comes after.
Schedule received_then_copied() {
  Schedule s{.shape = {Collective::kBroadcast, 2, 0, 1}, .scratch = 1, .lanes = 2, .strands = {}, .orders = {}};
  s.strands = {
      {move(0, {in(0)}, {out(0), to(1)})}, {}, {move(0, {from(0)}, {scratch(0)})}, {move(0, {scratch(0)}, {out(0)})}};
  return s;
}

TEST(Verify, OrdersBetweenLanesPutStepsAfterEachOther) {
  Schedule s = received_then_copied();
  EXPECT_FALSE(verify(s).ok());
  s.orders = {{3, 0, 0, 0}};
  EXPECT_TRUE(verify(s).ok()) << verify(s).counterexample->text;
}

// The order is after lane 0's first step; that lane 0 has gone further when lane 1 looks must not count.
TEST(Verify, AnOrderCoversNothingAfterTheStepThatItNames) {
  Schedule s = received_then_copied();
  s.strands[2].insert(s.strands[2].begin(), move(0, {from(0)}, {out(0)}));
  s.strands[2].pop_back();
  s.strands[2].push_back(move(0, {out(0)}, {scratch(0)}));
  s.orders = {{3, 0, 0, 0}};
  ASSERT_FALSE(verify(s).ok());
  EXPECT_EQ(verify(s).counterexample->kind, Finding::Kind::kRace) << verify(s).counterexample->text;
  s.orders = {{3, 0, 0, 1}};
  EXPECT_TRUE(verify(s).ok()) << verify(s).counterexample->text;
}

TEST(Verify, OrdersInACycleAreADeadlock) {
  Schedule s = received_then_copied();
  s.orders = {{2, 0, 1, 0}, {3, 0, 0, 0}};
  ASSERT_FALSE(verify(s).ok());
  EXPECT_EQ(verify(s).counterexample->kind, Finding::Kind::kDeadlock);
  EXPECT_NE(verify(s).counterexample->text.find("1 lane 0 -> 1 lane 1 -> 1 lane 0"), std::string::npos)
      << verify(s).counterexample->text;
}

TEST(Verify, OrdersThatNameNoStepAreNoSchedule) {
  Schedule s = received_then_copied();
  EXPECT_TRUE(check(s).has_value());
  s.orders = {{3, 0, 0, 7}};
  EXPECT_FALSE(check(s).has_value());
}

TEST(Verify, DifferentChunksAreNeverAddedUp) {
  Schedule s{.shape = {Collective::kAllReduce, 1, 0, 2}, .scratch = 1, .lanes = 1, .strands = {}, .orders = {}};
  s.strands = {{move(0, {in(0)}, {scratch(0)}), move(1, {in(1), scratch(0)}, {out(1)})}};
  ASSERT_FALSE(verify(s).ok());
  EXPECT_EQ(verify(s).counterexample->kind, Finding::Kind::kForeign);
  EXPECT_EQ(verify(s).counterexample->step, 1);
}

}  // namespace
}  // namespace weft::schedule
