#include "move/kv/replay.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "move/kv/model.h"

namespace weft::kv {
namespace {

Trace trace_of(const std::string& lines) {
  auto trace = parse_trace(lines, "test.jsonl");
  EXPECT_TRUE(trace) << trace.error().message;
  return *trace;
}

// Requests A B, C D, A B, E F, A B, C D with room for four blocks. Hits: LRU: the third request's 2 (A B C D are
// present), then E F push C D out; the fifth's 2; the sixth's none: 4 of 12. The optimum keeps A B and C D until E F
// come, which are never used again and go at once: 2 + 2 + 2.
constexpr const char* kSmall =
    "{\"hash_ids\": [1, 2]}\n{\"hash_ids\": [3, 4]}\n{\"hash_ids\": [1, 2]}\n"
    "{\"hash_ids\": [5, 6]}\n{\"hash_ids\": [1, 2]}\n{\"hash_ids\": [3, 4]}\n";

TEST(KvReplay, HitsOfASmallTraceAreThoseCountedByHand) {
  const Trace trace = trace_of(kSmall);
  EXPECT_EQ(trace.requests(), 6U);
  EXPECT_EQ(trace.distinct, 6U);
  EXPECT_EQ(replay(trace, 4, Policy::kLru).hit_blocks, 4U);
  EXPECT_EQ(replay(trace, 4, Policy::kClairvoyant).hit_blocks, 6U);
  for (const Policy policy : kPolicies) EXPECT_EQ(replay(trace, 6, policy).hit_blocks, 6U) << name(policy);
}

// LFU: A A A, then B, C with room for two: C's entry pushes out B, used once like C but longer ago. A stays.
TEST(KvReplay, TheLeastFrequentlyUsedBlockGoesFirst) {
  const Trace trace = trace_of(
      "{\"hash_ids\":[1]}\n{\"hash_ids\":[1]}\n{\"hash_ids\":[1]}\n{\"hash_ids\":[2]}\n"
      "{\"hash_ids\":[3]}\n{\"hash_ids\":[1]}\n{\"hash_ids\":[2]}\n");
  EXPECT_EQ(replay(trace, 2, Policy::kLfu).hit_blocks, 3U);
  EXPECT_EQ(replay(trace, 2, Policy::kLru).hit_blocks, 2U);  // A has gone when C came
}

// Only a prefix counts: block 2 is present in the second request, block 9 before it is not.
TEST(KvReplay, BlocksBehindAMissingOneDoNotCount) {
  EXPECT_EQ(replay(trace_of("{\"hash_ids\":[1,2]}\n{\"hash_ids\":[9,2]}\n"), 10, Policy::kLru).hit_blocks, 0U);
}

// The end of a prompt goes before its beginning: with room for two of three blocks the prefix 1 2 is left.
TEST(KvReplay, APrefixOutlivesWhatFollowsIt) {
  EXPECT_EQ(replay(trace_of("{\"hash_ids\":[1,2,3]}\n{\"hash_ids\":[1,2,3]}\n"), 2, Policy::kLru).hit_blocks, 2U);
}

// A scan of blocks that are used once does not push out the ones in use: S3-FIFO's reason to be.
TEST(KvReplay, S3FifoKeepsBlocksInUseThroughAScan) {
  std::string lines;
  for (int round = 0; round < 40; ++round) {
    for (int again = 0; again < 3; ++again) lines += "{\"hash_ids\":[1]}\n{\"hash_ids\":[2]}\n";
    for (int once = 0; once < 30; ++once)
      lines += "{\"hash_ids\":[" + std::to_string(1000 + round * 30 + once) + "]}\n";
  }
  const Trace trace = trace_of(lines);
  const auto lru = replay(trace, 20, Policy::kLru).hit_blocks, s3 = replay(trace, 20, Policy::kS3Fifo).hit_blocks;
  EXPECT_EQ(lru, 40U * 4);      // of each block's three uses in a round, the first misses
  EXPECT_GT(s3, 39U * 6 - 10);  // nearly all
  EXPECT_LE(s3, replay(trace, 20, Policy::kClairvoyant).hit_blocks);
}

TEST(KvReplay, NoPolicyHasMoreHitsThanTheOptimum) {
  std::string lines;
  std::uint64_t seed = 1;
  const auto next = [&](std::uint64_t n) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (seed >> 33) % n;
  };
  for (int i = 0; i < 3000; ++i) lines += "{\"hash_ids\":[" + std::to_string(next(next(200) + 1)) + "]}\n";
  const Trace trace = trace_of(lines);
  for (const std::int64_t capacity : {1, 5, 20, 100}) {
    const auto best = replay(trace, capacity, Policy::kClairvoyant).hit_blocks;
    for (const Policy policy : kPolicies)
      EXPECT_LE(replay(trace, capacity, policy).hit_blocks, best) << name(policy) << capacity;
  }
}

TEST(KvReplay, ABrokenLineIsNamed) {
  const auto error = [](const std::string& text) { return parse_trace(text, "t").error().message; };
  EXPECT_EQ(error("{\"hash_ids\":[1]}\n\n{\"hash_ids\":[1,\n"), "t:3: no JSON object: {\"hash_ids\":[1,");
  EXPECT_EQ(error("{\"ids\":[1]}\n"), "t:1: hash_ids is missing, or no list");
  EXPECT_EQ(error("{\"hash_ids\":[1,\"x\"]}\n"), "t:1: hash_ids holds something that is no number from 0");
  EXPECT_EQ(error("{\"hash_ids\":[-1]}\n"), "t:1: hash_ids holds something that is no number from 0");
  EXPECT_EQ(error("[1]\n"), "t:1: no JSON object: [1]");
  EXPECT_EQ(error(""), "t: no requests");
}

// Four tokens to a block. The second prompt begins as the first, the third with another token.
TEST(KvReplay, TokensAreCutIntoBlocksThatEqualPrefixesShare) {
  const auto trace = parse_trace(
      "{\"input_tok_ids\":[1,2,3,4,5,6,7,8,9],\"output_toks\":3}\n"
      "{\"input_tok_ids\":[1,2,3,4,5,6,7,0]}\n{\"input_tok_ids\":[0,2,3,4,5,6,7,8]}\n",
      "t", 4);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->blocks, (std::vector<std::uint32_t>{0, 1, 0, 2, 3, 4}));
  EXPECT_EQ(trace->distinct, 5U);
  EXPECT_EQ(replay(*trace, 100, Policy::kLru).hit_blocks, 1U);
  EXPECT_EQ(parse_trace("{\"input_tok_ids\":[1,-2]}\n", "t", 4).error().message,
            "t:1: input_tok_ids holds something that is no number from 0");
}

