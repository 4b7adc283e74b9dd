#include "apps/serving/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "apps/serving/requests.h"
#include "move/kv/replay.h"

namespace weft::serving {
namespace {

Shape shape(const char* name) { return *load_shape(name); }

TEST(Shape, ParametersAreThoseThatTheNamesSay) {
  // Names give billions: 70B, 235B with 22B active, 671B with 37B active, 117B with 5.1B, 397B with 17B, 1 T with 32B.
  const auto near = [](const char* name, double total, double active) {
    const Shape s = shape(name);
    EXPECT_NEAR(static_cast<double>(s.parameters) * 1e-9, total, total * 0.03) << name;
    EXPECT_NEAR(static_cast<double>(s.active_parameters) * 1e-9, active, active * 0.12) << name;
  };
  near("llama-3.1-70b", 70.6, 70.6);
  near("qwen3-235b-a22b", 235, 22);
  near("deepseek-v3", 671, 37);
  near("gpt-oss-120b", 117, 5.7);
  near("qwen3.5-397b-a17b", 397, 17);
  near("kimi-k2.5", 1026, 33);
}

TEST(Shape, NamesOfWeightsFindTheirModel) {
  for (const char* name :
       {"deepseek-ai/DeepSeek-R1", "nvidia/DeepSeek-R1-NVFP4", "deepseek-r1-fp8", "deepseek-ai/DeepSeek-R1-0528"})
    EXPECT_EQ(load_shape(name)->name, "deepseek-r1") << name;
  EXPECT_EQ(shape("DeepSeek-V3.1").kinds, shape("deepseek-r1").kinds);
  EXPECT_EQ(shape("MiniMaxAI/MiniMax-M2").kinds, shape("minimax-m2.5").kinds);
  EXPECT_EQ(load_shape("meta-llama/Llama-3.1-8B-Instruct")->name, "llama-3.1-8b");
  EXPECT_EQ(load_shape("Qwen/Qwen3-235B-A22B-FP8")->name, "qwen3-235b-a22b");
  EXPECT_FALSE(load_shape("gpt-17"));
}

TEST(Shape, LayersOfSeveralKindsAreCounted) {
  // gpt-oss: every other layer sees 128 tokens. Qwen3.5: three of four layers are linear attention.
  const Shape oss = shape("gpt-oss-120b");
  ASSERT_EQ(oss.kinds.size(), 2u);
  EXPECT_EQ(oss.kinds[0].count, 18);
  EXPECT_EQ(oss.kinds[0].window, 128);
  const Shape qwen = shape("qwen3.5-397b-a17b");
  ASSERT_EQ(qwen.kinds.size(), 2u);
  EXPECT_EQ(qwen.kinds[0].attention, Attention::kNone);
  EXPECT_TRUE(qwen.kinds[0].recurs);
  EXPECT_EQ(qwen.kinds[0].count, 45);
}

TEST(Shape, ARecurrentMixerIsItsProjectionsItsConvolutionAndItsState) {
  // Mamba 2 of Nemotron 3 Nano: 64 heads of 64, 8 groups, a state of 128: gate, values, B, C and a step per head.
  const Shape nano = shape("nemotron-3-nano-30b-a3b");
  const auto mamba = std::ranges::find_if(nano.kinds, &LayerKind::recurs);
  ASSERT_NE(mamba, nano.kinds.end());
  EXPECT_EQ(mamba->recurrent.mixed_width(), 64 * 64 + 2 * 8 * 128);
  EXPECT_EQ(mamba->recurrent_inputs(nano.hidden), 2 * 64 * 64 + 2 * 8 * 128 + 64);
  EXPECT_EQ(mamba->state_elements(), 64 * 64 * 128 + 3 * mamba->recurrent.mixed_width());
  EXPECT_FALSE(mamba->feeds());
  // Gated delta net of Qwen3-Next: 16 heads of keys, 32 of values, all of 128, and two gates per head of values.
  const Shape next = shape("qwen3-next-80b-a3b");
  EXPECT_EQ(next.kinds[0].recurrent_inputs(next.hidden), 2 * 16 * 128 + 2 * 32 * 128 + 2 * 32);
}

TEST(Shape, EveryModelOfTheCatalogueFitsOnItsLayersAndPlans) {
  const auto kernels = kernels::Kernels::load("B200-SXM6", "vllm");
  const Engine engine = *load_engine("vllm");
  for (const std::string& name : models::catalog_names()) {
    const auto model = models::load(name);
    ASSERT_TRUE(model) << name;
    const Shape s = shape_of(*model);
    EXPECT_EQ(s.layers(), std::ssize(model->layers)) << name;
    const Plan plan{.precision = "bf16", .cache = "bf16"};
    const Memory m = memory_of(s, plan, engine, *types_of(s, plan, engine, *kernels), *kernels);
    EXPECT_NEAR(m.weights, 2.0 * static_cast<double>(model->parameters()), 1e-9 * m.weights) << name;
    // The cache is that of the model's own count; indexers' keys are entries of the cache's type here.
    const models::CacheShape cache = model->cache();
    EXPECT_NEAR(m.token, 2.0 * static_cast<double>(cache.token_elements + cache.index_elements), 100) << name;
    double windows = 4.0 * static_cast<double>(cache.state_elements);
    for (const auto& w : cache.windows) windows += 2.0 * static_cast<double>(w.tokens * w.elements);
    EXPECT_DOUBLE_EQ(m.sequence, windows) << name;
  }
}

TEST(Shape, QuantisationOfTheFileIsReadOnce) {
  const auto of = [](const std::string& q) {
    return *parse_shape("config.json", R"({"model_type": "llama", "hidden_size": 8, "vocab_size": 9,
      "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "quantization_config": )" +
                                           q + "}");
  };
  EXPECT_EQ(of(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})").quantised, "fp8_block");
  EXPECT_EQ(of(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})").quantised, "nvfp4");
  EXPECT_EQ(of(R"({"quant_method": "awq", "bits": 4})").quantised, "int4");
  EXPECT_EQ(of(R"({"quant_method": 7})").quantised, "");
  // Bits and type decide, not the method's name alone.
  const auto group = [&](const std::string& weights, const std::string& inputs) {
    return of(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": )" + weights +
              R"(, "input_activations": )" + inputs + "}}}")
        .quantised;
  };
  const std::string int8 = R"({"num_bits": 8, "type": "int"})", float8 = R"({"num_bits": 8, "type": "float"})",
                    int4 = R"({"num_bits": 4, "type": "int"})",
                    fp4 = R"({"num_bits": 4, "type": "float", "group_size": 16})";
  EXPECT_EQ(group(int8, int8), "int8");
  EXPECT_EQ(group(int8, "null"), "w8a16");
  EXPECT_EQ(group(float8, float8), "fp8");
  EXPECT_EQ(group(int4, "null"), "int4");
  EXPECT_EQ(group(fp4, fp4), "nvfp4");
  EXPECT_EQ(group(int4, int8), "");
  EXPECT_EQ(of(R"({"quant_method": "fbgemm_fp8"})").quantised, "fp8");
  EXPECT_EQ(of(R"({"quant_method": "gptq", "bits": 8})").quantised, "w8a16");
  EXPECT_EQ(of(R"({"quant_method": "bitsandbytes", "load_in_4bit": true})").quantised, "int4");
  EXPECT_EQ(of(R"({"quant_method": "bitsandbytes", "load_in_8bit": true})").quantised, "w8a16");
  EXPECT_EQ(of(R"({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}})").quantised, "int4");
  EXPECT_EQ(of(R"({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}})").quantised,
            "fp8");
  EXPECT_TRUE(of(R"({"quant_method": "mxfp4", "ignore": ["model.layers.*.self_attn"]})").attention_unquantised);
}

TEST(Types, AQuantisationThatIsNotModelledIsRefusedByItsNameUnlessTheTypeIsAsked) {
  const auto kernels = kernels::Kernels::load("H200-SXM5", "vllm");
  const Engine engine = *load_engine("vllm");
  for (const char* method : {R"("gptq", "bits": 3)", R"("aqlm")", R"("bogus")"}) {
    const Shape s = *parse_shape("c.json", std::string(R"({"model_type": "llama", "hidden_size": 8, "vocab_size": 9,
      "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
      "quantization_config": {"quant_method": )") +
                                               method + "}}");
    const auto none = types_of(s, {}, engine, *kernels);
    ASSERT_FALSE(none) << method;
    EXPECT_EQ(none.error().message.find("c.json: quantization_config.quant_method "), 0U) << none.error().message;
    EXPECT_TRUE(types_of(s, {.precision = "int4"}, engine, *kernels)) << method;
  }
}

TEST(Types, WeightsOfEightBitsTakeAByteAndMeetWhatTheFileSays) {
  const auto a100 = kernels::Kernels::load("A100-SXM4-80GB", "vllm");
  using enum kernels::Precision;
  EXPECT_DOUBLE_EQ(kernels::weight_bytes(kInt8), 1);
  EXPECT_DOUBLE_EQ(kernels::weight_bytes(kW8A16), 1);
  // INT8 has twice the 16-bit rate on an A100; weights alone in 8 bits compute in 16.
  EXPECT_LT(a100->gemm(kInt8, 8192, 8192, 8192), 0.7 * a100->gemm(kW8A16, 8192, 8192, 8192));
}

TEST(Shape, ANameThatSaysItsTypeHasIt) {
  EXPECT_EQ(shape("qwen3-235b-a22b").quantised, "");
  EXPECT_EQ(shape("Qwen/Qwen3-235B-A22B-FP8").quantised, "fp8_block");
  EXPECT_EQ(shape("nvidia/DeepSeek-R1-NVFP4").quantised, "nvfp4");
  EXPECT_EQ(shape("meta-llama/Llama-3.1-8B-Instruct-FP8").quantised, "fp8");
}

TEST(Shape, TheContextIsStretchedByRotaryScalingAsEnginesDo) {
  const auto of = [](const std::string& more) {
    return parse_shape("c.json", R"({"model_type": "llama", "hidden_size": 8, "vocab_size": 9, "num_hidden_layers": 1,
      "num_attention_heads": 2, "intermediate_size": 16)" +
                                     more + "}")
        ->longest;
  };
  EXPECT_EQ(of(""), 0);
  EXPECT_EQ(of(R"(, "max_position_embeddings": 4096)"), 4096);
  EXPECT_EQ(of(R"(, "max_position_embeddings": 32768, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
    "original_max_position_embeddings": 32768})"),
            131072);
  EXPECT_EQ(of(R"(, "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0})"),
            131072);
}

