#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "apps/serving/best.h"
#include "apps/serving/faults.h"
#include "apps/serving/fit.h"
#include "apps/serving/pictures.h"
#include "apps/serving/test_place.h"

namespace weft::serving {
namespace {

TEST(Point, ARequestBeyondTheModelsContextIsRefused) {
  Question q = question();
  q.shape = *load_shape("gpt2");
  q.load = {.input = 1000, .output = 25, .concurrency = 1};
  const auto none = answer(place(), q);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message,
            "1000 input and 25 output tokens: the context of gpt2 has 1024 (max_position_embeddings)");
  q.load.output = 24;
  EXPECT_TRUE(answer(place(), q));
}

TEST(Point, AnEngineIsRefusedOnCardsItDoesNotRunOn) {
  for (const auto& [engine, card, runs] : {std::tuple{"vllm", "CS-2", false},
                                           {"trtllm", "TPUv4", false},
                                           {"trtllm", "MI300X", false},
                                           {"vllm", "MI300X", true},
                                           {"vllm", "TPUv4", true},
                                           {"trtllm", "GB200", true},
                                           {"sglang", "H200-SXM5", true}}) {
    const auto kernels = kernels::Kernels::load(card, "vllm");
    ASSERT_TRUE(kernels) << card;
    EXPECT_EQ(check_card(*load_engine(engine), *kernels).has_value(), runs) << engine << " " << card;
  }
}

TEST(Faults, ADeadGpuTakesItsEngineAndASlowOneSlowsIt) {
  auto topology = topology::load_machine("hgx-h200");
  const auto view = cost::shipped_view(std::move(*topology));
  Question q = question();
  q.plan.tp = 2, q.replicas = 4;
  q.load.concurrency = 64;
  const auto with = [&](const std::string& fault) {
    return answer_with_faults(*view, q, std::vector<std::string>{fault}, 300);
  };
  const auto dead = with("gpu:5=down"), slow = with("rank:2=slow:2x"), harmless = with("nic:0=down");
  ASSERT_TRUE(dead && slow && harmless) << dead.error().message;
  EXPECT_EQ(dead->lost, 1);
  EXPECT_LT(dead->tokens, 1);
  EXPECT_GT(dead->tokens, 0.6);
  EXPECT_GT(dead->tpot.mean, dead->whole.tpot.mean);
  EXPECT_EQ(slow->slowed, 1);
  EXPECT_GT(slow->slow.tpot.mean, 1.5 * slow->whole.tpot.mean);
  EXPECT_EQ(slow->tpot.p90, slow->slow.tpot.p90);  // a quarter of the requests
  // Two GPUs of a node reach each other without their NICs.
  EXPECT_NEAR(harmless->tokens, 1, 0.01);
  q.replicas = 1, q.plan.tp = 8;
  const auto none = with("gpu:5=down");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("none of 1 engine is left"), std::string::npos) << none.error().message;
}

TEST(Faults, TheQueueOfALostEngineIsEmptyAfterItsSpareCapacityHasServedIt) {
  auto topology = topology::load_machine("hgx-h200");
  const auto view = cost::shipped_view(std::move(*topology));
  Question q = question();
  q.load = {.input = 2048, .output = 256, .rate = 1000};
  const double one = *answer(place(), q)->stable_rate;
  q.replicas = 2;
  q.load.rate = 1.5 * one;  // two engines keep up, one does not
  const auto f = answer_with_faults(*view, q, std::vector<std::string>{"gpu:1=down"}, 100);
  ASSERT_TRUE(f) << f.error().message;
  ASSERT_TRUE(f->left.stable_rate);
  // Half of an engine's rate waits for 100 s, and half of one is spare afterwards.
  EXPECT_NEAR(f->waiting, 50 * one, 5 * one);
  EXPECT_NEAR(f->empty_again, 200, 20);
}