// A turn of a person asks with all that was said before: 8 bytes, then 8 + 4 + 4. A token is 4 bytes, a block 2 tokens.
TEST(KvReplay, EveryTurnOfAConversationIsARequestWithAllBeforeIt) {
  const char* const text = R"([{"id": "a", "conversations": [{"from": "human", "value": "12345678"},
    {"from": "gpt", "value": "abcd"}, {"from": "human", "value": "efgh"}, {"from": "gpt", "value": "x"}]}])";
  const auto trace = parse_trace(text, "t", 2);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->blocks, (std::vector<std::uint32_t>{0, 0, 1}));
  EXPECT_EQ(trace->requests(), 2U);
  const auto error = [](const std::string& t) { return parse_trace(t, "t").error().message; };
  EXPECT_EQ(error("[{\"id\": 1}]"), "t: conversation 1: conversations is missing, or no list");
  EXPECT_EQ(error("[{\"conversations\": [{\"from\": 1, \"value\": \"\"}]}]"),
            "t: conversation 1: a turn has \"from\" and \"value\", both text");
}

TEST(KvReplay, LengthsAloneShareNothing) {
  const auto trace = parse_trace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9,374,44\r\n"
      "2023-11-16 18:17:04.0,33,5\r\n",
      "t");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->blocks.size(), 25U);  // 374 / 16 = 23, 33 / 16 = 2
  EXPECT_EQ(trace->distinct, 25U);
  EXPECT_EQ(replay(*trace, 1000, Policy::kLru).hit_blocks, 0U);
  const auto error = [](const std::string& rows) {
    return parse_trace("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows, "t").error().message;
  };
  EXPECT_EQ(error("x,374\n"), "t:2: 2 columns, not 3");
  EXPECT_NE(error("x,-1,4\n").find("t:2: ContextTokens"), std::string::npos);
  EXPECT_EQ(error(""), "t: no requests");
}