TEST(Shape, AConfigWithoutAKeyThatMattersIsRefusedByItsName) {
  for (const auto& [text, word] :
       {std::pair{"[]", "no JSON object"},
        {"{}", "hidden_size"},
        {R"({"hidden_size": 8, "vocab_size": 9, "num_hidden_layers": 2})", "num_attention_heads"},
        {R"({"hidden_size": -8})", "hidden_size: -8"}}) {
    const auto none = parse_shape("config.json", text);
    ASSERT_FALSE(none) << text;
    EXPECT_NE(none.error().message.find(word), std::string::npos) << none.error().message;
  }
}

TEST(Engines, AReleaseWithoutMeasuredRowsNamesTheNearestThatHasSome) {
  for (const auto& [name, says] : {std::pair{"vllm-0.99", "no rows of 0.99, nearest 0.18.0"},
                                   {"vllm-0.3", "before 0.14; no rows of 0.3, nearest 0.11.2"},
                                   {"sglang-0.5.10", "no rows of 0.5.10, nearest 0.5.9"},
                                   {"sglang-0.5.9.post1", ""},
                                   {"trtllm-1.2", ""},
                                   {"vllm", ""}}) {
    const auto engine = load_engine(name);
    ASSERT_TRUE(engine) << name;
    EXPECT_EQ(engine->release, says) << name;
  }
}