TEST(Best, TheLoadIsFoundBetweenPowersOfTwoAndFixedSizesStay) {
  Question q = question();
  q.load = {.input = 1024, .output = 256};
  q.plan.tp = 2;
  const Goal goal{.tpot = 8.1e-3};
  const auto best = best_serving(place(), q, {.fixed = {.tp = true}, .apart = false}, goal, 512, {});
  ASSERT_TRUE(best) << best.error().message;
  ASSERT_FALSE(best->ranked.empty());
  for (const RankedPlan& r : best->ranked) EXPECT_EQ(r.question.plan.tp, 2);
  // A sixteenth more clients miss the goal.
  RankedPlan first = best->ranked.front();
  Question& more = first.question;
  const std::int64_t clients = more.load.concurrency / more.replicas;
  more.load.concurrency = (clients + std::max<std::int64_t>(1, clients / 16) + 1) * more.replicas;
  const auto missed = answer(place(), more);
  ASSERT_TRUE(missed);
  EXPECT_GT(missed->tpot.median, goal.tpot) << clients;
}

TEST(Answer, ACacheThatCrossesLayerByLayerLeavesItsLastLayerToWaitForOrWhatTheNetworkIsBehind) {
  Question q = question();
  q.shape = *load_shape("llama-3.1-70b");
  q.plan.precision = "fp8", q.plan.tp = 4;
  q.load = {.input = 4096, .output = 32, .concurrency = 1};
  q.prefill = q.plan;
  const auto whole = answer(place(), q);
  q.by_layer = true;
  const auto layers = answer(place(), q);
  ASSERT_TRUE(whole && layers);
  EXPECT_LT(layers->moving, whole->moving / 10);
  EXPECT_GT(layers->moving, whole->moving / 200);  // 80 layers
}

TEST(Best, PrefillAndDecodeApartAreTriedAndAnswerAgainWhatTheyWereFoundWith) {
  Question q = question();
  q.shape = *load_shape("llama-3.1-70b");
  q.plan.precision = "fp8";
  q.load = {.input = 4096, .output = 512};
  const Goal goal{.ttft = 0.5, .tpot = 20e-3};
  const auto best = best_serving(place(), q, {.batches = false}, goal, 128, {});
  ASSERT_TRUE(best) << best.error().message;
  const auto apart =
      std::ranges::find_if(best->ranked, [](const RankedPlan& r) { return r.question.prefill.has_value(); });
  ASSERT_NE(apart, best->ranked.end());
  EXPECT_LE(apart->question.gpus(), 8);
  EXPECT_LE(apart->point.ttft.median, goal.ttft);
  const auto again = answer(place(), apart->question);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->tokens_per_gpu, apart->point.tokens_per_gpu);
  // Ranked by what the machine gives, GPUs that are left idle included.
  double before = 1e300;
  for (const RankedPlan& r : best->ranked) {
    EXPECT_LE(r.point.tokens_per_gpu * r.question.gpus(), before);
    before = r.point.tokens_per_gpu * r.question.gpus();
  }
  const auto one_pool = best_serving(place(), q, {.apart = false, .batches = false}, goal, 128, {});
  ASSERT_TRUE(one_pool);
  for (const RankedPlan& r : one_pool->ranked) EXPECT_FALSE(r.question.prefill);
}

TEST(Best, OtherLimitsOfAnIterationAreToldWhereTheyAreBetter) {
  Question q = question();
  q.load = {.input = 8192, .output = 64};
  const Goal goal{.tpot = 20e-3, .percentile = 99};
  const auto best = best_serving(place(), q, {.apart = false}, goal, 64, {});
  ASSERT_TRUE(best) << best.error().message;
  const auto limited =
      std::ranges::find_if(best->ranked, [](const RankedPlan& r) { return !r.question.limits.empty(); });
  ASSERT_NE(limited, best->ranked.end());
  EXPECT_NE(limited->question.engine.token_budget, q.engine.token_budget);
  EXPECT_EQ(&*limited, &best->ranked.front());
}

TEST(Point, PairsOfPoolsShareTheLoadEvenly) {
  Question q = question();
  q.prefill = q.plan;
  q.decodes = 2;
  q.load.concurrency = 32;
  const auto one = answer(place(), q);
  q.replicas = 2, q.load.concurrency = 64;
  const auto two = answer(place(), q);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(two->gpus, 2 * one->gpus);
  EXPECT_DOUBLE_EQ(two->tpot.mean, one->tpot.mean);
  EXPECT_DOUBLE_EQ(two->requests_per_second, 2 * one->requests_per_second);
}

