#include "apps/training/config/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace weft::training {
namespace {

// A DeepSpeed file that is only named: its usual names say the stage ("ds_z3_config.json", "zero2.json").
void stage_after_name(const Settings& settings, Config& config) {
  std::optional<std::string> other;
  for (const char* key : {"deepspeed", "deepspeed_config", "dist_config.config_file"})
    if (const auto value = settings.find(key); value && value->find(".json") != std::string::npos) other = value;
  if (!other || config.numbers.contains("zero")) return;
  const std::string name = key_of(other->substr(other->rfind('/') + 1));
  for (int stage = 0; stage <= 3; ++stage)
    for (const char* form : {"z", "zero", "zero_", "stage", "stage_"})
      if (name.find(form + std::to_string(stage)) != std::string::npos) config.numbers.try_emplace("zero", stage);
  config.assumed.push_back(
      config.numbers.contains("zero")
          ? fmt::format("ZeRO {} after the name {}, which is not here", config.numbers["zero"], *other)
          : fmt::format("{} is not here: give it as --config for its stage", *other));
}

void megatron_fsdp(const Settings& settings, Config& config) {
  const std::string strategy = settings.find("data_parallel_sharding_strategy").value_or("no_shard");
  if (settings.on("use_torch_fsdp2")) config.numbers["zero"] = 3;
  if (!settings.on("use_megatron_fsdp") && !settings.on("use_custom_fsdp")) return;
  static constexpr std::string_view kStrategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
  for (std::int64_t stage = 0; stage < std::ssize(kStrategies); ++stage)
    if (strategy == kStrategies[stage]) config.numbers["zero"] = stage;
}

// PyTorch's and accelerate's names and numbers of FSDP's strategies, the Trainer's words, and whether weights are kept
// between the passes.
struct Strategy {
  std::int64_t zero;
  bool hybrid = false;  // shards within a node, replicas over nodes
};
std::optional<Strategy> strategy_of(std::string_view value) {
  static const std::vector<std::pair<std::vector<std::string_view>, Strategy>> kStrategies = {
      {{"full_shard", "full", "1", "true", "always"}, {3}},
      {{"shard_grad_op", "2", "false", "never"}, {2}},
      {{"no_shard", "3"}, {0}},
      {{"hybrid_shard", "4", "hybrid"}, {3, true}},
      {{"hybrid_shard_zero2", "_hybrid_shard_zero2", "5"}, {2, true}}};
  std::string word;
  for (const char c : key_of(value) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
      continue;
    }
    for (const auto& [words, strategy] : kStrategies)
      if (std::ranges::find(words, word) != words.end()) return strategy;
    word.clear();
  }
  return std::nullopt;
}

void read_strategy(const Settings& settings, Config& config) {
  std::optional<Strategy> found;
  for (const char* key :
       {"fsdp_reshard_after_forward", "reshard_after_forward", "fsdp", "fsdp_sharding_strategy", "sharding_strategy"}) {
    const auto value = settings.find(key);
    if (!value) continue;
    const bool words = std::string_view(key) == "fsdp";  // the Trainer's; a number or a switch says no strategy
    if (words && value->find("shard") == std::string::npos) continue;
    if (const auto own = strategy_of(*value)) found = own;
    if (words && value->find("offload") != std::string::npos) config.not_modelled.emplace_back("fsdp: offload");
  }
  if (!found) return;
  config.numbers["zero"] = found->zero;
  config.shard_in_node = found->hybrid;
}

// Replicas that each hold all of the state, and the ranks that share it within each of them.
Status read_degrees(std::string_view file, const Settings& settings, Config& config) {
  std::int64_t shard = 0, copies = 0;
  const std::vector<std::pair<std::vector<const char*>, std::int64_t*>> degrees = {
      {{"dp_shard_size", "fsdp_shard_degree", "dp_shard_degree", "parallelism_config_dp_shard_size",
        "data_parallel_shard_degree"},
       &shard},
      {{"dp_replicate_size", "fsdp_num_replicas", "dp_replicate_degree", "parallelism_config_dp_replicate_size",
        "data_parallel_replicate_degree"},
       &copies}};
  for (const auto& [keys, degree] : degrees)
    for (const char* key : keys) {
      WEFT_TRY(const auto value, settings.count(file, key));
      if (value) *degree = *value;
    }
  if (shard > 1) config.numbers.try_emplace("zero", 3);
  if (shard > 1 && copies > 1) config.numbers.try_emplace("shard", shard);
  if (shard == 1 && copies > 1) config.numbers.try_emplace("zero", 0);
  return {};
}

}  // namespace

Status read_replicas(std::string_view file, const Settings& settings, Config& config) {
  megatron_fsdp(settings, config);
  WEFT_CHECK(read_degrees(file, settings, config));
  const std::string kind = settings.find("distributed_type").value_or("");
  const std::string manager =
      settings.find("distributed._target_").value_or(settings.find("distributed.strategy").value_or(""));
  read_strategy(settings, config);
  if (kind == "FSDP" || settings.on("fsdp") || settings.on("use_fsdp") || settings.has("fsdp_config") ||
      settings.has("fsdp_version") || key_of(manager).find("fsdp") != std::string::npos)
    config.numbers.try_emplace("zero", 3);
  if (kind == "DEEPSPEED" || settings.on("use_deepspeed"))
    config.numbers.try_emplace("zero", 2);  // accelerate's default
  if (kind == "MULTI_GPU" || settings.on("multi_gpu")) config.numbers.try_emplace("zero", 0);
  stage_after_name(settings, config);
  // Megatron's default, and the Trainer's where neither DeepSpeed nor FSDP is named.
  if (config.format == "Megatron-LM arguments" && settings.has("num_layers")) config.numbers.try_emplace("zero", 0);
  const bool trainer =
      config.format == "TrainingArguments" || config.format == "axolotl" || config.format == "LLaMA-Factory";
  if (trainer && !settings.has("deepspeed") && !settings.has("deepspeed_config") &&
      config.numbers.try_emplace("zero", 0).second)
    config.assumed.emplace_back("DDP (ZeRO 0): no file of DeepSpeed, FSDP or accelerate is named");
  return {};
}

}  // namespace weft::training
