#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/models/model.h"
#include "base/text_file.h"

namespace weft::models {
namespace {

using nlohmann::json;

Model parsed(const json& config) {
  auto model = parse_config("config.json", config.dump());
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : Model{};
}
std::string error_of(const std::string& text) {
  const auto model = parse_config("c", text);
  return model ? "" : model.error().message;
}

TEST(Models, ParametersOfFamiliesAgreeWithPublishedCounts) {
  const std::string text = read_text_file(std::filesystem::path(WEFT_MODELS_SOURCE) / "published_counts.json").value();
  const json all = json::parse(text);
  for (const json& one : all["models"]) {
    const Model model = one.contains("config") ? parsed(one["config"]) : load(one["name"].get<std::string>()).value();
    const double billions = static_cast<double>(model.parameters()) * 1e-9;
    EXPECT_NEAR(billions / one["billions"].get<double>(), 1, 0.005) << one["name"];
  }
  EXPECT_GE(all["models"].size(), 70U);
}

// Counts that the names or model cards of current models give, without multi-token prediction and vision towers.
TEST(Models, CurrentModelsAreReadAndHaveTheirPublishedParameters) {
  const std::filesystem::path folder = WEFT_MODEL_CONFIGS;
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const std::map<std::string, double> published = {{"MiniMaxAI--MiniMax-M2.5", 228.7},
                                                   {"Qwen--Qwen3-8B", 8.19},
                                                   {"Qwen--Qwen3-235B-A22B", 235.09},
                                                   {"Qwen--Qwen3-Coder-480B-A35B-Instruct", 480.2},
                                                   {"deepseek-ai--DeepSeek-V3", 671.03},
                                                   {"meta-llama--Meta-Llama-3.1-405B", 405.85},
                                                   {"meta-llama--Llama-4-Maverick-17B-128E-Instruct", 400.7},
                                                   {"openai--gpt-oss-120b", 116.8},
                                                   {"openai--gpt-oss-20b", 20.91},
                                                   {"nvidia--Llama-3_3-Nemotron-Super-49B-v1", 49.87},
                                                   {"nvidia--Nemotron-H-56B-Base-8K", 56.3},
                                                   {"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", 31.58}};
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const std::string file = entry.path().filename().string(), name = file.substr(0, file.rfind("_config.json"));
    const auto model = parse_config(file, read_text_file(entry.path()).value());
    ASSERT_TRUE(model) << model.error().message;
    ++read;
    if (const auto at = published.find(name); at != published.end()) {
      EXPECT_NEAR(static_cast<double>(model->parameters()) * 1e-9 / at->second, 1, 0.005) << name;
    }
  }
  EXPECT_GE(read, 70U);
}

// A file that stands beside the repository and the catalogue's entry of that name are one model.
TEST(Models, TheCatalogueAgreesWithTheFilesThatItNames) {
  const std::filesystem::path folder = WEFT_MODEL_CONFIGS;
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  std::size_t compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::string name = entry.path().filename().string();
    name = name.substr(name.find("--") + 2, name.rfind("_config.json") - name.find("--") - 2);
    const auto known = load(name);
    ASSERT_TRUE(known) << known.error().message;
    const Model file = parse_config(name, read_text_file(entry.path()).value()).value();
    EXPECT_EQ(known->parameters(), file.parameters()) << name;
    EXPECT_EQ(known->active_parameters(), file.active_parameters()) << name;
    const CacheShape ours = known->cache(), theirs = file.cache();
    for (const std::int64_t tokens : {1024, 131072}) EXPECT_EQ(ours.elements(tokens), theirs.elements(tokens)) << name;
    EXPECT_EQ(ours.index_elements, theirs.index_elements) << name;
    EXPECT_EQ(ours.state_elements, theirs.state_elements) << name;
    ++compared;
  }
  EXPECT_GE(compared, 43U);
}

