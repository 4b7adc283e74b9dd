#include "plan/schedule/lower/lower.h"

#include <gtest/gtest.h>

namespace weft::schedule {
namespace {

using protocol::End;
using protocol::Memory;
using protocol::Operation;
using protocol::Protocol;

// Every rank sends each of its two chunks to its neighbour, then receives two.
Generator<Step> pass_on(RankContext context) {
  const Rank next = (context.rank + 1) % context.ranks, previous = (context.rank + context.ranks - 1) % context.ranks;
  for (int c = 0; c < 2; ++c) co_yield move(c, {in(c)}, {to(next)});
  for (int c = 0; c < 2; ++c) co_yield move(c, {from(previous)}, {out(c)});
}

// Every rank copies its chunks to scratch and signals its neighbour.
Generator<Step> stage(RankContext context) {
  for (int c = 0; c < 2; ++c) co_yield move(c, {in(c)}, {scratch(c)});
  co_yield signal((context.rank + 1) % context.ranks);
  co_yield wait((context.rank + context.ranks - 1) % context.ranks);
}

const Algorithm kPassOn{
    .name = "pass_on", .when = {}, .source = {}, .chunks = [](const RankContext&) { return 2; }, .steps = pass_on};
const Algorithm kStage{.name = "stage",
                       .when = {},
                       .source = {},
                       .needs = {.messages = false, .load_store = true},
                       .lanes = 2,
                       .chunks = [](const RankContext&) { return 2; },
                       .scratch = [](const RankContext&) { return 2; },
                       .steps = stage};

Task floats(Bytes elements) { return {.ranks = 3, .elements = elements, .element_bytes = 4}; }

std::vector<Bytes> sizes(const std::vector<Operation>& operations) {
  std::vector<Bytes> found;
  for (const Operation& o : operations) found.push_back(o.bytes);
  return found;
}

TEST(Lower, CutsAChunkIntoSlicesAndAMessageIntoRounds) {
  // 500 floats are 2000 B; two chunks of 1000 B, rounded up to cache lines: 1024 B and the remaining 976 B.
  // Slices of 64 B, 8 slots: a round is 4 slices = 256 B, so there are 4 rounds. The second chunk's last round has
  // 976 - 3 * 256 = 208 B = 3 * 64 + 16.
  const Program p = lower(floats(500), {.algorithm = &kPassOn, .protocol = Protocol::kLL64, .slice_bytes = 64}, 1);
  ASSERT_EQ(p.size(), 1u);
  std::vector<Bytes> expected(64, 64);  // 4 rounds of (send 4+4, receive 4+4) slices
  expected[3 * 16 + 7] = expected[3 * 16 + 15] = 16;
  EXPECT_EQ(sizes(p[0]), expected);
  // The first round sends bytes 0 … 255 of each chunk; the second one goes on at 256.
  EXPECT_EQ(p[0][0].sources[0].offset, 0);
  EXPECT_EQ(p[0][3].sources[0].offset, 192);
  EXPECT_EQ(p[0][4].sources[0].offset, 1024);
  EXPECT_EQ(p[0][16].sources[0].offset, 256);
}

TEST(Lower, GivesEveryChannelItsPieceOfEveryChunk) {
  // 100 floats: chunks of 256 B and 144 B. Two channels: pieces of 128 B and 72 rounded up to 128 B, so the second
  // channel has 128 B of the first chunk and 16 B of the second.
  const Program p = lower(floats(100), {.algorithm = &kPassOn, .channels = 2, .slice_bytes = 4096}, 0);
  ASSERT_EQ(p.size(), 2u);
  EXPECT_EQ(sizes(p[0]), (std::vector<Bytes>{128, 128, 128, 128}));
  EXPECT_EQ(sizes(p[1]), (std::vector<Bytes>{128, 16, 128, 16}));
  EXPECT_EQ(p[1][0].sources[0].offset, 128);
  EXPECT_EQ(p[1][1].sources[0].offset, 256 + 128);
}

TEST(Lower, AddressesMessagesByPeerAndStrand) {
  const Program p = lower(floats(100), {.algorithm = &kPassOn, .channels = 2, .slice_bytes = 4096}, 0);
  const Operation& send = p[1][0];
  EXPECT_EQ(send.sources[0].kind, End::Kind::kLocal);
  EXPECT_EQ(send.sources[0].memory, Memory::kIn);
  EXPECT_EQ(send.destinations[0].kind, End::Kind::kMessage);
  EXPECT_EQ(send.destinations[0].peer, 1);
  EXPECT_EQ(send.destinations[0].strand, 1);
  EXPECT_EQ(p[1][2].sources[0].peer, 2);
}

TEST(Lower, SharesScratchAmongChannelsAndChunksAndRepeatsWhatDoesNotFit) {
  // 4096 floats: chunks of 8 KiB, two channels: pieces of 4 KiB. 6 KiB of scratch for 2 x 2 pieces: 1536 B each, so
  // 3 rounds of 1536 + 1536 + 1024 B. Channel 1 uses the scratch from 2 * 1536 on.
  const Plan plan{
      .algorithm = &kStage, .protocol = Protocol::kDirect, .channels = 2, .staged = true, .scratch_bytes = 6144};
  const Program p = lower(floats(4096), plan, 0);
  ASSERT_EQ(p.size(), 4u);  // two channels of two lanes
  EXPECT_EQ(sizes(p[2]), (std::vector<Bytes>{1536, 1536, 0, 0, 1536, 1536, 0, 0, 1024, 1024, 0, 0}));
  EXPECT_EQ(p[2][0].destinations[0].offset, 2 * 1536);
  EXPECT_EQ(p[2][5].destinations[0].offset, 3 * 1536);
  EXPECT_EQ(p[2][0].sources[0].offset, 4096);                // channel 1's piece of chunk 0
  EXPECT_EQ(p[2][5].sources[0].offset, 8192 + 4096 + 1536);  // and of chunk 1, second round
}

TEST(Lower, SignalsOncePerRoundAndStrand) {
  const Plan plan{
      .algorithm = &kStage, .protocol = Protocol::kDirect, .channels = 2, .staged = true, .scratch_bytes = 6144};
  int signals = 0, waits = 0;
  for (const auto& strand : lower(floats(4096), plan, 2))
    for (const Operation& o : strand) {
      signals += o.kind == Operation::Kind::kSignal && o.peer == 0;
      waits += o.kind == Operation::Kind::kWait && o.peer == 1;
    }
  EXPECT_EQ(signals, 3 * 4);  // rounds x strands
  EXPECT_EQ(waits, 3 * 4);
}

TEST(Lower, OneElementIsOneOperationPerStepThatHasIt) {
  // One int64: the first chunk has its 8 B, the second nothing.
  const Program p = lower({.ranks = 2, .elements = 1, .element_bytes = 8},
                          {.algorithm = &kPassOn, .channels = 4, .slice_bytes = 1 << 16}, 0);
  EXPECT_EQ(sizes(p[0]), (std::vector<Bytes>{8, 8}));
  for (int channel = 1; channel < 4; ++channel) EXPECT_TRUE(p[static_cast<std::size_t>(channel)].empty());
}

TEST(Lower, NothingIsNoOperationAtAll) {
  for (const auto& strand : lower(floats(0), {.algorithm = &kPassOn, .channels = 2, .slice_bytes = 0}, 0))
    EXPECT_TRUE(strand.empty());
}

TEST(Lower, AStreamIsTheSameAsTheWrittenProgram) {
  const Plan plan{.algorithm = &kPassOn, .channels = 2, .slice_bytes = 640};
  const Program p = lower(floats(10007), plan, 2);
  const LoweringContext cutting(floats(10007), plan);
  for (int strand = 0; strand < 2; ++strand) {
    StrandStream stream(cutting, 2, strand);
    for (const Operation& expected : p[static_cast<std::size_t>(strand)]) {
      const Operation* o = stream.next();
      ASSERT_NE(o, nullptr);
      ASSERT_EQ(*o, expected);
    }
    EXPECT_EQ(stream.next(), nullptr);
    EXPECT_EQ(stream.next(), nullptr);  // the end stays the end
  }
}

// Five chunks in one message, and back.
Generator<Step> five_in_one(RankContext context) {
  const Rank peer = 1 - context.rank;
  for (int c = 0; c < 5; ++c) co_yield move(c, {in(c)}, {to(peer).continued(c < 4)});
  for (int c = 0; c < 5; ++c) co_yield move(c, {from(peer).continued(c < 4), in(c)}, {out(c)});
}

TEST(Lower, ForTimePartsOfAMessageAreOneOperation) {
  const Algorithm five{.name = "five",
                       .chunks = [](const RankContext&) { return 5; },
                       .parts = [](const RankContext&) { return 5; },
                       .steps = five_in_one};
  const auto operations_of = [&](Bytes floats_of_chunk, Bytes slice, LoweringContext::For purpose) {
    const Task task{
        .collective = Collective::kAllReduce, .ranks = 2, .elements = 5 * floats_of_chunk, .element_bytes = 4};
    const LoweringContext cutting(task, {.algorithm = &five, .slice_bytes = slice}, purpose);
    StrandStream stream(cutting, 0, 0);
    std::vector<std::pair<Bytes, bool>> all;  // bytes, ends a message
    while (const Operation* o = stream.next()) {
      const auto& ends = o->destinations[0].kind == protocol::End::Kind::kMessage ? o->destinations : o->sources;
      all.emplace_back(o->bytes, ends[0].last);
    }
    return all;
  };
  using All = std::vector<std::pair<Bytes, bool>>;
  EXPECT_EQ(operations_of(16, 1024, LoweringContext::For::kTime), (All{{320, true}, {320, true}}));
  // Slices of 192 bytes hold three chunks.
  EXPECT_EQ(operations_of(16, 192, LoweringContext::For::kTime),
            (All{{192, true}, {128, true}, {192, true}, {128, true}}));
  EXPECT_EQ(operations_of(16, 1024, LoweringContext::For::kData).size(), 10u);
}

TEST(Lower, PartsThatAllFitIntoAMessageNeedNoLineEach) {
  const Algorithm halves{.name = "halves",
                         .collective = Collective::kAllGather,
                         .parts = [](const RankContext& s) { return s.ranks / 2; },
                         .steps = pass_on};
  const Plan plan{.algorithm = &halves, .slice_bytes = 64};  // messages of up to four slices
  const auto on = [](Rank ranks) {
    return Task{.collective = Collective::kAllGather, .ranks = ranks, .elements = ranks, .element_bytes = 4};
  };
  EXPECT_EQ(cut_of(on(128), plan).round, cut_of(on(128), plan).piece);  // 64 parts of 4 B
  EXPECT_EQ(cut_of(on(256), plan).round, 0);
  EXPECT_EQ(context_of(on(256), plan).bundle, 64);
}

TEST(MakePlan, TakesSlicesOfAQuarterOfThePieceBetween64KiBAndASlot) {
  const protocol::Capabilities can{.max_slice = Bytes{512} << 10};
  const auto slice = [&](Bytes elements, int channels, Protocol protocol = Protocol::kSimple) {
    return make_plan(floats(elements), kPassOn, protocol, channels, can, true).slice_bytes;
  };
  // 2^20 floats = 4 MiB in two chunks of 2 MiB, 2 channels: pieces of 1 MiB, a quarter is 256 KiB; a Simple slot 512
  // KiB.
  EXPECT_EQ(slice(1 << 20, 2), 256 << 10);
  EXPECT_EQ(slice(1 << 10, 1), 64 << 10);
  EXPECT_EQ(slice(1 << 24, 1), 512 << 10);
  EXPECT_EQ(slice(1 << 20, 1, Protocol::kLL64), 3584);  // 64 lines of 56 B
}

}  // namespace
}  // namespace weft::schedule
