#include "apps/training/config/config.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/training/config/known_keys.h"
#include "apps/training/config/model_sizes.h"
#include "apps/training/config/recognise.h"
#include "apps/training/config/replicas.h"
#include "apps/training/config/settings.h"
#include "apps/training/config/tuning.h"

namespace weft::training {
namespace {

using nlohmann::json;

// A number of the plan, and what formats call it. A name with a section stands before the same name without.
struct Names {
  const char* field;
  std::vector<const char*> keys;
};
const std::vector<Names>& plan_names() {
  static const std::vector<Names> names = {
      {"tp",
       {"tensor_model_parallel_size", "tensor_parallel_degree", "tensor_parallel.autotp_size", "tp_size",
        "tensor_parallel_size", "tensor_parallelism", "parallelism_config_tp_size", "megatron_lm_tp_degree"}},
      {"pp",
       {"pipeline_model_parallel_size", "pipeline_parallel_degree", "pp_size", "pipeline_parallelism",
        "megatron_lm_pp_degree"}},
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
        "max_seq_length", "max_length", "block_size", "model_max_length", "max_seq_len", "per_device_max_tokens"}},
  };
  return names;
}
Status read_plan(std::string_view file, const Settings& settings, Config& config) {
  for (const Names& names : plan_names())
    for (const char* key : names.keys) {
      WEFT_TRY(const auto value, settings.count(file, key));
      const std::string_view field = names.field;
      const std::int64_t least = field == "zero" ? 0 : 1;
      // Other counts may say 0 for "not at all", and -1 is "whatever is left".
      if (value && (*value == 0 || *value < -1) &&
          (field == "micro-batch" || field == "global-batch" || field == "seq"))
        return bad_input("{}: {}: {} is no count of at least 1", file, key, *value);
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
  if (settings.on("megatron_lm_use_distributed_optimizer")) config.numbers["zero"] = 1;
  for (const char* key : {"recompute_granularity", "activations_checkpoint_granularity", "activation_checkpoint.mode",
                          "activation_checkpointing.mode"})
    if (const auto value = settings.find(key)) config.recompute = *value;
  if (settings.on("recompute_activations") || settings.on("megatron_lm_recompute_activations"))
    config.recompute = "selective";
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

// Variables of the environment that a script sets.
void read_environment(const Settings& settings, Config& config) {
  for (const char* key : {"pytorch_cuda_alloc_conf", "pytorch_alloc_conf"})
    if (const auto value = settings.find(key))
      config.allocator = value->find("expandable_segments:True") == std::string::npos ? "default" : "expandable";
  if (settings.on("cuda_launch_blocking")) config.launch = "blocking";
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

}  // namespace

Result<Config> parse_config(std::string_view file, std::string_view text, const ConfigHints& hints) {
  Config config;
  WEFT_TRY(const Recognised found, recognised(file, text, hints, config));
  config.format = found.format;
  WEFT_CHECK(read_plan(file, found.settings, config));
  WEFT_CHECK(read_format(file, found.settings, config));
  read_environment(found.settings, config);
  WEFT_CHECK(read_replicas(file, found.settings, config));
  read_state_types(found.settings, config);
  read_tuning(found.settings, config);
  WEFT_CHECK(read_model(file, found.settings, hints, config));
  name_model(file, found.settings, config);
  name_rest(found.settings, config);
  const auto& undecided = found.settings.undecided();
  config.assumed.insert(config.assumed.end(), undecided.begin(), undecided.end());
  return config;
}

}  // namespace weft::training