// JetMoE (arXiv 2404.07413) with 4 layers: 6 experts of attention, of which 3 are chosen, have a query and an output
// of 4 heads of 64 each: 6 * 2 * 512 * 256, keys and values 2 * 512 * 256, and a router of 512 * 6. Of a token's
// parameters half of the experts' are idle.
TEST(Models, ExpertsOfAttentionCountWithTheirQueriesAndOutputs) {
  const Model model = parsed({{"model_type", "jetmoe"},
                              {"hidden_size", 512},
                              {"num_hidden_layers", 4},
                              {"num_key_value_heads", 4},
                              {"kv_channels", 64},
                              {"intermediate_size", 1024},
                              {"num_local_experts", 6},
                              {"num_experts_per_tok", 3},
                              {"vocab_size", 1000},
                              {"activation_function", "silu"}});
  const std::int64_t attention = 12 * 512 * 256 + 2 * 512 * 256 + 512 * 6, experts = 6 * 3 * 512 * 1024 + 512 * 6;
  EXPECT_EQ(model.parameters(), 1000 * 512 + 4 * (attention + experts));
  EXPECT_EQ(model.active_parameters(), model.parameters() - 4 * (6 * 512 * 256 + 3 * 3 * 512 * 1024));
  EXPECT_EQ(model.cache().token_elements, 4 * 2 * 4 * 64);
  EXPECT_NE(error_of(R"({"model_type": "jetmoe", "hidden_size": 512, "num_hidden_layers": 4, "vocab_size": 9,
                        "num_local_experts": 2, "num_experts_per_tok": 3})")
                .find("3 experts per token, but there are 2"),
            std::string::npos);
}

// Qwen3-Next: 12 of 48 layers attend, with 2 heads of 256: 12 * 2 * 2 * 256 = 12,288 elements per token. 32 heads keep
// a state of 128 * 128, and a convolution over 2 * 16 * 128 + 32 * 128 = 8,192 inputs its last 3.
TEST(Models, OnlyAttendingLayersOfAHybridGrowWithEveryToken) {
  const Model model = parsed({{"model_type", "qwen3_next"},
                              {"hidden_size", 2048},
                              {"num_hidden_layers", 48},
                              {"num_attention_heads", 16},
                              {"num_key_value_heads", 2},
                              {"head_dim", 256},
                              {"linear_num_value_heads", 32},
                              {"linear_num_key_heads", 16},
                              {"linear_key_head_dim", 128},
                              {"linear_value_head_dim", 128},
                              {"num_experts", 512},
                              {"num_experts_per_tok", 10},
                              {"moe_intermediate_size", 512},
                              {"shared_expert_intermediate_size", 512},
                              {"vocab_size", 151936}});
  const CacheShape cache = model.cache();
  EXPECT_EQ(cache.growing_layers, 12);
  EXPECT_EQ(cache.recurrent_layers, 36);
  EXPECT_EQ(cache.token_elements, 12288);
  EXPECT_EQ(cache.state_elements, 36 * (32 * 128 * 128 + 3 * 8192));
  // Four ranks share 2 heads: each keeps one.
  EXPECT_EQ(model.cache(4).token_elements, 6144);
}

// Gemma 2: every second layer sees 4,096 tokens only. 2 layers, 1 head of 256: 512 elements per token and layer.
TEST(Models, AWindowIsFullAfterItsTokens) {
  const Model model = parsed({{"model_type", "gemma2"},
                              {"hidden_size", 256},
                              {"num_hidden_layers", 2},
                              {"num_attention_heads", 1},
                              {"num_key_value_heads", 1},
                              {"intermediate_size", 512},
                              {"vocab_size", 100},
                              {"max_position_embeddings", 8192}});
  const CacheShape cache = model.cache();
  EXPECT_EQ(cache.token_elements, 512);
  EXPECT_EQ(cache.window_layers(), 1);
  EXPECT_EQ(cache.elements(1), 1024);
  EXPECT_EQ(cache.elements(10000), 10000 * 512 + 4096 * 512);
}

// OLMo's first form counts both halves of its MLP, and pads its vocabulary: 1,176,764,416 parameters are published.
TEST(Models, OlmosOwnKeysAreRead) {
  const auto m = parse_config(
      "c",
      R"({"model_type": "hf_olmo", "d_model": 2048, "n_heads": 16, "n_layers": 16, "mlp_ratio": 8, "vocab_size": 50280,
          "embedding_size": 50304, "weight_tying": true, "activation_type": "swiglu", "mlp_hidden_size": null,
          "max_sequence_length": 2048})");
  ASSERT_TRUE(m) << m.error().message;
  EXPECT_NEAR(static_cast<double>(m->parameters()), 1'176'764'416, 0.005 * 1'176'764'416);
  EXPECT_TRUE(m->tied);
}

