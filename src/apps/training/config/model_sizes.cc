#include "apps/training/config/model_sizes.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/training/config/known_keys.h"
#include "base/models/model.h"
#include "base/text.h"

namespace weft::training {
namespace {

using nlohmann::json;

// Megatron's and NeMo's names of a model's sizes, and those of a config.json.
constexpr std::pair<const char*, const char*> kModelNames[] = {
    {"num_layers", "num_hidden_layers"},
    {"hidden_size", "hidden_size"},
    {"num_attention_heads", "num_attention_heads"},
    {"num_query_groups", "num_key_value_heads"},
    {"kv_channels", "head_dim"},
    {"ffn_hidden_size", "intermediate_size"},
    {"vocab_size", "vocab_size"},
    {"padded_vocab_size", "vocab_size"},
    {"pad_vocab_size_to", "vocab_size"},
    {"max_position_embeddings", "max_position_embeddings"},
    {"num_experts", "num_experts"},
    {"num_moe_experts", "num_experts"},
    {"moe_router_topk", "num_experts_per_tok"},
    {"moe_ffn_hidden_size", "moe_intermediate_size"},
    {"moe_shared_expert_intermediate_size", "shared_expert_intermediate_size"},
    {"q_lora_rank", "q_lora_rank"},
    {"kv_lora_rank", "kv_lora_rank"},
    {"qk_head_dim", "qk_nope_head_dim"},
    {"qk_nope_head_dim", "qk_nope_head_dim"},
    {"qk_rope_head_dim", "qk_rope_head_dim"},
    {"qk_pos_emb_head_dim", "qk_rope_head_dim"},
    {"v_head_dim", "v_head_dim"},
};

// The vocabulary behind a tokenizer's name, padded as Megatron pads it.
std::optional<std::int64_t> vocabulary(const Settings& settings, Config& config) {
  const std::string type = settings.find("tokenizer_type").value_or(settings.find("tokenizer.type").value_or(""));
  std::string name = settings.find("tokenizer_model").value_or(settings.find("tokenizer.model").value_or(""));
  if (name.empty()) name = settings.find("patch_tokenizer_type").value_or("");  // Pai-Megatron-Patch
  if (name.empty() || name.find('$') != std::string::npos) name = type;
  if ((name.empty() || name == type) &&
      settings.find("vocab_file").value_or("").find("20B_tokenizer") != std::string::npos)
    name = "gpt_neox";
  if (name.empty() && settings.has("merge_file")) name = "GPT2BPETokenizer";  // the only one with merges
  const std::string library = settings.find("tokenizer.library").value_or("");
  std::int64_t size = 0;
  // The longest pattern says most: "*r1_distill_qwen*" before "*qwen*".
  for (const std::string& candidate : {name, type, library}) {
    std::size_t longest = 0;
    for (const auto& [pattern, count] : known_keys()["vocabularies"].items())
      if (pattern.size() > longest && fnmatch(pattern.c_str(), key_of(candidate).c_str(), 0) == 0)
        size = count.get<std::int64_t>(), longest = pattern.size();
    if (size > 0) break;
  }
  if (size == 0) {
    const std::string known = models::catalog_name(name);
    if (const auto model = models::load(known)) size = model->vocab;
  }
  if (size == 0) return std::nullopt;
  const auto tp = config.numbers.contains("tp") ? config.numbers["tp"] : 1;
  std::int64_t multiple = 128;
  if (const auto own = settings.count("", "make_vocab_size_divisible_by"); own && *own && **own > 0) multiple = **own;
  multiple *= std::max<std::int64_t>(1, tp);
  size = (size + multiple - 1) / multiple * multiple;
  config.assumed.push_back(fmt::format("vocab_size {} after the tokenizer {}", size,
                                       !name.empty()   ? name
                                       : !type.empty() ? type
                                                       : library));
  return size;
}

// Megatron's hybrids of Mamba, attention and MLPs: the form of Nemotron-H.
Status read_hybrid(std::string_view file, const Settings& settings, json& sizes) {
  const auto pattern = settings.find("hybrid_layer_pattern") ? settings.find("hybrid_layer_pattern")
                                                             : settings.find("hybrid_override_pattern");
  if (!pattern || pattern->find('$') != std::string::npos) return {};
  sizes["model_type"] = "nemotron_h";
  sizes["hybrid_override_pattern"] = *pattern;
  sizes["num_hidden_layers"] = pattern->size();
  WEFT_TRY(const auto hidden, settings.count(file, "hidden_size"));
  WEFT_TRY(const auto head, settings.count(file, "mamba_head_dim"));
  WEFT_TRY(const auto heads, settings.count(file, "mamba_num_heads"));
  WEFT_TRY(const auto groups, settings.count(file, "mamba_num_groups"));
  WEFT_TRY(const auto state, settings.count(file, "mamba_state_dim"));
  // Megatron's defaults.
  sizes["mamba_head_dim"] = head.value_or(64);
  sizes["mamba_num_heads"] = heads.value_or(2 * hidden.value_or(64) / std::max<std::int64_t>(1, head.value_or(64)));
  sizes["n_groups"] = groups.value_or(8);
  sizes["ssm_state_size"] = state.value_or(128);
  return {};
}

// Architectures that Megatron-LM and NeMo train and that are no decoders of attention, MLPs and Mamba.
Status refuse_others(std::string_view file, const Settings& settings) {
  static constexpr std::string_view kOthers[] = {"griffin", "recurrentgemma", "hyena", "evo2", "rwkv", "retro", "t5",
                                                 "ul2",     "bart",           "bert"};
  for (const char* key : {"encoder_num_layers", "decoder_num_layers"})
    if (settings.has(key))
      return bad_input("{}: {}: a model with an encoder and a decoder, whose training is not modelled", file, key);
  const std::string stem = std::filesystem::path(file).stem().string();
  for (const std::string& name : {settings.find("name_constant").value_or(""), settings.find("name").value_or(""),
                                  settings.find("tokenizer.type").value_or(""), stem}) {
    std::string word;
    for (const char c : key_of(name) + "_")
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
        word += c;
      } else {
        if (std::ranges::find(kOthers, word) != std::end(kOthers))
          return bad_input("{}: {} is no decoder of attention, MLPs and Mamba: its training is not modelled", file,
                           shown(name));
        word.clear();
      }
  }
  return {};
}

}  // namespace

