#include <gtest/gtest.h>

#include <string>

#include "apps/serving/answer.h"
#include "apps/serving/test_place.h"

namespace weft::serving {
namespace {

// Two prompts in turn, again and again: 8192 tokens each, all but the last block alike each time.
Load turns(int requests) {
  std::string text;
  for (int i = 0; i < requests; ++i)
    text += fmt::format(R"({{"timestamp": {}, "input_length": 8192, "output_length": 8, "hash_ids": [{}, {}, {}, {}]}})"
                        "\n",
                        60000 * i, 10 * (i % 2) + 1, 10 * (i % 2) + 2, 10 * (i % 2) + 3, 100 + i);
  auto read = parse_trace("t", text, 1);
  return {.trace = read->requests, .prefixes = read->prefixes};
}

struct Ready {
  Memory memory;
  std::unique_ptr<StepModel> step;
};
Ready ready(const Question& q) {
  const kernels::Kernels* kernels = *place().kernels(q.engine);
  const Types types = *types_of(q.shape, q.plan, q.engine, *kernels);
  return {memory_of(q.shape, q.plan, q.engine, types, *kernels),
          std::make_unique<StepModel>(q.shape, q.plan, q.engine, types, *kernels, place().network())};
}

Run with_tier(const Load& load, double tokens, double seconds_per_token) {
  Question q = question();
  const Ready r = ready(q);
  Pools pools{.decode = r.step.get(), .prefills = 0, .decodes = 1, .decode_tokens = 8300};
  if (tokens > 0)
    pools.below.push_back({tokens, [=](double read) -> Result<double> { return read * seconds_per_token; }});
  auto run = serve_apart(pools, load);
  EXPECT_TRUE(run) << run.error().message;
  return std::move(*run);
}

TEST(Tiers, BlocksThatTheGpuGaveUpAreReadWhereThatIsFaster) {
  const Load load = turns(6);
  // The GPU's cache holds one prompt: each pushes the other out, and nothing of it is known when it comes again.
  const serving::Run none = with_tier(load, 0, 0);
  EXPECT_EQ(none.hit_tokens, 0);
  EXPECT_EQ(none.reloaded_tokens, 0);
  const serving::Run fast = with_tier(load, 1e6, 1e-9);
  ASSERT_EQ(fast.done.size(), 6U);
  EXPECT_DOUBLE_EQ(fast.reloaded_tokens, 4 * 3 * 2048);  // of all but the first two requests
  EXPECT_LT(fast.done[3].ttft(), 0.5 * none.done[3].ttft());
}

TEST(Tiers, ASlowTierIsNotReadAndCostsNothing) {
  const Load load = turns(6);
  const serving::Run none = with_tier(load, 0, 0), slow = with_tier(load, 1e6, 1.0);
  EXPECT_EQ(slow.reloaded_tokens, 0);
  EXPECT_DOUBLE_EQ(slow.faster_computed_tokens, 4 * 3 * 2048);
  ASSERT_EQ(slow.done.size(), none.done.size());
  for (std::size_t i = 0; i < slow.done.size(); ++i) EXPECT_DOUBLE_EQ(slow.done[i].ttft(), none.done[i].ttft());
}

TEST(Tiers, ATierGivesUpWhatHasNoRoomInIt) {
  const serving::Run small = with_tier(turns(6), 2048, 1e-9);
  EXPECT_LT(small.reloaded_tokens, 4 * 3 * 2048);
  EXPECT_EQ(small.done.size(), 6U);
}

TEST(Tiers, OthersAreServedWhileAPromptIsRead) {
  Load load = turns(4);
  load.trace[3].arrival = load.trace[2].arrival + 1e-3;  // both are read at once, 0.06 s each
  const serving::Run run = with_tier(load, 1e6, 1e-5);
  ASSERT_EQ(run.done.size(), 4U);
  double last = 0;
  for (const Request& r : run.done) last = std::max(last, r.ttft());
  EXPECT_LT(last, 60);
}

Words words() {
  Words w{.model = "llama-3.1-8b", .on = "hgx-h200"};
  w.load = {.input = 512, .output = 16, .concurrency = 4};
  return w;
}

TEST(Tiers, WordsAboutThemThatMeanNothingAreRefused) {
  const auto said = [](const Words& w) {
    const auto q = understand(w);
    return q ? std::string("no error") : q.error().message;
  };
  Words w = words();
  w.tiers = {"dram"};
  EXPECT_EQ(said(w), "--tier dram: a part and its bytes, as in dram:1T or nvme-gen5*4:8T");
  w.tiers = {"dram:1T"}, w.prefix_cache = "off";
  EXPECT_EQ(said(w), "--tier dram:1T: needs a prefix cache; --prefix-cache is off");
  w = words(), w.router = "kv-aware";
  EXPECT_EQ(said(w), "--router kv-aware: chooses among --replicas, of which there is one");
  w.replicas = 2, w.router = "random";
  EXPECT_EQ(said(w), "--router random: fewest, round-robin or kv-aware");
}

// Reading and computing a prompt come from the tier's and the cards' rates alone.
TEST(Tiers, AnAnswerSaysHowLongAPromptIsReadAndComputed) {
  Question q = question();
  q.load.input = 4096, q.load.tiers = {{"dram", 1e12}};
  const auto p = answer(place(), q);
  ASSERT_TRUE(p) << p.error().message;
  ASSERT_EQ(p->reloading.size(), 1U);
  // 4096 tokens x 128 KiB (32 layers, 8 heads of 128, keys and values of 2 bytes) over PCIe 5 x16 of some 55 GB/s.
  EXPECT_NEAR(p->reloading[0].second, 4096 * 131072 / 55e9, 0.3 * 4096 * 131072 / 55e9);
  EXPECT_GT(p->computing, p->reloading[0].second);
}

TEST(Router, KvAwareSendsAPromptWhereItsPrefixIs) {
  // Four conversations in an order that takes them to other engines each time.
  std::string text;
  for (const int who : {0, 1, 2, 3, 1, 0, 3, 2, 2, 3, 0, 1})
    text += fmt::format(R"({{"timestamp": {}, "input_length": 4096, "output_length": 8, "hash_ids": [{}, {}]}})"
                        "\n",
                        1000 * std::count(text.begin(), text.end(), '\n'), 2 * who, 2 * who + 1);
  const auto read = parse_trace("t", text, 1);
  ASSERT_TRUE(read) << read.error().message;
  Question q = question();
  q.replicas = 2, q.load = {.trace = read->requests, .prefixes = read->prefixes};
  const auto with = [&](Router router) {
    q.load.router = router;
    const auto p = answer(place(), q);
    EXPECT_TRUE(p) << p.error().message;
    EXPECT_EQ(p->requests, 12);
    return p->prefix_hits;
  };
  const double turn = with(Router::kRoundRobin), aware = with(Router::kPrefixes);
  EXPECT_NEAR(aware, 8.0 / 12, 0.01);  // all but the first of each
  EXPECT_LT(turn, aware);
}

TEST(Router, AllReplicasAreCountedOnce) {
  Question q = question();
  q.replicas = 2, q.load.concurrency = 16;
  const auto one = answer(place(), q);
  q.load.router = Router::kFewest;
  const auto all = answer(place(), q);
  ASSERT_TRUE(one && all);
  EXPECT_EQ(all->gpus, 2);
  EXPECT_NEAR(all->tokens_per_gpu, one->tokens_per_gpu, 0.05 * one->tokens_per_gpu);
}

}  // namespace
}  // namespace weft::serving