TEST(Models, NumbersThatPythonWritesAndJsonDoesNotKnowAreRead) {
  const auto model = parse_config("c", R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 10, "time_step_limit": [0.0, Infinity],
    "x": -Infinity, "y": NaN, "note": "Infinity stays"})");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers.size(), 1U);
}

TEST(Models, WhatCannotBeReadIsNamed) {
  EXPECT_EQ(error_of("[]"), "c: no JSON object; a config.json of Hugging Face is expected");
  EXPECT_EQ(error_of(R"({"model_type": "bert"})"), "c: model_type bert is an encoder");
  const std::string start = R"({"model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 2, )";
  EXPECT_EQ(error_of(start + R"("vocab_size": 5})"), "c: key hidden_size is missing");
  EXPECT_EQ(error_of(start + R"("hidden_size": 6, "vocab_size": 5, "intermediate_size": 8})"),
            "c: hidden_size 6 is no multiple of 4 heads");
  EXPECT_EQ(error_of(start + R"("hidden_size": 8, "vocab_size": 5, "num_key_value_heads": 3, "intermediate_size": 8})"),
            "c: 4 attention heads are no multiple of num_key_value_heads 3");
  EXPECT_EQ(error_of(start + R"("hidden_size": 8, "vocab_size": -5})"),
            "c: vocab_size: -5 is no count between 0 and 268435456");
  EXPECT_EQ(error_of(start + R"("hidden_size": 8, "vocab_size": 5, "intermediate_size": 8, "num_experts": 4})"),
            "c: key num_experts_per_tok is missing");
  EXPECT_EQ(error_of(R"({"model_type": "nemotron_h", "hidden_size": 8, "vocab_size": 5, "num_attention_heads": 2,
                         "num_hidden_layers": 3, "intermediate_size": 8, "hybrid_override_pattern": "**"})"),
            "c: hybrid_override_pattern has 2 letters, but there is a layer 2");
}

// Transformers 5 writes kinds of layers as words.
TEST(Models, WordsOfTransformers5SayWhatALayerIs) {
  nlohmann::json v4 = {{"model_type", "deepseek_v4"},
                       {"hidden_size", 64},
                       {"num_hidden_layers", 3},
                       {"num_attention_heads", 4},
                       {"num_key_value_heads", 1},
                       {"head_dim", 32},
                       {"q_lora_rank", 16},
                       {"n_routed_experts", 8},
                       {"num_experts_per_tok", 2},
                       {"moe_intermediate_size", 16},
                       {"vocab_size", 100},
                       {"sliding_window", 128},
                       {"mlp_layer_types", {"hash_moe", "moe", "dense"}},
                       {"intermediate_size", 48}};
  const Model model = parsed(v4);
  EXPECT_TRUE(model.layers[0].has_experts() && model.layers[1].has_experts());
  EXPECT_FALSE(model.layers[2].has_experts());
  const Model hybrid = parsed({{"model_type", "nemotron_h"},
                               {"hidden_size", 64},
                               {"num_attention_heads", 4},
                               {"intermediate_size", 32},
                               {"vocab_size", 10},
                               {"mamba_num_heads", 4},
                               {"mamba_head_dim", 16},
                               {"ssm_state_size", 8},
                               {"layers_block_type", {"linear_attention", "full_attention", "mlp"}}});
  EXPECT_EQ(hybrid.cache().growing_layers, 1);
  EXPECT_EQ(hybrid.cache().recurrent_layers, 1);
}

TEST(Models, AModelThatIsNotKnownHasTheRecurrentLayersThatItsKeysName) {
  const Model model =
      parsed({{"model_type", "of_tomorrow"},
              {"hidden_size", 64},
              {"num_hidden_layers", 4},
              {"num_attention_heads", 4},
              {"intermediate_size", 32},
              {"vocab_size", 10},
              {"linear_num_value_heads", 4},
              {"linear_num_key_heads", 2},
              {"linear_key_head_dim", 8},
              {"linear_value_head_dim", 8},
              {"layer_types", {"linear_attention", "linear_attention", "linear_attention", "full_attention"}}});
  EXPECT_EQ(model.cache().growing_layers, 1);
  EXPECT_EQ(model.cache().recurrent_layers, 3);
}