TEST(Engines, ABenchmarkLooksForRequestsSeldomOnTheCardsOnWhichItIsToldTo) {
  const Engine engine = *load_engine("sglang", true);
  EXPECT_EQ(engine.on("B200").receive_interval, 30);
  EXPECT_EQ(engine.on("H200-SXM5").receive_interval, 1);
  EXPECT_EQ(engine.on("H200-SXM5").receive_interval_few, 1);
}

TEST(Plan, WhatDoesNotDivideIsRefusedWithWhatDoes) {
  const Shape s = shape("llama-3.1-70b");
  const auto said = [&](const Plan& plan) {
    const Status status = check_plan(s, plan);
    return status ? std::string() : status.error().message;
  };
  EXPECT_NE(said({.tp = 3}).find("does not divide the 64 heads of llama-3.1-70b; 1, 2, 4, 8, 16, 32, 64 do"),
            std::string::npos)
      << said({.tp = 3});
  EXPECT_NE(said({.ep = 2}).find("has no experts"), std::string::npos);
  EXPECT_NE(said({.pp = 81}).find("has 80 layers"), std::string::npos);
  EXPECT_NE(said({.tp = 0}).find("--tp 0: a number from 1"), std::string::npos);
  EXPECT_EQ(said({.tp = 8}), "");
  EXPECT_FALSE(check_plan(shape("gpt-oss-120b"), {.tp = 4, .ep = 3}));
}

