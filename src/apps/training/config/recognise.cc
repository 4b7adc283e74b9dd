#include "apps/training/config/recognise.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "apps/training/config/companions.h"
#include "apps/training/config/formats.h"

namespace weft::training {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// The format whose keys these are; empty: none of them.
std::string format_of(const Settings& settings) {
  if (settings.has("model._target_") || settings.has("step_scheduler.global_batch_size")) return "Automodel";
  if (settings.has("base_model") && settings.has("micro_batch_size")) return "axolotl";
  if (settings.has("finetuning_type") || settings.has("cutoff_len")) return "LLaMA-Factory";
  if (settings.has("per_device_train_batch_size")) return "TrainingArguments";
  if (settings.has("distributed_type") || settings.has("num_processes")) return "accelerate";
  if (settings.has("tensor_model_parallel_size") || settings.has("micro_batch_size") || settings.has("num_layers"))
    return "NeMo";
  return "";
}

// Companions are the files that the settings name.
Result<Recognised> with_companions(std::string_view file, std::string format, Settings settings, Config& config) {
  WEFT_CHECK(read_companions(Beside(std::string(file)), settings, config.assumed));
  return Recognised{std::move(format), std::move(settings)};
}

Result<Recognised> recognised_json(std::string_view file, std::string_view text, Config& config) {
  WEFT_TRY(Settings settings, json_settings(file, text));
  std::string format = translate(text, settings, config.assumed);
  if (format.empty() && settings.has("per_device_train_batch_size")) format = "TrainingArguments";
  if (format.empty() && !settings.has("train_batch_size") && !settings.has("train_micro_batch_size_per_gpu") &&
      !settings.has("zero_optimization.stage"))
    return bad_input("{}: JSON without train_batch_size or zero_optimization is no file of DeepSpeed", file);
  return with_companions(file, format.empty() ? "DeepSpeed" : std::move(format), std::move(settings), config);
}

Result<Recognised> recognised_python(std::string_view file, std::string_view text, const ConfigHints& hints,
                                     Config& config) {
  WEFT_TRY(Settings settings, python_settings(file, text, hints.function));
  if (std::string format = translate(text, settings, config.assumed); !format.empty())
    return Recognised{std::move(format), std::move(settings)};
  const bool titan = contains(text, "torchtitan") || settings.has("training.local_batch_size");
  return Recognised{titan ? "torchtitan" : "Python recipe", std::move(settings)};
}

// An empty format: TOML of something else.
Result<Recognised> recognised_toml(std::string_view file, std::string_view text, Config& config) {
  WEFT_TRY(Settings settings, toml_settings(file, text));
  std::string format = translate(text, settings, config.assumed);
  if (format.empty() && (contains(text, "[parallelism]") || contains(text, "[training]"))) format = "torchtitan";
  return Recognised{std::move(format), std::move(settings)};
}

Result<Recognised> recognised_yaml(std::string_view file, std::string_view text, Config& config) {
  WEFT_TRY(Settings settings, yaml_settings(file, text, config.assumed));
  std::string format = translate(text, settings, config.assumed);
  if (format.empty()) format = format_of(settings);
  return with_companions(file, std::move(format), std::move(settings), config);
}

// An empty format: no arguments of training.
Result<Recognised> recognised_script(std::string_view file, std::string_view text, const ConfigHints& hints,
                                     Config& config) {
  WEFT_TRY(Settings settings, shell_settings(std::string(file), text, hints.arguments, config.assumed));
  std::string format = translate(text, settings, config.assumed);
  const bool megatron = settings.has("num_layers") || settings.has("tensor_model_parallel_size") ||
                        settings.has("train_iters") || settings.has("micro_batch_size");
  const bool sized = settings.has("batch_size") || settings.has("zero_stage");
  if (format.empty() && (settings.has("base_model") || settings.has("finetuning_type"))) format = format_of(settings);
  if (format.empty() && megatron) format = "Megatron-LM arguments";
  if (format.empty() &&
      (settings.has("per_device_train_batch_size") || settings.has("model_name_or_path") ||
       settings.has("launcher.config_file") || ((settings.has("model") || settings.has("model_name")) && sized)))
    format = "TrainingArguments";
  return Recognised{std::move(format), std::move(settings)};
}

bool is_script(std::string_view file, std::string_view text) {
  return file.ends_with(".sh") || file.ends_with(".slurm") || file.ends_with(".sbatch") || text.starts_with("#!") ||
         contains(text, "actor_rollout_ref.model.path=");
}
bool has_arguments(std::string_view text) {
  for (const char* mark : {"--num-layers", "--tensor-model-parallel-size", "--per_device_train_batch_size",
                           "--model_name_or_path", "--micro-batch-size"})
    if (contains(text, mark)) return true;
  return false;
}
bool is_python(std::string_view file, std::string_view text) {
  return file.ends_with(".py") || (contains(text, "def ") && contains(text, "import "));
}

}  // namespace

Result<Recognised> recognised(std::string_view file, std::string_view text, const ConfigHints& hints, Config& config) {
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const bool named_yaml = file.ends_with(".yaml") || file.ends_with(".yml");
  if (file.ends_with(".json") || (text.substr(first).starts_with('{') && !named_yaml))
    return recognised_json(file, text, config);
  const bool script = is_script(file, text);
  if (!script && is_python(file, text)) return recognised_python(file, text, hints, config);
  if (!script && (file.ends_with(".toml") || contains(text, "[parallelism]") || contains(text, "[training]"))) {
    auto toml = recognised_toml(file, text, config);
    if (!toml || !toml->format.empty()) return toml;
  } else if (script || has_arguments(text)) {
    auto shell = recognised_script(file, text, hints, config);
    if (!shell || !shell->format.empty()) return shell;
  } else {
    auto yaml = recognised_yaml(file, text, config);
    if (yaml ? !yaml->format.empty() : named_yaml) return yaml;
  }
  return bad_input(
      "{}: neither arguments of Megatron-LM or of Hugging Face's Trainer nor a file of NeMo, Automodel, torchtitan, "
      "LLaMA-Factory, axolotl, accelerate, DeepSpeed, nanotron, OLMo, GPT-NeoX, torchtune, LitGPT, LLM Foundry, "
      "lingua, "
      "MaxText, Primus, verl, NeMo-RL, OpenRLHF, slime, ROLL, SkyRL, AReaL, VeOmni or XTuner{}{}",
      file, config.assumed.empty() ? "" : "; ", fmt::join(config.assumed, ", "));
}

}  // namespace weft::training