TEST(Models, LingsLayersAttendAtTheEndOfEachGroup) {
  const Model model = parsed({{"model_type", "bailing_hybrid"},
                              {"hidden_size", 64},
                              {"num_hidden_layers", 6},
                              {"num_attention_heads", 4},
                              {"intermediate_size", 32},
                              {"vocab_size", 10},
                              {"linear_num_heads", 4},
                              {"linear_head_dim", 16},
                              {"layer_group_size", 3}});
  EXPECT_EQ(model.cache().growing_layers, 2);
}

// An unknown model_type with a decoder's keys is read as one, and says so.
TEST(Models, AnUnknownFamilyIsReadAsADecoderAndNamed) {
  const Model model = parsed({{"model_type", "llama9"},
                              {"hidden_size", 8},
                              {"num_hidden_layers", 1},
                              {"num_attention_heads", 2},
                              {"intermediate_size", 16},
                              {"vocab_size", 10}});
  ASSERT_EQ(model.left_out.size(), 1U);
  EXPECT_EQ(model.left_out[0], "model_type llama9 (read as a decoder with gated MLPs)");
}

TEST(Models, SizesThatOverflowAreRefused) {
  const std::string start = R"({"model_type": "llama", "num_attention_heads": 1048576, "num_hidden_layers": 4096,
    "head_dim": 1048576, "hidden_size": 1048576, "vocab_size": 5, "intermediate_size": )";
  EXPECT_EQ(error_of(start + "8}").substr(0, 3), "c: ");
  EXPECT_EQ(error_of(start + "18446744073709551615}"),
            "c: intermediate_size: 18446744073709551615 is no count between 0 and 1048576");
}

TEST(Models, TheCatalogueIsFoundByTheNamesOfOthers) {
  for (const std::string& name : catalog_names()) EXPECT_TRUE(load(name)) << name;
  EXPECT_GE(catalog_names().size(), 100U);
  EXPECT_EQ(catalog_name("Qwen/Qwen3-30B-A3B"), "qwen3-30b-a3b");
  EXPECT_EQ(catalog_name("meta-llama/Meta-Llama-3-8B-Instruct"), "llama3-8b");
  EXPECT_EQ(catalog_name("meta-llama/Llama-3.1-70B-Instruct"), "llama-3.1-70b");
  EXPECT_EQ(catalog_name("google/gemma-2-9b-it"), "gemma-2-9b");
  EXPECT_EQ(catalog_name("HuggingFaceH4/zephyr-7b-beta"), "mistral-7b");
  EXPECT_EQ(catalog_name("Qwen/Qwen2-7B-Instruct"), "qwen2.5-7b");
  EXPECT_EQ(catalog_name("allenai/OLMo-2-1124-13B-SFT"), "olmo2-13b");
  EXPECT_EQ(catalog_name("llama"), "");
  EXPECT_EQ(catalog_name("/"), "");
}

TEST(Models, EveryFamilyHasAName) { EXPECT_GE(family_types().size(), 100U); }

// What follows was wrong by factors. Sizes are those of the published models' kinds, with other numbers.
TEST(Config, LayersWithAWindowMayHaveHeadsOfTheirOwn) {
  const auto model = parse_config("c", R"({"model_type":"mimo_v2_flash","vocab_size":1000,"hidden_size":256,
      "num_hidden_layers":4,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":48,"v_head_dim":32,
      "swa_num_attention_heads":8,"swa_num_key_value_heads":4,"swa_head_dim":48,"swa_v_head_dim":32,"sliding_window":64,
      "hybrid_layer_pattern":[0,1,1,0],"intermediate_size":512,"max_position_embeddings":4096})");
  ASSERT_TRUE(model) << model.error().message;
  const CacheShape cache = model->cache();
  EXPECT_EQ(cache.growing_layers, 2);
  EXPECT_EQ(cache.token_elements, 2 * 2 * (48 + 32));
  ASSERT_EQ(cache.windows.size(), 1u);
  EXPECT_EQ(cache.windows[0].tokens, 64);
  EXPECT_EQ(cache.windows[0].elements, 2 * 4 * (48 + 32));
}

TEST(Config, AWindowBindsWhereTheFileNamesNoLongestSequence) {
  const auto model = parse_config("c", R"({"model_type":"cohere2","hidden_size":256,"intermediate_size":512,
      "num_hidden_layers":8,"num_attention_heads":8,"num_key_value_heads":2,"sliding_window":8192,
      "sliding_window_pattern":4,"vocab_size":1000})");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->cache().growing_layers, 2);
  EXPECT_EQ(model->cache().window_layers(), 6);
}

