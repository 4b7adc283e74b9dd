#include "workload/training/config.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.h"

namespace weft::training {
namespace {

using nlohmann::json;
using Values = std::map<std::string, std::string>;  // a key without its dashes, '-' as '_'; a flag is "true"

std::string key_of(std::string key) {
  while (key.starts_with('-')) key.erase(0, 1);
  std::ranges::replace(key, '-', '_');
  std::ranges::transform(key, key.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return key;
}

std::string bare(std::string_view value) {
  const auto outer = [](char c) {
    return std::isspace(static_cast<unsigned char>(c)) != 0 || c == '"' || c == '\'' || c == ',';
  };
  while (!value.empty() && outer(value.front())) value.remove_prefix(1);
  while (!value.empty() && outer(value.back())) value.remove_suffix(1);
  return std::string(value);
}

std::string without_remark(const std::string& line) {
  const std::size_t at = line.find('#');
  return at == std::string::npos || (at > 0 && line[at - 1] == '$') ? line : line.substr(0, at);
}

// "$TP", "${TP}" and "${TP:-8}", where the file may have a line TP=8.
std::string expanded(std::string word, const Values& variables) {
  if (!word.starts_with('$')) return word;
  std::string name = word.substr(1);
  if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
  std::string otherwise = word;
  if (const std::size_t colon = name.find(":-"); colon != std::string::npos) {
    otherwise = name.substr(colon + 2);
    name.resize(colon);
  }
  const auto found = variables.find(name);
  return found == variables.end() ? otherwise : found->second;
}

Values arguments_of(std::string_view text) {
  Values variables, values;
  std::istringstream lines{std::string(text)};
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    line = without_remark(line);
    const std::string start = bare(line.starts_with("export ") ? line.substr(7) : line);
    const std::size_t equals = start.find('=');
    if (equals != std::string::npos && equals > 0 && start.find('-') > equals && start.find(' ') == std::string::npos)
      variables[start.substr(0, equals)] = expanded(bare(start.substr(equals + 1)), variables);
    all += line + ' ';
  }
  for (char& c : all)
    if (c == '\\' || c == '(' || c == ')') c = ' ';
  std::istringstream words{all};
  std::string key;
  for (std::string word; words >> word;) {
    word = bare(word);
    if (word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      key = key_of(word.substr(0, equals));
      values[key] = equals == std::string::npos ? "true" : expanded(bare(word.substr(equals + 1)), variables);
    } else if (!key.empty()) {
      values[key] = expanded(word, variables);
      key.clear();
    }
  }
  return values;
}

// Lines "key: value" and overrides "a.b.key=value"; keys stand under their last name.
Values yaml_of(std::string_view text) {
  Values values;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    line = without_remark(line);
    const std::size_t at = line.find_first_of(":=");
    if (at == std::string::npos) continue;
    std::string key = bare(line.substr(0, at));
    while (key.starts_with("- ") || key.starts_with('+')) key.erase(0, key.starts_with('+') ? 1 : 2);
    if (const std::size_t dot = key.rfind('.'); dot != std::string::npos) key.erase(0, dot + 1);
    const std::string value = bare(line.substr(at + 1));
    if (!value.empty() && value != "null" && value != "None" && value != "~") values.try_emplace(key_of(key), value);
  }
  return values;
}

// Keys stand under their section: "parallelism.tensor_parallel_degree".
Values toml_of(std::string_view text) {
  Values values;
  std::istringstream lines{std::string(text)};
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    line = bare(without_remark(line));
    if (line.starts_with('[') && line.ends_with(']')) {
      section = key_of(line.substr(1, line.size() - 2)) + ".";
    } else if (const std::size_t at = line.find('='); at != std::string::npos) {
      values[section + key_of(bare(line.substr(0, at)))] = bare(line.substr(at + 1));
    }
  }
  return values;
}

void flatten(const json& object, const std::string& prefix, Values& values) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      flatten(value, prefix + key_of(key) + ".", values);
    else
      values[prefix + key_of(key)] = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

