#include "apps/serving/engine.h"

#include <gtest/gtest.h>

#include <numeric>

#include "apps/serving/point.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

namespace weft::serving {
namespace {

// One machine for all tests of this file: its collectives are asked once.
Place& place() {
  static const cost::MachineView view = [] {
    auto topology = topology::load_machine("hgx-h200");
    return std::move(*cost::shipped_view(std::move(*topology)));
  }();
  static Place p = std::move(*Place::open(view));
  return p;
}

Question question(const char* engine = "vllm") {
  Question q;
  q.shape = *load_shape("llama-3.1-8b");
  q.engine = *load_engine(engine);
  q.load = {.input = 512, .output = 128, .concurrency = 8};
  return q;
}

struct Ready {
  std::unique_ptr<StepModel> step;
};
Ready ready(const Question& q) {
  const auto kernels = place().kernels(q.engine);
  const auto types = types_of(q.shape, q.plan, q.engine, **kernels);
  return {std::make_unique<StepModel>(q.shape, q.plan, q.engine, *types, **kernels, place().network())};
}

Run run(const Question& q, double cache) {
  const Ready r = ready(q);
  auto found = serve(*r.step, cache, q.load);
  EXPECT_TRUE(found) << found.error().message;
  return found ? *found : Run{};
}

// A Nemotron-H with these layers: M Mamba 2, * attention, - MLP, E experts.
double step_of(const std::string& letters, const std::string& more = "") {
  Question q = question();
  q.plan.tp = 2;
  q.shape = *parse_shape("config.json", fmt::format(R"({{"model_type": "nemotron_h", "hybrid_override_pattern": "{}",
    "hidden_size": 2048, "vocab_size": 4096, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128,
    "intermediate_size": 8192, "mamba_num_heads": 32, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
    "mlp_hidden_act": "relu2", "n_routed_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 4096{}}})",
                                                    letters, more));
  const Ready r = ready(q);
  const auto parts = (*r.step)({.decodes = 256, .context = 256 * 1000});
  EXPECT_TRUE(parts);
  return parts ? parts->gpu() : 0;
}

TEST(Step, ALayerWithoutAMixerOrAnMlpCostsNothingForTheMissingPart) {
  for (const auto& [a, b] : {std::pair{"M", "-"}, {"*", "E"}, {"M*", "E-"}})
    EXPECT_NEAR(step_of(a) + step_of(b), step_of(std::string(a) + b), 1e-12) << a << b;
  // Llama's layer is attention and an MLP: of a hybrid's two layers each has half of the norms and of the all-reduces.
  EXPECT_LT(step_of("*"), step_of("*-"));
}

TEST(Step, AnMlpWithoutAGateAndExpertsInANarrowerWidthCostLess) {
  EXPECT_LT(step_of("-"), step_of("-", R"(, "gated_mlp": true)"));
  EXPECT_LT(step_of("E"), step_of("E", R"(, "gated_mlp": true)"));
  EXPECT_LT(step_of("E", R"(, "moe_latent_size": 256)"), step_of("E"));
}

TEST(Engine, NoRequestIsLostAndEveryTokenIsMadeInOrder) {
  for (const char* engine : {"vllm", "sglang", "trtllm"}) {
    Question q = question(engine);
    q.load.spread = 0.3;
    q.load.requests = 200;
    const serving::Run r = run(q, 1e6);
    ASSERT_EQ(r.done.size(), 200u) << engine;
    for (const Request& x : r.done) {
      EXPECT_GE(x.started, x.arrival);
      EXPECT_GT(x.first, x.started);
      if (x.output > 1) EXPECT_GT(x.finished, x.first);
      EXPECT_EQ(x.preempted, 0);
    }
    EXPECT_EQ(r.preemptions, 0);
  }
}

TEST(Engine, TheCacheIsNeverFullerThanItIsAndPreemptedRequestsStillFinish) {
  Question q = question();
  q.load = {.input = 100, .output = 400, .concurrency = 32, .requests = 128};
  // 32 requests of 500 tokens need 16,000; they start with 3,200 and grow.
  const serving::Run r = run(q, 8000);
  EXPECT_EQ(r.done.size(), 128u);
  EXPECT_GT(r.preemptions, 0);
  EXPECT_LE(r.cache_used, 1.0);
  EXPECT_GT(r.cache_used, 0.8);
  const serving::Run roomy = run(q, 1e6);
  EXPECT_EQ(roomy.preemptions, 0);
  EXPECT_LE(roomy.seconds, r.seconds);
}

TEST(Engine, AClosedLoopHoldsLittlesLaw) {
  // Clients = rate x time in the system, over the whole run but for its end, when clients are done.
  Question q = question();
  q.load = {.input = 512, .output = 128, .concurrency = 16, .requests = 1600};
  const serving::Run r = run(q, 1e6);
  double inside = 0;
  for (const Request& x : r.done) inside += x.finished - x.arrival;
  EXPECT_NEAR(inside / r.seconds, 16, 16 * 0.03);
}

TEST(Engine, TheCountOfDecodedTokensIsConserved) {
  // Every output token but the first of each request is made by an iteration that decodes its sequence.
  Question q = question();
  q.load.spread = 0.5;
  q.load.requests = 300;
  const serving::Run r = run(q, 1e6);
  double made = 0;
  for (const Request& x : r.done) made += static_cast<double>(x.output - 1);
  EXPECT_NEAR(r.batch * r.iterations, made, made * 1e-9);
}

TEST(Engine, AnEngineThatDoesNotMixMakesDecodingWaitForPrompts) {
  Question q = question("sglang");
  q.load = {.input = 8192, .output = 64, .spread = 0.5, .concurrency = 16, .requests = 160};
  Question mixes = q;
  mixes.engine.mixed = true;
  const serving::Run apart = run(q, 1e7), mixed = run(mixes, 1e7);
  const auto longest = [](const serving::Run& r) {
    double most = 0;
    for (const Request& x : r.done) most = std::max(most, x.tpot());
    return most;
  };
  EXPECT_GT(longest(apart), 0);
  EXPECT_NE(apart.seconds, mixed.seconds);
}

TEST(Engine, ARequestThatTheEmptyCacheCannotHoldIsRefused) {
  Question q = question();
  const Ready r = ready(q);
  const auto none = serve(*r.step, 300, q.load);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("512 tokens does not fit into a cache of 300 tokens"), std::string::npos)
      << none.error().message;
}

TEST(Engine, PrefillAndDecodeApartLoseNothingAndPayForTheTransfer) {
  Question q = question();
  q.load.requests = 100;
  const Ready prefill = ready(q), decode = ready(q);
  const double move = 5e-3;
  Pools pools{prefill.step.get(), decode.step.get(), 2, 3, 1e6, 1e6, [&](double) -> Result<double> { return move; }};
  const auto r = serve_apart(pools, q.load);
  ASSERT_TRUE(r) << r.error().message;
  ASSERT_EQ(r->done.size(), 100u);
  for (const Request& x : r->done) {
    EXPECT_DOUBLE_EQ(x.moved, move);
    EXPECT_GE(x.first, x.started + move);
    EXPECT_GE(x.finished, x.first);
  }
}

TEST(Engine, MoreClientsGiveMoreTokensAndSlowerOnes) {
  double rate = 0, tpot = 0;
  for (const std::int64_t clients : {1, 8, 64}) {
    Question q = question();
    q.load.concurrency = clients;
    const auto p = answer(place(), q);
    ASSERT_TRUE(p) << p.error().message;
    EXPECT_GT(p->tokens_per_gpu, rate);
    EXPECT_GT(p->tpot.mean, tpot);
    EXPECT_NEAR(p->queue + p->reading + p->moving + p->response, p->ttft.mean, p->ttft.mean * 1e-6);
    rate = p->tokens_per_gpu, tpot = p->tpot.mean;
  }
}

TEST(Engine, ARateAboveCapacityIsSaidWithTheRateThatIsStable) {
  Question q = question();
  q.load = {.input = 2048, .output = 256, .rate = 1000};
  const auto above = answer(place(), q);
  ASSERT_TRUE(above) << above.error().message;
  ASSERT_TRUE(above->stable_rate);
  EXPECT_LT(*above->stable_rate, 1000);
  q.load.rate = *above->stable_rate / 2;
  const auto below = answer(place(), q);
  ASSERT_TRUE(below);
  EXPECT_FALSE(below->stable_rate);
}

TEST(Engine, MatchingPrefillEnginesGrowWithThePrompts) {
  Question q = question();
  q.prefill = Plan{};
  q.prefills = 0;
  q.load = {.input = 512, .output = 64, .concurrency = 512};
  const auto few = matching_prefills(place(), q);
  q.load.input = 8192;
  const auto many = matching_prefills(place(), q);
  ASSERT_TRUE(few && many);
  EXPECT_GT(*many, *few);
}

}  // namespace
}  // namespace weft::serving