TEST(Config, ALayerWithTwoAttentionsKeepsTwoLatentVectors) {
  const auto model = parse_config("c", R"({"model_type":"longcat_flash","vocab_size":1000,"hidden_size":256,
      "ffn_hidden_size":512,"expert_ffn_hidden_size":64,"num_layers":3,"num_attention_heads":4,"kv_lora_rank":32,
      "q_lora_rank":48,"qk_rope_head_dim":16,"v_head_dim":24,"qk_nope_head_dim":24,"n_routed_experts":8,
      "zero_expert_num":4,"moe_topk":2})");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->cache().token_elements, 3 * 2 * (32 + 16));
  // Per layer: experts and router, two dense MLPs, two attentions.
  const std::int64_t attention = 256 * 48 + 48 * 4 * 40 + 256 * 48 + 32 * 4 * 48 + 4 * 24 * 256;
  EXPECT_EQ(model->parameters(), 2 * 1000 * 256 + 3 * (8 * 3 * 256 * 64 + 256 * 8 + 2 * 3 * 256 * 512 + 2 * attention));
}

// Experts of Kimi-K3 compute in a narrower space, which its file calls routed_expert_hidden_size; published: 2.78e12
// parameters. Read in the model's width they would be 5.45e12.
TEST(Config, ExpertsInANarrowerSpaceAreCountedThere) {
  const auto model = load("kimi-k3");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_NEAR(static_cast<double>(model->parameters()), 2.78e12, 0.005e12);
  const auto other = parse_config("c", R"({"model_type":"kimi_linear","vocab_size":1000,"hidden_size":256,
      "intermediate_size":512,"num_hidden_layers":1,"num_attention_heads":4,"kv_lora_rank":32,"q_lora_rank":48,
      "qk_rope_head_dim":16,"v_head_dim":24,"qk_nope_head_dim":24,"num_experts":8,"num_experts_per_token":2,
      "moe_intermediate_size":64,"routed_expert_hidden_size":96,"mla_use_output_gate":true,
      "linear_attn_config":{"num_heads":4,"head_dim":32,"full_attn_layers":[1]},
      "quantization_config":{"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized"}})");
  ASSERT_TRUE(other) << other.error().message;
  const std::int64_t attention = 256 * 48 + 48 * 4 * 40 + 256 * 48 + 32 * 4 * 48 + 2 * 4 * 24 * 256;
  EXPECT_EQ(other->parameters(), 2 * 1000 * 256 + attention + 8 * 3 * 96 * 64 + 256 * 8 + 2 * 256 * 96);
  EXPECT_EQ(other->quantization, "mxfp4");
}

TEST(Config, LayersThatReadTheKeysOfAnEarlierOneKeepNone) {
  const auto model = parse_config("c", R"({"model_type":"hunyuan","hidden_size":256,"intermediate_size":512,
      "num_hidden_layers":6,"num_attention_heads":8,"num_key_value_heads":2,"attention_head_dim":32,"use_cla":true,
      "cla_share_factor":3,"vocab_size":1000})");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->cache().token_elements, 2 * 2 * 2 * 32);
}

TEST(Config, EmbeddingsPerLayerAndUnknownTypesAreNamed) {
  const auto model = parse_config("c", R"({"model_type":"gemma3n_text","hidden_size":256,"intermediate_size":512,
      "num_hidden_layers":6,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":32,"vocab_size":1000,
      "vocab_size_per_layer_input":900000,"hidden_size_per_layer_input":1600})");
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_FALSE(model->left_out.empty());
  EXPECT_NE(model->left_out[0].find("8.64 billion parameters"), std::string::npos)
      << model->left_out[0];  // 9e5 x 1600 x 6
  const auto unknown = parse_config("c", R"({"model_type":"frob","hidden_size":256,"intermediate_size":512,
      "num_hidden_layers":6,"num_attention_heads":8,"vocab_size":1000})");
  ASSERT_TRUE(unknown);
  ASSERT_FALSE(unknown->left_out.empty());
  EXPECT_NE(unknown->left_out.back().find("model_type frob"), std::string::npos);
}

}  // namespace
}  // namespace weft::models