// The published trace stands beside the repository on machines that have it.
TEST(KvReplay, TheConversationTraceOfMooncakeHasTheKnownHitRates) {
  std::ifstream file(WEFT_TRACES "/conversation_trace.jsonl");
  if (!file) GTEST_SKIP() << "conversation_trace.jsonl is not there";
  std::stringstream text;
  text << file.rdbuf();
  const Trace trace = trace_of(text.str());
  EXPECT_EQ(trace.requests(), 12031U);
  EXPECT_EQ(trace.blocks.size(), 288500U);
  EXPECT_EQ(trace.distinct, 182790U);
  // Computed by an independent program: LRU with this order of touches, and the optimum.
  EXPECT_NEAR(replay(trace, 3000, Policy::kLru).rate(), .065, .0005);
  EXPECT_NEAR(replay(trace, 10000, Policy::kLru).rate(), .212, .0005);
  EXPECT_NEAR(replay(trace, 30000, Policy::kLru).rate(), .326, .0005);
  EXPECT_NEAR(replay(trace, 1 << 20, Policy::kLru).rate(), .366, .0005);
  EXPECT_NEAR(replay(trace, 10000, Policy::kLfu).rate(), .132, .0005);
  EXPECT_NEAR(replay(trace, 3000, Policy::kS3Fifo).rate(), .095, .0005);
  EXPECT_NEAR(replay(trace, 10000, Policy::kS3Fifo).rate(), .202, .0005);
  EXPECT_NEAR(replay(trace, 10000, Policy::kClairvoyant).rate(), .366, .0005);
}

ModelShape model_of(const std::string& config, const std::string& type = "") {
  auto model = parse_model(config, "config.json", type);
  EXPECT_TRUE(model) << model.error().message;
  return *model;
}

// Qwen3-235B-A22B: 2 * 94 layers * 4 heads * 128 * 2 bytes = 192,512; its 4 heads on 8 ranks are kept twice (Mooncake's
// table of hand-over times: 385,024 bytes per token).
TEST(KvModel, GroupedQueriesAreCountedByTheirHeads) {
  const ModelShape model = model_of(
      R"({"num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "torch_dtype": "bfloat16"})");
  EXPECT_EQ(model.token_bytes(), 192512);
  EXPECT_EQ(model.copies(8) * model.token_bytes(), 385024);
  EXPECT_EQ(model.rank_bytes(8), 48128);
  EXPECT_EQ(model.rank_bytes(4), 48128);
}

// DeepSeek-V3: 61 layers of 512 + 64 elements of 2 bytes: 70,272; once, however many ranks.
TEST(KvModel, ALatentVectorIsCountedOnce) {
  const std::string config =
      R"({"num_hidden_layers": 61, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "torch_dtype": "bfloat16"})";
  EXPECT_EQ(model_of(config).token_bytes(), 70272);
  EXPECT_EQ(model_of(config).copies(8), 1);
  EXPECT_EQ(model_of(config, "fp8").token_bytes(), 35136);
}

// A hybrid of two layers that attend (1 head of 64) and two that keep a state: 2 * 2 * 64 * 2 bytes grow per token; a
// state of 4 * 8 * 16 numbers and 3 inputs of a convolution over 2 * 2 * 8 + 4 * 16 = 96, of 4 bytes, does not.
TEST(KvModel, RecurrentLayersKeepAStateThatDoesNotGrow) {
  const ModelShape model = model_of(R"({"model_type": "qwen3_next", "num_hidden_layers": 4, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 64, "full_attention_interval": 2, "linear_num_value_heads": 4,
    "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 16, "hidden_size": 128,
    "torch_dtype": "bfloat16"})");
  EXPECT_EQ(model.growing_bytes(), 512);
  EXPECT_EQ(model.state_bytes(1), 2 * (4 * 8 * 16 + 3 * 96) * 4);
  EXPECT_EQ(model.sequence_bytes(10, 1), 5120 + model.state_bytes(1));
}

// Llama-2-70B names no head_dim: 8192 / 64 = 128. 2 * 80 * 8 * 128 * 2 = 327,680.
TEST(KvModel, HeadsAreDerivedFromTheHiddenSize) {
  EXPECT_EQ(model_of(R"({"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
                         "num_key_value_heads": 8, "torch_dtype": "float16"})")
                .token_bytes(),
            327680);
}

TEST(KvModel, WrongConfigsAreOneClearErrorEach) {
  const auto error = [](const std::string& text) { return parse_model(text, "c").error().message; };
  EXPECT_EQ(error("[]"), "c: no JSON object; a config.json of Hugging Face is expected");
  EXPECT_EQ(error("{}"), "c: key num_hidden_layers is missing");
  EXPECT_EQ(error(R"({"num_hidden_layers": -3})"), "c: num_hidden_layers: -3 is no count between 0 and 1048576");
  EXPECT_EQ(error(R"({"num_hidden_layers": 2, "num_attention_heads": 1, "head_dim": 8, "torch_dtype": "int3"})"),
            "c: unknown type 'int3'; there are float32, float16, bfloat16, fp8 and int8");
  EXPECT_EQ(error(R"({"num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 4, "head_dim": 8})"),
            "c: 6 attention heads are no multiple of num_key_value_heads 4");
  EXPECT_FALSE(check_tp(
      model_of(R"({"num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 6, "head_dim": 8})"), 4));
}

}  // namespace
}  // namespace weft::kv