TEST(Memory, WeightsAreTheModelsBytesOverTheGpusAndAllPartsLeaveTheCache) {
  const auto kernels = kernels::Kernels::load("H200-SXM5", "vllm");
  const Engine engine = *load_engine("vllm");
  const Shape s = shape("llama-3.1-70b");
  for (const Rank tp : {1, 2, 4, 8}) {
    const Plan plan{.tp = tp, .precision = "bf16"};
    const auto types = types_of(s, plan, engine, *kernels);
    ASSERT_TRUE(types);
    const Memory m = memory_of(s, plan, engine, *types, *kernels);
    EXPECT_NEAR(m.weights, 2.0 * static_cast<double>(s.parameters) / tp, 1e6 * 2 * 1e3);
    // 80 layers x 2 x 8 heads x 128 in 16 bits: 327,680 bytes a token.
    EXPECT_DOUBLE_EQ(m.token, 327680.0 / tp);
    EXPECT_NEAR(m.cache(), m.usable - m.weights - m.activations - m.reserved, 1);
  }
}

TEST(Memory, ALatentCacheIsWholeOnEveryGpuAndAttentionsReplicasShareTheLoad) {
  const auto kernels = kernels::Kernels::load("B200-SXM6", "trtllm");
  const Engine engine = *load_engine("sglang");
  const Shape s = shape("deepseek-v3");
  const Plan tensor{.tp = 8, .precision = "fp8", .cache = "bf16"},
      replicas{.tp = 1, .dp = 8, .ep = 8, .precision = "fp8", .cache = "bf16"};
  const Memory a = memory_of(s, tensor, engine, *types_of(s, tensor, engine, *kernels), *kernels);
  const Memory b = memory_of(s, replicas, engine, *types_of(s, replicas, engine, *kernels), *kernels);
  EXPECT_DOUBLE_EQ(a.token, 61 * 576 * 2.0);
  EXPECT_DOUBLE_EQ(a.token, b.token);
  EXPECT_GT(b.tokens(2048, 8), 4 * a.tokens(2048, 1));
}