Status read_model(std::string_view file, const Settings& settings, const ConfigHints& hints, Config& config) {
  if (config.format == "NeMo" || config.format == "Megatron-LM arguments" || config.format == "Python recipe")
    WEFT_CHECK(refuse_others(file, settings));
  const bool hybrid = settings.has("hybrid_layer_pattern") || settings.has("hybrid_override_pattern");
  if ((!settings.has("num_layers") && !hybrid) || !settings.has("hidden_size")) return {};
  json sizes{{"name", std::string(file.substr(file.rfind('/') + 1))}};
  for (const auto& [theirs, ours] : kModelNames) {
    WEFT_TRY(const auto value, settings.count(file, theirs));
    if (value && !sizes.contains(ours)) sizes[ours] = *value;
  }
  WEFT_CHECK(read_hybrid(file, settings, sizes));
  if (hints.vocab) sizes["vocab_size"] = *hints.vocab;
  if (!sizes.contains("vocab_size"))
    if (const auto vocab = vocabulary(settings, config)) sizes["vocab_size"] = *vocab;
  if (!sizes.contains("vocab_size"))
    return bad_input("{}: vocab_size is missing and no tokenizer of a known vocabulary is named; give --vocab", file);
  // NeMo names the activation: swiglu, fast-swiglu, geglu, reglu are gated, gelu and relu are not.
  const auto activation = settings.find("activation");
  const bool gated =
      settings.on("swiglu") || settings.on("gated_linear_unit") || (activation && activation->ends_with("glu"));
  sizes["gated_mlp"] = gated;
  // Without --ffn-hidden-size Megatron takes 4 times the hidden size, of gated units two thirds of that.
  if (!sizes.contains("intermediate_size") && sizes.contains("hidden_size")) {
    const auto hidden = sizes["hidden_size"].get<std::int64_t>();
    sizes["intermediate_size"] = gated ? (4 * hidden * 2 / 3) / 64 * 64 : 4 * hidden;
  }
  if (!settings.on("multi_latent_attention")) sizes.erase("kv_lora_rank");
  // "([0]*3+[1]*58)" and "[0]*1+[1]*26": Megatron's list of which layers have experts.
  if (const auto layers = settings.find("moe_layer_freq")) {
    const std::size_t open = layers->find("[0]*");
    if (open != std::string::npos)
      sizes["first_k_dense_replace"] = std::strtol(layers->c_str() + open + 4, nullptr, 10);
  }
  if (settings.has("tie_word_embeddings"))
    sizes["tie_word_embeddings"] = settings.on("tie_word_embeddings");
  else
    sizes["tie_word_embeddings"] =
        !settings.on("untie_embeddings_and_output_weights") &&
        !(settings.has("share_embeddings_and_output_weights") && !settings.on("share_embeddings_and_output_weights"));
  if (!sizes.contains("max_position_embeddings") && config.numbers.contains("seq"))
    sizes["max_position_embeddings"] = config.numbers["seq"];
  WEFT_TRY(config.model, parse_model(file, sizes.dump()));
  if (settings.has("num_layers_per_virtual_pipeline_stage")) {
    // Layers, not stages.
    WEFT_TRY(const auto layers, settings.count(file, "num_layers_per_virtual_pipeline_stage"));
    const std::int64_t pp = config.numbers.contains("pp") ? config.numbers["pp"] : 1;
    if (layers.value_or(0) < 1 || config.model->layers % (pp * *layers) != 0)
      return bad_input("{}: num_layers_per_virtual_pipeline_stage: {} layers on {} stages do not divide {} layers",
                       file, layers.value_or(0), pp, config.model->layers);
    config.numbers["vp"] = config.model->layers / (pp * *layers);
  }
  return {};
}