// A format: how to recognise it, and what it calls things.
struct Names {
  const char* field;
  std::vector<const char*> keys;
};
const std::vector<Names>& plan_names() {
  static const std::vector<Names> names = {
      {"tp", {"tensor_model_parallel_size", "parallelism.tensor_parallel_degree", "tensor_parallel.autotp_size"}},
      {"pp", {"pipeline_model_parallel_size", "parallelism.pipeline_parallel_degree"}},
      {"vp", {"virtual_pipeline_model_parallel_size"}},
      {"cp", {"context_parallel_size", "parallelism.context_parallel_degree"}},
      {"ep", {"expert_model_parallel_size", "parallelism.expert_parallel_degree"}},
      {"zero", {"zero_optimization.stage"}},
      {"micro-batch", {"micro_batch_size", "train_micro_batch_size_per_gpu", "training.local_batch_size"}},
      {"global-batch", {"global_batch_size", "train_batch_size", "training.global_batch_size"}},
      {"seq", {"seq_length", "encoder_seq_length", "training.seq_len"}},
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
    {"max_position_embeddings", "max_position_embeddings"},
    {"num_experts", "num_experts"},
    {"num_moe_experts", "num_experts"},
    {"moe_router_topk", "num_experts_per_tok"},
    {"moe_ffn_hidden_size", "moe_intermediate_size"},
    {"moe_shared_expert_intermediate_size", "shared_expert_intermediate_size"},
    {"q_lora_rank", "q_lora_rank"},
    {"kv_lora_rank", "kv_lora_rank"},
    {"qk_head_dim", "qk_nope_head_dim"},
    {"qk_pos_emb_head_dim", "qk_rope_head_dim"},
    {"v_head_dim", "v_head_dim"},
};
constexpr const char* kLeftOut[] = {"mtp_num_layers",
                                    "window_size",
                                    "tp_comm_overlap",
                                    "moe_expert_capacity_factor",
                                    "optimizer_cpu_offload",
                                    "cpu_offloading",
                                    "zero_optimization.offload_optimizer.device",
                                    "zero_optimization.offload_param.device",
                                    "zero_optimization.zero_quantized_weights",
                                    "zero_optimization.zero_quantized_gradients",
                                    "zero_optimization.zero_hpz_partition_size",
                                    "zero_optimization.reduce_bucket_size",
                                    "communication_data_type",
                                    "sparse_attention.mode",
                                    "parallelism.enable_async_tensor_parallel",
                                    "parallelism.data_parallel_replicate_degree",
                                    "compile.enable"};

bool on(const Values& values, const char* key) {
  const auto at = values.find(key);
  return at != values.end() && at->second != "false" && at->second != "False" && at->second != "0" &&
         at->second != "none" && at->second != "None";
}

Result<std::optional<std::int64_t>> number(std::string_view file, const Values& values, const char* key) {
  const auto at = values.find(key);
  if (at == values.end() || at->second == "auto") return std::nullopt;
  const auto value = parse_integer(key, at->second, -1, std::int64_t{1} << 40);
  if (!value) return bad_input("{}: {}: {} is no count", file, key, shown(at->second));
  return *value;
}

Status read_plan(std::string_view file, const Values& values, Config& config) {
  for (const Names& names : plan_names())
    for (const char* key : names.keys) {
      WEFT_TRY(const auto value, number(file, values, key));
      if (value && *value >= 0) config.numbers.try_emplace(names.field, *value);
    }
  if (on(values, "use_distributed_optimizer") || on(values, "distributed_optimizer"))
    config.numbers.try_emplace("zero", 1);
  else if (values.contains("num_layers") && values.contains("tensor_model_parallel_size"))
    config.numbers.try_emplace("zero", 0);  // Megatron's default: every replica holds the optimizer's state
  if (config.format == "torchtitan") {
    WEFT_TRY(const auto shards, number(file, values, "parallelism.data_parallel_shard_degree"));
    config.numbers.try_emplace("zero", shards.value_or(-1) == 1 ? 0 : 3);
    if (!on(values, "parallelism.enable_async_tensor_parallel")) config.numbers.try_emplace("software", 2023);
    // Both keys were used: training.compile until 2025, compile.enable since.
    config.numbers.try_emplace("eager", on(values, "training.compile") || on(values, "compile.enable") ? 0 : 1);
  }
  for (const char* key : {"recompute_granularity", "activations_checkpoint_granularity", "activation_checkpoint.mode"})
    if (const auto at = values.find(key); at != values.end()) config.recompute = at->second;
  if (on(values, "recompute_activations")) config.recompute = "selective";
  if (!config.recompute.empty() && config.recompute != "full" && config.recompute != "none")
    config.recompute = "selective";
  if (on(values, "fp8_format") || on(values, "fp8"))
    config.precision = "fp8";
  else if (on(values, "bf16") || on(values, "fp16") || on(values, "bf16.enabled") || on(values, "fp16.enabled"))
    config.precision = "bf16";
  return {};
}

Status read_model(std::string_view file, const Values& values, Config& config) {
  if (!values.contains("num_layers") || !values.contains("hidden_size")) return {};
  json sizes{{"name", std::string(file.substr(file.rfind('/') + 1))}};
  for (const auto& [theirs, ours] : kModelNames) {
    WEFT_TRY(const auto value, number(file, values, theirs));
    if (value && !sizes.contains(ours)) sizes[ours] = *value;
  }
  // NeMo names the activation: swiglu, fast-swiglu, geglu, reglu are gated, gelu and relu are not.
  const auto activation = values.find("activation");
  const bool gated = on(values, "swiglu") || on(values, "gated_linear_unit") ||
                     (activation != values.end() && activation->second.ends_with("glu"));
  sizes["gated_mlp"] = gated;
  // Without --ffn-hidden-size Megatron takes 4 times the hidden size, of gated units two thirds of that.
  if (!sizes.contains("intermediate_size") && sizes.contains("hidden_size")) {
    const auto hidden = sizes["hidden_size"].get<std::int64_t>();
    sizes["intermediate_size"] = gated ? (4 * hidden * 2 / 3) / 64 * 64 : 4 * hidden;
  }
  if (!on(values, "multi_latent_attention")) sizes.erase("kv_lora_rank");
  sizes["tie_word_embeddings"] =
      !on(values, "untie_embeddings_and_output_weights") &&
      !(values.contains("share_embeddings_and_output_weights") && !on(values, "share_embeddings_and_output_weights"));
  if (!sizes.contains("max_position_embeddings") && config.numbers.contains("seq"))
    sizes["max_position_embeddings"] = config.numbers["seq"];
  WEFT_TRY(config.model, parse_model(file, sizes.dump()));
  if (values.contains("num_layers_per_virtual_pipeline_stage")) {
    // Layers, not stages.
    WEFT_TRY(const auto layers, number(file, values, "num_layers_per_virtual_pipeline_stage"));
    const std::int64_t pp = config.numbers.contains("pp") ? config.numbers["pp"] : 1;
    if (layers.value_or(0) < 1 || config.model->layers % (pp * *layers) != 0)
      return bad_input("{}: num_layers_per_virtual_pipeline_stage: {} layers on {} stages do not divide {} layers",
                       file, layers.value_or(0), pp, config.model->layers);
    config.numbers["vp"] = config.model->layers / (pp * *layers);
  }
  return {};
}

}  // namespace

