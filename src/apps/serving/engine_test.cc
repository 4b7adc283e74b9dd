#include "apps/serving/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/serving/test_place.h"

namespace weft::serving {
namespace {

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

TEST(Step, EachReplicaOfAttentionHasAHostOfItsOwn) {
  // The same load per replica: what GPUs wait for the host does not grow with the replicas.
  Question q = question("vllm-0.12");
  q.shape = *load_shape("gpt-oss-120b");
  double one = 0;
  for (const Rank dp : {1, 2, 4, 8}) {
    q.plan.dp = q.plan.ep = dp;
    const Ready r = ready(q);
    const auto parts = (*r.step)({.decodes = 128.0 * dp, .context = 128e3 * dp, .outputs = 128.0 * dp});
    ASSERT_TRUE(parts);
    if (dp == 1) one = parts->host;
    EXPECT_DOUBLE_EQ(parts->host, one) << dp;
  }
  EXPECT_GT(one, 0);
}

TEST(Step, AnEngineThatOverlapsWaitsForTheHostOnlyBeyondTheGpus) {
  const Work work{.decodes = 64, .context = 64e3, .outputs = 64};
  const auto now = (*ready(question("vllm")).step)(work), old = (*ready(question("vllm-0.12")).step)(work);
  ASSERT_TRUE(now && old);
  EXPECT_GT(old->host, 1e-3);
  EXPECT_EQ(now->host, 0);
  EXPECT_DOUBLE_EQ(now->gpu(), old->gpu());
}

TEST(Step, OnePromptCrossesAllStagesOfAPipelineInTurn) {
  Question q = question();
  double before = 0;
  for (const Rank pp : {1, 2, 4, 8}) {
    q.plan.pp = pp;
    const auto parts = (*ready(q).step)({.prefills = 1, .prefill_tokens = 2048, .outputs = 1});
    ASSERT_TRUE(parts);
    EXPECT_GE(parts->gpu(), before) << pp;
    before = parts->gpu();
  }
  // As many prompts as stages take no longer than one, so four times as many are read.
  q.plan.pp = 4;
  const auto one = (*ready(q).step)({.prefills = 1, .prefill_tokens = 2048, .outputs = 1});
  const auto four = (*ready(q).step)({.prefills = 4, .prefill_tokens = 4 * 2048, .outputs = 4});
  ASSERT_TRUE(one && four);
  EXPECT_NEAR(four->gpu(), one->gpu(), 0.02 * one->gpu());
}

TEST(Step, ExpertsGetTheirTokensByTheKernelsThatCarryThem) {
  // 32 tokens of a GPU: two kernels of some 15 to 60 us per layer, whatever NCCL's exchange of as many bytes takes.
  Network& network = place().network();
  const Network::Group all{8, 1};
  const training::Traffic::Experts experts{.token_bytes = 7168, .per_token = 8, .experts = 256};
  const auto few = network(Collective::kDispatch, all, 32, experts),
             many = network(Collective::kDispatch, all, 4096, experts);
  ASSERT_TRUE(few && many);
  EXPECT_GT(*few, 8e-6);  // the low-latency kernel's launch
  EXPECT_LT(*few, 30e-6);
  // Each of 4,096 tokens goes to five to six of eight GPUs, one of which may be its own: over 450 GB/s at the most.
  EXPECT_GT(*many, 4096 * 4.5 * 7168 / 450e9);
}

// deepspeedai/DeepSpeed pull request 8352: 32 tokens of GPT-2 on an H200 in 154 and 156 ms without CUDA graphs, in 42
// and 33 ms with them, the prompt included.
TEST(Step, AStepThatPythonLaunchesTakesAsLongAsItsKernelsAreMany) {
  for (const char* engine : {"vllm", "sglang"}) {
    Question q = question(engine);
    q.shape = *load_shape("gpt2");
    q.load = {.input = 128, .output = 32, .concurrency = 1};
    const auto tpot = [&](kernels::Launch launch) {
      q.engine.launch = launch;
      const auto p = answer(place(), q);
      return p ? p->tpot.mean : 0;
    };
    const double graphs = tpot(kernels::Launch::kGraphs), eager = tpot(kernels::Launch::kEager);
    EXPECT_LT(graphs, 1.4e-3) << engine;
    EXPECT_NEAR(eager, 4.8e-3, 0.15 * 4.8e-3) << engine;
    EXPECT_GT(tpot(kernels::Launch::kBlocking), eager) << engine;
  }
}

TEST(Step, DispatchTakesWhatTheSameQuestionOfWeftBenchTakes) {
  // `weft bench dispatch --on hgx-h200 --tokens 1024 --dtype f8e4m3`, in normal mode: 1,024 tokens of 7,168 elements of
  // a byte. With the 4 bytes of a float, bench's default for other collectives, it would be 483 us.
  Network& network = place().network();
  const auto asked =
      network(Collective::kDispatch, {8, 1}, 1024, {.token_bytes = 7168, .per_token = 8, .experts = 256});
  ASSERT_TRUE(asked);
  EXPECT_NEAR(*asked, 142e-6, 5e-6);
}

TEST(Engine, ALongPromptFillsThePipelineChunkByChunk) {
  // Four chunks on four stages end 7/4 of one chunk's way after their start; on one stage they take four.
  Question q = question();
  q.load = {.input = 32768, .output = 2, .concurrency = 1, .requests = 1};
  const double alone = answer(place(), q)->reading;
  q.plan.pp = 4;
  const double staged = answer(place(), q)->reading;
  EXPECT_LT(staged, alone * 0.6);
  EXPECT_GT(staged, alone * 0.35);
}

TEST(Engine, AnEngineThatNeverEvictsStartsOnlyWhatHasRoomToTheEnd) {
  Question q = question("trtllm");
  q.load = {.input = 100, .output = 400, .concurrency = 32, .requests = 128};
  const serving::Run r = run(q, 8000);
  EXPECT_EQ(r.done.size(), 128u);
  EXPECT_EQ(r.preemptions, 0);
  EXPECT_LE(r.cache_used, 1.0);
  q.engine.evicts = true;
  EXPECT_GT(run(q, 8000).preemptions, 0);
  q.engine.evicts = false;
  EXPECT_FALSE(serve(*ready(q).step, 8000, {.input = 100, .output = 9000, .concurrency = 1}));
}

TEST(Engine, DraftsGiveTheirMeanNumberOfTokensPerStepAndCostTheirWork) {
  // Three drafts of 0.5: 1 + 1/2 + 1/4 + 1/8 tokens.
  Question q = question();
  q.engine.drafts = 3, q.engine.accept = 0.5;
  EXPECT_DOUBLE_EQ(q.engine.tokens_per_step(), 1.875);
  const auto with = answer(place(), q);
  q.engine.drafts = 0;
  const auto without = answer(place(), q);
  ASSERT_TRUE(with && without) << with.error().message;
  EXPECT_GT(with->step, without->step);
  EXPECT_NEAR(with->tpot.mean, with->step / 1.875, 0.05 * with->tpot.mean);
  EXPECT_GT(with->memory.weights, without->memory.weights);
  EXPECT_LT(with->cache_tokens, without->cache_tokens);
  // Drafts that are never right only cost.
  q.engine.drafts = 3, q.engine.accept = 0;
  EXPECT_GT(answer(place(), q)->tpot.mean, without->tpot.mean);
}

TEST(Engine, APromptWhosePrefixWasServedBeforeIsComputedFromThereOn) {
  Question q = question();
  const auto read =
      parse_trace("t", R"({"timestamp": 0, "input_length": 8192, "output_length": 8, "hash_ids": [1, 2, 3, 4]}
{"timestamp": 60000, "input_length": 8192, "output_length": 8, "hash_ids": [1, 2, 3, 5]}
{"timestamp": 120000, "input_length": 8192, "output_length": 8, "hash_ids": [6, 7, 8, 9]}
)",
                  1);
  ASSERT_TRUE(read) << read.error().message;
  q.load = {.trace = read->requests, .prefixes = read->prefixes};
  const serving::Run r = run(q, 1e6);
  ASSERT_EQ(r.done.size(), 3U);
  EXPECT_DOUBLE_EQ(r.hit_tokens, 3 * 2048);
  EXPECT_LT(r.done[1].ttft(), 0.5 * r.done[0].ttft());
  EXPECT_NEAR(r.done[2].ttft(), r.done[0].ttft(), 1e-9);
  q.load.policy.reset();
  EXPECT_EQ(run(q, 1e6).hit_tokens, 0);
  // A cache that holds one request gives up the others' blocks and loses nobody.
  q.load.policy = kv::Policy::kLru;
  const serving::Run tight = run(q, 8300);
  EXPECT_EQ(tight.done.size(), 3U);
  EXPECT_LE(tight.cache_used, 1.0);
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
      if (x.output > 1) {
        EXPECT_GT(x.finished, x.first);
      }
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

TEST(Engine, UrgentRequestsAreStartedFirstAndPreemptedLast) {
  Question q = question();
  q.load = {.input = 100, .output = 400, .urgent = 0.2, .concurrency = 64, .requests = 512};
  const serving::Run r = run(q, 8000);
  ASSERT_EQ(r.done.size(), 512u);
  EXPECT_GT(r.preemptions, 0);
  double urgent = 0, others = 0, urgents = 0;
  for (const Request& x : r.done) {
    (x.priority < 0 ? urgent : others) += x.started - x.arrival;
    urgents += x.priority < 0 ? 1 : 0;
  }
  EXPECT_NEAR(urgents / 512, 0.2, 0.06);
  EXPECT_LT(urgent / urgents, 0.3 * others / (512 - urgents));
}

TEST(Engine, NoMoreSequencesRunThanTheEngineMayTake) {
  Question q = question();
  q.load = {.input = 100, .output = 100, .concurrency = 64};
  const double all = run(q, 1e6).batch;
  q.engine.most_sequences = 16;
  const serving::Run r = run(q, 1e6);
  EXPECT_GT(all, 32);
  EXPECT_LE(r.batch, 16);
  EXPECT_GT(r.batch, 14);
  q.engine.most_sequences = 8, q.plan.dp = 2;  // of each replica
  EXPECT_GT(run(q, 1e6).batch, 14);
}

TEST(Engine, ARequestBetweenTwoLooksForRequestsWaitsForTheNextOne) {
  Question q = question("sglang");
  q.engine.receive_interval = q.engine.receive_interval_few = 100;
  // Twenty requests come while one decodes, further apart than two looks are.
  Request r;
  r.input = 100, r.output = 6000;
  q.load = {.trace = {r}};
  const double step = run(q, 1e6).done.front().tpot();
  for (int i = 0; i < 20; ++i) {
    r.arrival = (250.0 + 237.0 * i) * step, r.output = 20;
    q.load.trace.push_back(r);
  }
  double waited = 0;
  for (const Request& x : run(q, 1e6).done) waited += (x.started - x.arrival) / step / 20;
  EXPECT_GT(waited, 25);  // half an interval on average, if nothing else reads prompts
  EXPECT_LT(waited, 75);
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
    EXPECT_NEAR(p->text + p->queue + p->reading + p->moving + p->response, p->ttft.mean, p->ttft.mean * 1e-6);
    rate = p->tokens_per_gpu, tpot = p->tpot.mean;
  }
}

TEST(Engine, ARateAboveCapacityIsSaidWithTheRateThatIsStableWhateverWasAsked) {
  Question q = question();
  q.load = {.input = 2048, .output = 256, .rate = 1000};
  const auto above = answer(place(), q);
  ASSERT_TRUE(above) << above.error().message;
  ASSERT_TRUE(above->stable_rate);
  const double stable = *above->stable_rate;
  // Little more is unstable too, with few requests too, and the stable rate is the same within two steps of a percent.
  for (const auto& [rate, requests] : {std::pair{1.06 * stable, 0}, {2 * stable, 20}, {10 * stable, 2000}}) {
    q.load.rate = rate, q.load.requests = requests;
    const auto p = answer(place(), q);
    ASSERT_TRUE(p && p->stable_rate) << rate;
    EXPECT_NEAR(*p->stable_rate, stable, 0.021 * stable) << rate;
  }
  q.load.requests = 0;
  for (const double share : {0.5, 0.97}) {
    q.load.rate = share * stable;
    EXPECT_FALSE(answer(place(), q)->stable_rate) << share;
  }
}

// Beyond the first rate that is unstable there are some at which preemption begins after thousands of requests only.
TEST(Engine, NoRateAboveAnUnstableOneIsStable) {
  Question q = question();
  q.shape = *load_shape("llama-3.1-8b");
  q.load = {.input = 1024, .output = 1024, .rate = 1000};
  const auto above = answer(place(), q);
  ASSERT_TRUE(above && above->stable_rate);
  for (const double factor : {1.001, 1.02, 1.05, 1.07, 1.1, 1.2, 1.5, 5.0}) {
    q.load.rate = factor * *above->stable_rate;
    const auto p = answer(place(), q);
    ASSERT_TRUE(p) << factor;
    EXPECT_EQ(p->stable_rate, above->stable_rate) << factor;
  }
  q.load.rate = 0.999 * *above->stable_rate;
  EXPECT_FALSE(answer(place(), q)->stable_rate);
}

TEST(Requests, OfNeighbouringSeedsAreNotTheSameOnesLater) {
  const auto gaps = [](std::uint64_t seed) {
    const Load load{.input = 100, .output = 100, .rate = 1, .requests = 40, .seed = seed};
    Source source(load);
    std::vector<double> found;
    double last = 0;
    for (int i = 0; i < 40; ++i) {
      const double at = source.next(0).arrival;
      found.push_back(std::round((at - last) * 1e9));
      last = at;
    }
    return found;
  };
  const std::vector<double> one = gaps(1), two = gaps(2);
  for (const double gap : two) EXPECT_EQ(std::ranges::count(one, gap), 0) << gap;
  EXPECT_EQ(one, gaps(1));
}

TEST(Engine, ATraceThatOutrunsTheEngineIsUnstable) {
  Question q = question();
  for (int i = 0; i < 3000; ++i) {
    Request r;
    r.input = 2048, r.output = 256, r.arrival = i * 0.001;
    q.load.trace.push_back(r);
  }
  EXPECT_TRUE(answer(place(), q)->stable_rate);
  for (Request& r : q.load.trace) r.arrival *= 1000;
  EXPECT_FALSE(answer(place(), q)->stable_rate);
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