TEST(Types, FourBitsFollowTheFileAndTheCard) {
  const auto h100 = kernels::Kernels::load("H100-SXM5", "vllm"), b200 = kernels::Kernels::load("B200-SXM6", "vllm");
  const Engine engine = *load_engine("vllm");
  using enum kernels::Precision;
  EXPECT_EQ(types_of(shape("gpt-oss-120b"), {}, engine, *h100)->experts, kMxfp4A16);
  EXPECT_EQ(types_of(shape("gpt-oss-120b"), {}, engine, *b200)->experts, kMxfp4A8);
  EXPECT_EQ(types_of(shape("gpt-oss-120b"), {}, engine, *b200)->attention, kBf16);
  EXPECT_EQ(types_of(shape("deepseek-v3"), {.precision = "fp4"}, engine, *b200)->experts, kNvfp4);
  EXPECT_EQ(types_of(shape("deepseek-v3"), {.precision = "fp4"}, engine, *b200)->attention, kBf16);
  EXPECT_EQ(types_of(shape("kimi-k2.5"), {}, engine, *h100)->experts, kInt4A16);
  EXPECT_EQ(types_of(shape("qwen3-235b-a22b-fp8"), {}, engine, *h100)->dense, kFp8Block);
  EXPECT_EQ(types_of(shape("qwen3-235b-a22b"), {}, engine, *h100)->dense, kBf16);
  EXPECT_FALSE(types_of(shape("deepseek-v3"), {.precision = "fp3"}, engine, *b200));
  EXPECT_FALSE(types_of(shape("deepseek-v3"), {.cache = "int8"}, engine, *b200));
}

TEST(Trace, RequestsStandInTheOrderOfArrivalFromZeroOn) {
  const auto t = parse_trace("t.csv", "arrival_s,input_tokens,output_tokens\n5,100,10\n1,200,20\n3,300,30\n", 2);
  ASSERT_TRUE(t) << t.error().message;
  const auto& r = t->requests;
  ASSERT_EQ(r.size(), 3U);
  EXPECT_EQ(r[0].input, 200);
  EXPECT_DOUBLE_EQ(r[0].arrival, 0);
  EXPECT_DOUBLE_EQ(r[2].arrival, 2);
}

TEST(Trace, PublishedFormsAreReadWithOrWithoutAByteOrderMark) {
  for (const char* text :
       {"\xEF\xBB\xBF"
        "arrival_s,input_tokens,output_tokens\n0,374,44\n4.5,396,109\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:58.5000000,374,44\n2023-11-17 "
        "00:00:03.0000000,396,109\n",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,374,44,418,Conversation log\n"
        "9.5,ChatGPT,396,109,505,API log\n",
        "{\"timestamp\": 500, \"input_length\": 374, \"output_length\": 44, \"hash_ids\": [1]}\n"
        "{\"timestamp\": 5000, \"input_length\": 396, \"output_length\": 109, \"hash_ids\": [1, 2]}\n"}) {
    const auto t = parse_trace("t", text, 1);
    ASSERT_TRUE(t) << text << t.error().message;
    ASSERT_EQ(t->requests.size(), 2U);
    EXPECT_EQ(t->requests[1].input, 396);
    EXPECT_EQ(t->requests[1].output, 109);
    EXPECT_NEAR(t->requests[1].arrival, 4.5, 1e-6) << text;
  }
}

TEST(Trace, PrioritiesOfRequestsAreRead) {
  for (const char* text : {"arrival_s,input_tokens,output_tokens,priority\n0,374,44,0\n4.5,396,109,-2\n",
                           "{\"timestamp\": 0, \"input_length\": 374, \"output_length\": 44}\n"
                           "{\"timestamp\": 4500, \"input_length\": 396, \"output_length\": 1, \"priority\": -2}\n"}) {
    const auto t = parse_trace("t", text, 1);
    ASSERT_TRUE(t) << text << t.error().message;
    EXPECT_EQ(t->requests[0].priority, 0);
    EXPECT_EQ(t->requests[1].priority, -2);
  }
}

