#include "apps/training/config/config.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/training/config/formats.h"
#include "apps/training/config/replicas.h"
#include "apps/training/config/settings.h"
#include "apps/training/config/tuning.h"
#include "apps/training/files.h"
#include "base/counted.h"
#include "base/models/model.h"
#include "base/text.h"

namespace weft::training {
namespace {

using nlohmann::json;

const json& known_keys() {
  static const json all = [] {
    for (const auto& file : embedded::training_files())
      if (file.path == "data/training/config_keys.json") return json::parse(file.text);
    return json();
  }();
  return all;
}

// A number of the plan, and what formats call it. A name with a section stands before the same name without.
struct Names {
  const char* field;
  std::vector<const char*> keys;
};
const std::vector<Names>& plan_names() {
  static const std::vector<Names> names = {
      {"tp",
       {"tensor_model_parallel_size", "tensor_parallel_degree", "tensor_parallel.autotp_size", "tp_size",
        "tensor_parallel_size", "tensor_parallelism", "parallelism_config_tp_size"}},
      {"pp", {"pipeline_model_parallel_size", "pipeline_parallel_degree", "pp_size", "pipeline_parallelism"}},
      {"vp", {"virtual_pipeline_model_parallel_size", "virtual_pipeline_parallelism"}},
      {"cp",
       {"context_parallel_size", "context_parallel_degree", "cp_size", "context_parallelism", "cp_degree",
        "parallelism_config_cp_size", "parallelism_config_sp_size"}},
      {"ep",
       {"expert_model_parallel_size", "expert_parallel_degree", "ep_size", "expert_parallelism",
        "expert_parallel_size"}},
      {"etp", {"expert_tensor_parallel_size", "expert_tensor_parallel_degree"}},
      {"mtp", {"mtp_num_layers", "num_nextn_predict_layers"}},
      {"lora", {"lora_rank", "lora_r", "lora_dim", "peft.dim"}},
      {"first-layers", {"decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage"}},
      {"last-layers", {"decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage"}},
      {"zero", {"zero_optimization.stage", "zero_stage"}},
      {"micro-batch",
       {"micro_batch_size", "train_micro_batch_size_per_gpu", "training.local_batch_size",
        "step_scheduler.local_batch_size", "local_batch_size", "per_device_train_batch_size"}},
      {"global-batch",
       {"model.global_batch_size", "step_scheduler.global_batch_size", "training.global_batch_size",
        "global_batch_size", "train_batch_size"}},
      {"seq",
       {"model.encoder_seq_length", "model.seq_length", "training.seq_len", "max_context_length", "seq_length",
        "encoder_seq_length", "packed_sequence_size", "dataset.seq_len", "seq_len", "cutoff_len", "sequence_len",
        "max_seq_length", "max_length", "block_size", "model_max_length", "max_seq_len"}},
  };
  return names;
}
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

Status read_plan(std::string_view file, const Settings& settings, Config& config) {
  for (const Names& names : plan_names())
    for (const char* key : names.keys) {
      WEFT_TRY(const auto value, settings.count(file, key));
      if (const auto text = settings.find(key); text && text->find('$') != std::string::npos && *text != "$")
        config.assumed.push_back(fmt::format("{}: {} is known to the running script only", key, *text));
      const std::int64_t least = std::string_view(names.field) == "zero" ? 0 : 1;
      if (value && *value >= least) config.numbers.try_emplace(names.field, *value);
    }
  WEFT_TRY(config.accumulate, settings.count(file, "gradient_accumulation_steps"));
  if (settings.on("use_distributed_optimizer") || settings.on("distributed_optimizer") ||
      settings.find("optim.name").value_or("") == "distributed_fused_adam")
    config.numbers.try_emplace("zero", 1);
  else if (settings.has("num_layers") && settings.has("tensor_model_parallel_size"))
    config.numbers.try_emplace("zero", 0);  // Megatron's default: every replica holds the optimizer's state
  // Megatron's default: experts are spread over the ranks of tensor parallelism as well.
  if ((settings.has("num_experts") || settings.has("num_moe_experts")) && config.numbers.contains("tp"))
    config.numbers.try_emplace("etp", config.numbers["tp"]);
  for (const char* key : {"recompute_granularity", "activations_checkpoint_granularity", "activation_checkpoint.mode",
                          "activation_checkpointing.mode"})
    if (const auto value = settings.find(key)) config.recompute = *value;
  if (settings.on("recompute_activations")) config.recompute = "selective";
  for (const char* key : {"gradient_checkpointing", "activation_checkpointing", "fsdp_activation_checkpointing",
                          "activations_checkpoint_method", "checkpoint_activations"})
    if (settings.on(key) && config.recompute.empty()) config.recompute = "full";
  // Modules to compute again are Megatron's way to say "selective".
  if (config.recompute.empty() &&
      std::ranges::any_of(settings.all(), [](const auto& one) { return one.first.ends_with("recompute_modules"); }))
    config.recompute = "selective";
  if (!config.recompute.empty() && config.recompute != "full" && config.recompute != "none")
    config.recompute = "selective";
  // NeMo's kinds of FP8 stand beside the switch that turns it on.
  const bool off = settings.has("fp8") && !settings.on("fp8");
  if (!off && (settings.on("fp8_format") || settings.on("fp8") || settings.on("fp8_hybrid") || settings.on("fp8_e4m3")))
    config.precision = "fp8";
  else if (settings.on("bf16") || settings.on("fp16") || settings.on("bf16.enabled") || settings.on("fp16.enabled") ||
           settings.on("mixed_precision"))
    config.precision = "bf16";
  return {};
}

// What only one format means.
Status read_format(std::string_view file, const Settings& settings, Config& config) {
  if (config.format == "torchtitan") {
    WEFT_TRY(const auto shards, settings.count(file, "data_parallel_shard_degree"));
    config.numbers.try_emplace("zero", shards.value_or(-1) == 1 ? 0 : 3);
    if (!settings.on("enable_async_tensor_parallel")) config.numbers.try_emplace("software", 2023);
    // training.compile until 2025, compile.enable since; in Python a CompileConfig of any name.
    const bool compiled =
        settings.on("training.compile") || settings.on("compile.enable") || settings.on("compile_config.enable");
    config.numbers.try_emplace("eager", compiled ? 0 : 1);
    WEFT_TRY(const auto tokens, settings.count(file, "num_tokens_per_microbatch_per_dp_rank"));
    if (tokens && config.numbers.contains("seq") && *tokens >= config.numbers["seq"])
      config.numbers.try_emplace("micro-batch", *tokens / config.numbers["seq"]);
    const std::string recompute = settings.find("activation_checkpoint.call").value_or("");
    if (config.recompute.empty() && recompute.starts_with("Full")) config.recompute = "full";
    if (config.recompute.empty() && recompute.starts_with("Selective")) config.recompute = "selective";
    if (settings.find("converters.call").value_or("").starts_with("Float8")) config.precision = "fp8";
  }
  // The arguments of a training script of someone's own: a batch that is not said to be all ranks' is one rank's.
  if (config.format == "TrainingArguments" && !config.numbers.contains("micro-batch") &&
      !config.numbers.contains("global-batch")) {
    WEFT_TRY(const auto batch, settings.count(file, "batch_size"));
    if (batch && *batch > 0) {
      config.numbers["micro-batch"] = *batch;
      config.assumed.emplace_back("batch_size as the sequences of one rank");
    }
  }
  return {};
}

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
      return bad_input("{}: num_layers_per_virtual_pipeline_stage: {} on {} do not divide {}", file,
                       counted(layers.value_or(0), "layer"), counted(pp, "stage"),
                       counted(config.model->layers, "layer"));
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

// Keys that are left out: those that matter, and those of which nothing is known.
void name_rest(const Settings& settings, Config& config) {
  const auto matches = [](const json& patterns, const std::string& path) {
    const std::string last = path.substr(path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1);
    return std::ranges::any_of(patterns, [&](const json& pattern) {
      const std::string& p = pattern.get_ref<const std::string&>();
      return fnmatch(p.c_str(), path.c_str(), 0) == 0 || fnmatch(p.c_str(), last.c_str(), 0) == 0;
    });
  };
  for (const auto& path : settings.unread()) {
    if (matches(known_keys()["matters"], path)) {
      if (settings.on(path)) config.not_modelled.push_back(path);
    } else if (!matches(known_keys()["harmless"], path)) {
      config.unread.push_back(path);
    }
  }
}

struct Recognised {
  std::string format;
  Settings settings;
};

Result<Recognised> recognised_yaml(std::string_view file, std::string_view text, Config& config) {
  WEFT_TRY(Settings settings, yaml_settings(file, text, config.assumed));
  std::string format = translate(text, settings, config.assumed);
  if (!format.empty()) return Recognised{std::move(format), std::move(settings)};
  if (settings.has("model._target_") || settings.has("step_scheduler.global_batch_size"))
    format = "Automodel";
  else if (settings.has("base_model") && settings.has("micro_batch_size"))
    format = "axolotl";
  else if (settings.has("finetuning_type") || settings.has("cutoff_len"))
    format = "LLaMA-Factory";
  else if (settings.has("distributed_type") || settings.has("num_processes"))
    format = "accelerate";
  else if (settings.has("per_device_train_batch_size"))
    format = "TrainingArguments";
  else if (settings.has("tensor_model_parallel_size") || settings.has("micro_batch_size") || settings.has("num_layers"))
    format = "NeMo";
  return Recognised{std::move(format), std::move(settings)};
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

Result<Recognised> recognised(std::string_view file, std::string_view text, const ConfigHints& hints, Config& config) {
  const json object = json::parse(text, nullptr, false, true);
  if (object.is_object()) {
    WEFT_TRY(Settings settings, json_settings(file, text));
    if (std::string format = translate(text, settings, config.assumed); !format.empty())
      return Recognised{std::move(format), std::move(settings)};
    if (settings.has("per_device_train_batch_size")) return Recognised{"TrainingArguments", std::move(settings)};
    if (!settings.has("train_batch_size") && !settings.has("train_micro_batch_size_per_gpu") &&
        !settings.has("zero_optimization.stage"))
      return bad_input("{}: JSON without train_batch_size or zero_optimization is no file of DeepSpeed", file);
    return Recognised{"DeepSpeed", std::move(settings)};
  }
  if (file.ends_with(".py") || (contains(text, "def ") && contains(text, "import "))) {
    WEFT_TRY(Settings settings, python_settings(file, text, hints.function));
    if (std::string format = translate(text, settings, config.assumed); !format.empty())
      return Recognised{std::move(format), std::move(settings)};
    const bool titan = contains(text, "torchtitan") || settings.has("training.local_batch_size");
    return Recognised{titan ? "torchtitan" : "Python recipe", std::move(settings)};
  }
  if (contains(text, "[parallelism]") || contains(text, "[training]")) {
    WEFT_TRY(Settings settings, toml_settings(file, text));
    return Recognised{"torchtitan", std::move(settings)};
  }
  const bool script = contains(text, "actor_rollout_ref.model.path=") || file.ends_with(".sh") ||
                      file.ends_with(".slurm") || file.ends_with(".sbatch") || text.starts_with("#!");
  const bool arguments = contains(text, "--num-layers") || contains(text, "--tensor-model-parallel-size") ||
                         contains(text, "--per_device_train_batch_size") || contains(text, "--model_name_or_path") ||
                         contains(text, "--micro-batch-size");
  if (!script && !arguments) {
    auto yaml = recognised_yaml(file, text, config);
    const bool named = file.ends_with(".yaml") || file.ends_with(".yml");
    if (yaml ? !yaml->format.empty() : named) return yaml;
  }
  if (script || arguments) {
    Settings settings = shell_settings(std::string(file), text, hints.arguments, config.assumed);
    if (std::string format = translate(text, settings, config.assumed); !format.empty())
      return Recognised{std::move(format), std::move(settings)};
    const bool megatron =
        settings.has("num_layers") || settings.has("tensor_model_parallel_size") || settings.has("micro_batch_size");
    if (!settings.all().empty() && (megatron || settings.has("per_device_train_batch_size") ||
                                    settings.has("model_name_or_path") || settings.has("train_iters") ||
                                    ((settings.has("model") || settings.has("model_name")) &&
                                     (settings.has("batch_size") || settings.has("zero_stage")))))
      return Recognised{megatron ? "Megatron-LM arguments" : "TrainingArguments", std::move(settings)};
  }
  return bad_input(
      "{}: neither arguments of Megatron-LM or of Hugging Face's Trainer nor a file of NeMo, Automodel, torchtitan, "
      "LLaMA-Factory, axolotl, accelerate, DeepSpeed, nanotron, OLMo, GPT-NeoX, torchtune, LitGPT, LLM Foundry, "
      "lingua, "
      "MaxText, Primus, verl, NeMo-RL, OpenRLHF, slime, ROLL, SkyRL, AReaL, VeOmni or XTuner{}{}",
      file, config.assumed.empty() ? "" : "; ", fmt::join(config.assumed, ", "));
}

}  // namespace

Result<Config> parse_config(std::string_view file, std::string_view text, const ConfigHints& hints) {
  Config config;
  WEFT_TRY(const Recognised found, recognised(file, text, hints, config));
  config.format = found.format;
  WEFT_CHECK(read_plan(file, found.settings, config));
  WEFT_CHECK(read_format(file, found.settings, config));
  WEFT_CHECK(read_replicas(file, found.settings, config));
  read_state_types(found.settings, config);
  read_tuning(found.settings, config);
  WEFT_CHECK(read_model(file, found.settings, hints, config));
  name_model(file, found.settings, config);
  name_rest(found.settings, config);
  return config;
}

}  // namespace weft::training
