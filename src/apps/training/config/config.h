#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/training/model.h"

namespace weft::training {

// What a framework's file says about a run: a model, a plan, or both. Only what the file names is set.
struct Config {
  std::string format;                           // "Megatron-LM arguments", "NeMo", "torchtitan", "DeepSpeed", …
  std::optional<Model> model;                   // where the file has its sizes
  std::string model_name;                       // where it names one of the catalogue
  std::map<std::string, std::int64_t> numbers;  // tp, pp, vp, cp, ep, zero, micro-batch, global-batch, seq, dp
  bool shard_in_node = false;  // FSDP's hybrid strategies: what a replica holds is divided within a node only
  std::optional<std::int64_t> accumulate;  // micro-batches of one rank; the global batch follows from the ranks
  // Empty: the file names none, or none that is modelled.
  std::string recompute, precision, dispatcher, optimizer, allocator, launch;
  std::string tuning;  // how weights are tuned, where not all of them are: "LoRA", "QLoRA", "freeze"; empty: all
  std::vector<std::string> not_modelled;  // keys that change memory or time and are left out
  std::vector<std::string> unread;        // keys that nothing is known of
  std::vector<std::string> assumed;       // what the file leaves to the running job, and what is taken instead
};

// What a user adds to a file.
struct ConfigHints {
  std::string function;                // of a Python file with several configurations
  std::optional<std::int64_t> vocab;   // where the file names a tokenizer only
  std::vector<std::string> arguments;  // of a shell script: $1, $2, …
};

// Reads the arguments of Megatron-LM or of Hugging Face's Trainer (a shell script or a list), YAML of NeMo, Automodel,
// Megatron-Bridge, LLaMA-Factory, axolotl and accelerate, TOML and Python of torchtitan, Python recipes of NeMo 2 and
// Megatron-Bridge, JSON of DeepSpeed and of TrainingArguments. `file`: its path; files that a script sources are read
// beside it. Errors (bad input): names the file and what is none of these, or the key and its value.
Result<Config> parse_config(std::string_view file, std::string_view text, const ConfigHints& hints = {});

}  // namespace weft::training