// Files that name a model instead of its sizes.
void name_model(std::string_view file, const Settings& settings, Config& config) {
  if (config.model) return;
  const std::string flavor = settings.find("model.flavor").value_or(settings.find("model_spec.argument").value_or(""));
  const std::string name = settings.find("model.name").value_or("");
  std::vector<std::string> candidates;
  if (!name.empty() && !flavor.empty()) candidates.push_back(name + "-" + flavor);
  for (const char* key : {"pretrained_model_name_or_path", "model_name_or_path", "base_model", "hf_model_path",
                          "hf_path", "hf_assets_path", "pretrained_checkpoint", "tokenizer_path", "config_name",
                          "model", "model_name", "model_id_or_path"})
    if (const auto value = settings.find(key); value && value->find("tokenizer") == std::string::npos)
      candidates.push_back(*value);
  if (config.format == "OLMo-core")
    for (const auto& [path, value] : settings.all())
      if (path.ends_with("call") && value.find("TransformerConfig.") != std::string::npos)
        candidates.insert(candidates.begin(), value.substr(value.rfind('.') + 1));
  for (std::string candidate : candidates) {
    // "torchtune.models.llama3.qlora_llama3_8b"
    if (candidate.starts_with("torchtune.")) candidate.erase(0, candidate.rfind('.') + 1);
    if (candidate.ends_with(".yaml")) candidate.resize(candidate.size() - 5);  // Primus: a file of a model's sizes
    if (!config.model_name.empty()) continue;
    config.model_name = models::catalog_name(candidate);
    const std::string& found = config.model_name;
    if (!found.empty() && key_of(candidate).find("_vl_") != std::string::npos && found.find("-vl") == std::string::npos)
      config.assumed.push_back(fmt::format("{} as {}: its vision tower is left out", candidate, found));
  }
  // A function such as llama3_8b_pretrain_config, NeMo 2's NAME = "llama3_8b_16k", or the file's own name: without what
  // follows the size.
  const std::string stem = std::filesystem::path(file).stem().string();
  for (const std::string& name_of_recipe :
       {settings.find("function").value_or(""), settings.find("recipe").value_or(""),
        settings.find("name_constant").value_or(""), config.format == "Python recipe" ? stem : std::string()})
    for (std::string words = name_of_recipe; config.model_name.empty() && !words.empty();
         words.resize(words.rfind('_') == std::string::npos ? 0 : words.rfind('_')))
      config.model_name = models::catalog_name(words);
  if (config.model_name.empty() && candidates.empty() && settings.has("name_constant"))
    candidates.push_back(settings.find("name_constant").value_or(""));
  if (config.model_name.empty() && !candidates.empty()) {
    std::string plain = candidates.front();
    if (!name.empty() && !flavor.empty()) plain = key_of(plain);
    config.model_name = plain;
  }
}

}  // namespace weft::training