TEST(Trace, AFaultNamesLineKeyAndValue) {
  const std::string head = "arrival_s,input_tokens,output_tokens\n0,100,10\n";
  for (const auto& [text, said] :
       {std::pair<std::string, const char*>{head + "1,abc,20\n", "t:3: input_tokens 'abc' is not a whole number"},
        {head + "1,100.7,20\n", "t:3: input_tokens '100.7' is not a whole number"},
        {head + "nan,100,20\n", "t:3: arrival_s: 'nan' is no time from 0 in s"},
        {head + "-1,100,20\n", "t:3: arrival_s: '-1' is no time from 0 in s"},
        {head + "1e300,100,20\n", "t:3: arrives 1e+300 s after the first request: at most 1e+09 s"},
        {"arrival_s,input_tokens,output_tokens,arrival_s\n0,1,1,0\n", "t:1: there are two columns 'arrival_s'"},
        {head + "1,0,20\n", "t:3: 0 input tokens: 1 to 100000000"},
        {head + "1,200000000,20\n", "t:3: 200000000 input tokens: 1 to 100000000"},
        {head + "1,200\n", "t:3: 2 columns, not 3"},
        {"arrival_s,input_tokens,priority\n0,10,high\n", "t:2: priority 'high' is not a whole number"},
        {R"({"timestamp": 0, "input_length": 4, "priority": 0.5})", "t:1: priority: 0.5 is no whole number"},
        {"input_tokens,output_tokens\n1,2\n", "t:2: no arrival (arrival_s"},
        {"arrival_s;input_tokens\n0;1\n", "t:1: no JSON, and no column of a CSV names input tokens"},
        {"\xFF\xFE"
         "a",
         "t: text of 16 bits (UTF-16)"}}) {
    const auto none = parse_trace("t", text, 1);
    ASSERT_FALSE(none) << text;
    EXPECT_EQ(none.error().message.find(said), 0U) << none.error().message;
  }
}

TEST(Prefixes, RequestsOneAfterTheOtherHitWhatWeftKvReplaySays) {
  std::string text;
  std::uint32_t state = 1;
  for (int i = 0; i < 400; ++i) {
    const auto next = [&] { return state = state * 1664525 + 1013904223; };
    text += fmt::format(R"({{"timestamp": {}, "input_length": {}, "output_length": 1, "hash_ids": [)", i, 4 * 512);
    const std::uint32_t chat = (next() >> 8) % 12, turn = (next() >> 8) % 5;
    text += fmt::format("{}, {}, {}, {}]}}\n", chat, 100 + chat, 200 + 5 * chat + turn, 1000 + 5 * chat + turn);
  }
  const auto read = parse_trace("t", text, 1);
  ASSERT_TRUE(read && read->prefixes) << read.error().message;
  EXPECT_EQ(read->prefixes->block_tokens, 512);
  const auto trace = kv::parse_trace(text, "t");
  for (const kv::Policy policy : {kv::Policy::kLru, kv::Policy::kLfu, kv::Policy::kS3Fifo}) {
    PrefixCache cache(*read->prefixes, policy, 40 * 512);
    std::uint64_t hits = 0;
    for (const Request& r : read->requests) {
      const auto blocks = cache.of(r.first_block, r.blocks);
      const std::uint32_t found = cache.begin(blocks);
      hits += found;
      cache.computed(blocks, found);
      cache.end(blocks);
      cache.trim(0);
    }
    EXPECT_EQ(hits, kv::replay(*trace, 40, policy).hit_blocks);
    EXPECT_GT(hits, 100U);
    EXPECT_EQ(cache.leased(), 0);
  }
}

TEST(Source, LengthsLieWithinTheSpreadAndASeedRepeatsThem) {
  const Load load{.input = 1000, .output = 100, .spread = 0.8, .concurrency = 4, .requests = 500};
  Source a(load), b(load);
  double sum = 0;
  while (a.more()) {
    const Request x = a.next(0), y = b.next(0);
    EXPECT_EQ(x.input, y.input);
    EXPECT_GE(x.input, 800);
    EXPECT_LE(x.input, 1000);
    sum += static_cast<double>(x.input);
  }
  EXPECT_NEAR(sum / 500, 900, 15);
}

TEST(Source, PoissonArrivalsHaveTheRate) {
  const Load load{.rate = 5, .requests = 4000};
  Source s(load);
  double last = 0;
  while (s.more()) last = s.next(0).arrival;
  EXPECT_NEAR(4000 / last, 5, 0.3);
}

}  // namespace
}  // namespace weft::serving