TEST(Point, GoodputIsTheShareOfRequestsWithinTheGoal) {
  Question q = question();
  q.load = {.input = 512, .output = 128, .spread = 0.1, .rate = 40};
  const auto any = answer(place(), q);
  ASSERT_TRUE(any);
  EXPECT_EQ(any->kept, 1);
  q.goal = {.ttft = any->ttft.median};
  const auto half = answer(place(), q);
  ASSERT_TRUE(half);
  EXPECT_NEAR(half->kept, 0.5, 0.02);
  q.goal = {.tpot = 1e-9};
  const auto none = answer(place(), q);
  ASSERT_TRUE(none);
  EXPECT_LT(none->kept, 0.02);  // requests of one token have no TPOT
}

TEST(Fit, PlansForAnyNumberOfGpusDivideTheModelOrSayWhatDoes) {
  const Shape llama = *load_shape("llama-3.1-8b"), r1 = *load_shape("deepseek-r1");
  EXPECT_EQ(plan_on(llama, 8)->tp, 8);
  const auto none = plan_on(llama, 3);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message.find("--gpus 3: llama-3.1-8b can be cut over 1, 2"), 0U) << none.error().message;
  const auto rack = plan_on(r1, 72);
  ASSERT_TRUE(rack) << rack.error().message;
  EXPECT_EQ(rack->gpus(), 72);
  EXPECT_EQ(rack->ep, 72);
  // 72 does not divide 256 experts: each GPU holds four, 32 of them twice.
  const auto kernels = kernels::Kernels::load("GB200", "vllm");
  const Engine engine = *load_engine("vllm");
  const auto weights = [&](const Plan& p) {
    return memory_of(r1, p, engine, *types_of(r1, p, engine, *kernels), *kernels).weights;
  };
  EXPECT_DOUBLE_EQ(weights({.tp = 8, .dp = 9, .ep = 72}), weights({.tp = 8, .dp = 8, .ep = 64}));
}

TEST(Fit, TypesThatTheCardDoesNotComputeWithAreNotOffered) {
  Question q = question();
  q.shape = *load_shape("llama-3.1-405b");
  q.load = {.input = 512, .output = 128, .concurrency = 1};
  const std::string fits = what_fits(place(), q);
  EXPECT_EQ(fits.find("fp4"), std::string::npos) << fits;
  EXPECT_NE(fits.find("tp 8"), std::string::npos) << fits;
}

TEST(Pictures, ARecordedRunHasEveryIterationAndPhase) {
  Question q = question();
  q.load.requests = 20;
  q.record = true;
  const auto p = answer(place(), q);
  ASSERT_TRUE(p && p->run);
  const serving::Run& run = *p->run;
  ASSERT_FALSE(run.samples.empty());
  double seconds = 0;
  for (const serving::Run::Sample& s : run.samples) {
    EXPECT_GT(s.end, s.begin);
    EXPECT_LE(s.used, 1);
    seconds += s.end - s.begin;
  }
  EXPECT_NEAR(seconds, run.decode_seconds + run.prefill_seconds, 1e-6);
  const nlohmann::json timeline = run_timeline(run);
  std::size_t queues = 0, decodes = 0;
  for (const auto& e : timeline["traceEvents"])
    if (e["ph"] == "b") queues += e["name"] == "prefill", decodes += e["name"] == "decode";
  EXPECT_EQ(queues, 20U);
  EXPECT_EQ(decodes, 20U);
  report::ServeReport report{.model = "m"};
  report.rows.push_back({.plan = "tp 1", .load = "8 clients"});
  const std::string svg = run_svg(run, report);
  EXPECT_EQ(svg.find("<svg"), 0U);
  EXPECT_NE(svg.find("engine 0"), std::string::npos);
}

}  // namespace
}  // namespace weft::serving
