#include "apps/training/config/tuning.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace weft::training {

void read_state_types(const Settings& settings, Config& config) {
  const bool half_masters =
      settings.on("bf16_master_weights_and_grads") || settings.on("fp16_master_weights_and_grads");
  const bool half_moments = settings.on("bf16_optimizer_states");
  if (half_masters || settings.on("grad_reduce_in_bf16")) config.numbers.try_emplace("gradient-bytes", 2);
  if (half_masters || half_moments)
    config.numbers.try_emplace("optimizer-bytes", (half_masters ? 2 : 4) + (half_moments ? 4 : 8));
  if (settings.find("megatron_fsdp_main_grads_dtype").value_or("").find("16") != std::string::npos)
    config.numbers.try_emplace("gradient-bytes", 2);
  const bool aware = settings.on("use_precision_aware_optimizer");
  if (!aware) {  // then its types have no effect
    for (const char* key : {"main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"})
      settings.find(key);
    return;
  }
  const auto bytes = [&](const char* key) {
    const std::string type = settings.find(key).value_or("fp32");
    return type.find("8") != std::string::npos ? 1 : type.find("16") != std::string::npos ? 2 : 4;
  };
  config.numbers.try_emplace("optimizer-bytes",
                             bytes("main_params_dtype") + bytes("exp_avg_dtype") + bytes("exp_avg_sq_dtype"));
  config.numbers.try_emplace("gradient-bytes", bytes("main_grads_dtype"));
}

// "adamw_torch_fused", torch.optim.AdamW and Megatron's adam are Adam with moments of 4 bytes: nothing is left out.
void read_optimizer(const Settings& settings, Config& config) {
  std::string name;
  for (const char* key :
       {"optimizer", "optim", "optimizer._target_", "optimizer.name", "optimizer.type", "optimizer.call", "optim.name"})
    for (const auto& [path, value] : settings.all())
      if (name.empty() && (path == key || path.ends_with("." + std::string(key)))) name = key_of(value);
  if (name.find("muon") != std::string::npos || settings.on("use_muon")) config.optimizer = "muon";
  static constexpr std::string_view kOthers[] = {"8bit", "4bit", "mini", "cpu", "paged", "apex", "anyprecision"};
  const bool plain = name.find("adam") != std::string::npos &&
                     std::ranges::none_of(kOthers, [&](auto word) { return name.find(word) != std::string::npos; });
  if (plain || !config.optimizer.empty())
    for (const char* key : {"optimizer", "optim", "optimizer._target_"}) settings.find(key);
}

// How tokens reach their experts. Megatron's dispatcher "flex" has a backend; Automodel names it alone.
void read_dispatcher(const Settings& settings, Config& config) {
  const std::string type = settings.find("moe_token_dispatcher_type").value_or(""),
                    backend = settings.find("moe_flex_dispatcher_backend").value_or("deepep"),
                    own = settings.find("backend.dispatcher").value_or("");
  if (settings.on("moe_enable_deepep") || settings.on("enable_deepep")) config.dispatcher = "deepep";
  for (const std::string& name : {type == "flex" ? backend : "", own})
    if (name == "deepep" || name == "hybridep") config.dispatcher = name;
  if (type == "allgather") config.not_modelled.emplace_back("moe_token_dispatcher_type");
}

void read_tuning(const Settings& settings, Config& config) {
  std::string method = key_of(settings.find("finetuning_type").value_or(settings.find("adapter").value_or("")));
  if (method.empty() && settings.on("use_peft")) method = "lora";
  if (method.empty() && key_of(settings.find("train_type").value_or("")) == "lora") method = "lora";
  if (method.empty())
    for (const char* key : {"lora_rank", "lora_r", "peft.dim", "lora_dim"})
      if (settings.on(key)) method = "lora";
  if (method == "lora" && (settings.on("load_in_4bit") || settings.on("quantization_bit"))) method = "qlora";
  if (config.format == "LLaMA-Factory" && method.empty()) method = "lora";  // its default
  read_optimizer(settings, config);
  read_dispatcher(settings, config);
  if (method == "sft" || method == "pretrain") method = "full";  // Megatron-Bridge's modes
  if (config.format == "Megatron-Bridge overrides" && (method == "lora" || method == "dora"))
    config.numbers.try_emplace("lora", 32);  // its default
  if (!method.empty() && method != "full" && method != "none" && method != "false")
    config.tuning = method == "lora" ? "LoRA" : method == "qlora" ? "QLoRA" : method;
  if (config.tuning.ends_with("LoRA") && config.numbers.try_emplace("lora", 8).second)
    config.assumed.emplace_back("adapters of rank 8, the default of PEFT and LLaMA-Factory");
  if (config.format == "LLaMA-Factory" && config.recompute.empty() && !settings.on("disable_gradient_checkpointing")) {
    config.recompute = "full";
    config.assumed.emplace_back("recomputing, LLaMA-Factory's default (disable_gradient_checkpointing turns it off)");
  }
  const std::string mixed = settings.find("mixed_precision").value_or("");
  const bool half = settings.on("fp16") || settings.on("fp16.enabled") || mixed == "fp16";
  if (half && config.precision == "bf16" && !settings.on("bf16"))
    config.assumed.emplace_back(
        "fp16 as bf16: matrices have the same rate and size, the scaling of the loss costs nothing");
  if (settings.has("compiled")) config.numbers.try_emplace("eager", settings.on("compiled") ? 0 : 1);
  // Preference training: LLaMA-Factory's stage, ms-swift's type, TRL's and open-instruct's own arguments.
  const bool pairs = std::ranges::any_of(settings.all(), [](const auto& one) {
    const auto& [path, value] = one;
    return (path == "stage" && (value == "dpo" || value == "kto" || value == "ppo")) || path == "rlhf_type" ||
           path == "max_prompt_length" || path == "rl" || path.starts_with("dpo_") || path == "pref_loss";
  });
  if (pairs)
    config.assumed.emplace_back(
        "of preference training one answer of each pair: the second and the reference model's pass are left out");
  for (const char* key : {"num_processes", "num_machines", "data_parallel_size"})
    if (const auto value = settings.find(key))
      config.assumed.push_back(
          fmt::format("{} {} is not taken: the machine of --on says how many GPUs there are", key, shown(*value)));
}

}  // namespace weft::training