Result<Config> parse_config(std::string_view file, std::string_view text) {
  Config config;
  Values values;
  const json object = json::parse(text, nullptr, false);
  if (object.is_object()) {
    flatten(object, "", values);
    if (!values.contains("train_batch_size") && !values.contains("train_micro_batch_size_per_gpu") &&
        !values.contains("zero_optimization.stage"))
      return bad_input("{}: JSON without train_batch_size or zero_optimization is no file of DeepSpeed", file);
    config.format = "DeepSpeed";
  } else if (text.find("--num-layers") != std::string_view::npos ||
             text.find("--tensor-model-parallel-size") != std::string_view::npos) {
    values = arguments_of(text);
    config.format = "Megatron-LM arguments";
  } else if (text.find("[parallelism]") != std::string_view::npos ||
             text.find("[training]") != std::string_view::npos) {
    values = toml_of(text);
    config.format = "torchtitan";
    const std::string flavor = values.contains("model.flavor") ? key_of(values["model.flavor"]) : "";
    if (values.contains("model.name") && !flavor.empty()) config.model_name = values["model.name"] + "-" + flavor;
  } else if (text.find("tensor_model_parallel_size") != std::string_view::npos ||
             text.find("micro_batch_size") != std::string_view::npos) {
    values = yaml_of(text);
    config.format = "NeMo";
  } else {
    return bad_input("{}: neither arguments of Megatron-LM nor a file of NeMo, torchtitan or DeepSpeed", file);
  }
  WEFT_CHECK(read_plan(file, values, config));
  WEFT_CHECK(read_model(file, values, config));
  for (const char* key : kLeftOut)
    if (on(values, key)) config.not_modelled.emplace_back(key);
  return config;
}

}  // namespace weft::training
