#include "api/session/plan_cache.h"

#include <gtest/gtest.h>

namespace weft::session {
namespace {

KnownShape shape_of(int number) {
  auto prepared = std::make_shared<Prepared>();
  prepared->plan.channels = number;
  return {.plans = {{.access = {}, .shift = {}, .prepared = std::move(prepared)}}};
}

int number_of(const KnownShape* shape) { return shape == nullptr ? -1 : shape->plans.front().prepared->plan.channels; }

std::size_t hash_of(const Request& request) {
  PlanKey key;
  key.set(request);
  return key.hash();
}

TEST(PlanKey, IsEqualWhereverTheBuffersLie) {
  float here[2] = {}, there[2] = {};
  PlanKey one, other;
  one.set({.in = here, .out = here, .count = 2});
  other.set({.in = there, .out = here, .count = 2});
  EXPECT_EQ(one, other);
  EXPECT_EQ(one.hash(), other.hash());
}

TEST(PlanKey, DiffersWithEveryFieldThatTheProgramDependsOn) {
  const std::vector<std::size_t> counts{1, 2}, others{2, 1};
  const std::vector<std::int32_t> experts{0, 1}, swapped{1, 0};
  const Request plain{.count = 8};
  std::vector<Request> all(14, plain);
  all[0].count = 9;
  all[1].collective = Collective::kReduceScatter;
  all[2].type = DataType::kFloat64;
  all[3].op = ReduceOp::kMax;
  all[4].reproducible = true;
  all[5].algorithm = "ring";
  all[6].algorithm = "tree";
  all[7].protocol = "ring";
  all[8].channels = 2;
  all[9] = {.collective = Collective::kAllGatherV, .counts = counts};
  all[10] = {.collective = Collective::kAllGatherV, .counts = others};
  all[11] = {.collective = Collective::kDispatch, .count = 8, .experts = experts, .per_token = 1, .expert_count = 2};
  all[12] = {.collective = Collective::kDispatch, .count = 8, .experts = swapped, .per_token = 1, .expert_count = 2};
  all[13] = {.collective = Collective::kBroadcast, .count = 8, .root = 1};
  all.push_back(plain);
  std::vector<PlanKey> keys(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) keys[i].set(all[i]);
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(keys[i] == keys[j]) << i << " and " << j;
}

TEST(PlanKey, LeavesOutWhatACollectiveDoesNotUse) {
  EXPECT_EQ(hash_of({.count = 8, .root = 1}), hash_of({.count = 8}));
  EXPECT_EQ(hash_of({.collective = Collective::kBarrier, .count = 8, .type = DataType::kInt8}),
            hash_of({.collective = Collective::kBarrier}));
}

TEST(PlanCache, FindsTransfersByTheirPlacesRelativeToTheFirst) {
  using Direction = Transfer::Direction;
  float memory[8] = {};
  const auto pair = [&](float* send, float* receive) {
    return std::vector<Transfer>{{Direction::kSend, 1, send, 2}, {Direction::kReceive, 1, receive, 2}};
  };
  PlanCache cache;
  EXPECT_EQ(cache.find(pair(memory, memory + 2)), nullptr);
  cache.add(PlanCache::Kind::kTransfers, shape_of(1));
  EXPECT_EQ(number_of(cache.find(pair(memory + 4, memory + 6))), 1);
  EXPECT_EQ(cache.find(pair(memory, memory + 4)), nullptr);
}

TEST(PlanCache, ForgetsTheOldestOfVaryingShapesOnly) {
  PlanCache cache;
  const Request alike{.count = 5};
  ASSERT_EQ(cache.find(alike), nullptr);
  cache.add(PlanCache::Kind::kAlike, shape_of(100));
  const auto varying = [&](std::size_t n) {
    const std::vector<std::size_t> counts{n};
    return number_of(cache.find(Request{.collective = Collective::kAllGatherV, .counts = counts}));
  };
  for (int n = 0; n <= static_cast<int>(PlanCache::kKeptVarying); ++n) {
    ASSERT_EQ(varying(static_cast<std::size_t>(n)), -1);
    cache.add(PlanCache::Kind::kVarying, shape_of(n));
    EXPECT_EQ(varying(static_cast<std::size_t>(n)), n);
  }
  EXPECT_EQ(varying(0), -1);  // 17 were added, and 16 are kept
  EXPECT_EQ(varying(1), 1);
  EXPECT_EQ(number_of(cache.find(alike)), 100);
}

TEST(PlanCache, TellsPlansOfAShapeApartByAccessAndOverlap) {
  auto plain = std::make_shared<Prepared>(), shifted = std::make_shared<Prepared>(),
       copied = std::make_shared<Prepared>();
  copied->copies = true;
  const KnownShape shape{.plans = {{{}, std::nullopt, plain}, {{}, Bytes{0}, shifted}, {{.direct = true}, {}, copied}}};
  EXPECT_EQ(shape.plan({}, std::nullopt), plain.get());
  EXPECT_EQ(shape.plan({.adopted = true}, Bytes{0}), shifted.get());
  EXPECT_EQ(shape.plan({}, Bytes{8}), nullptr);
  EXPECT_EQ(shape.plan({.direct = true}, Bytes{8}), copied.get());  // peers reach a copy, wherever the buffers lie
  EXPECT_EQ(shape.plan({.direct = true, .reached = true}, std::nullopt), nullptr);
}

}  // namespace
}  // namespace weft::session
