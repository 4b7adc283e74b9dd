#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workload/training/model.h"

namespace weft::training {

// What a framework's file says about a run: a model, a plan, or both. Only what the file names is set.
struct Config {
  std::string format;                           // "Megatron-LM arguments", "NeMo", "torchtitan", "DeepSpeed"
  std::optional<Model> model;                   // where the file has its sizes
  std::string model_name;                       // where it names one of the catalogue
  std::map<std::string, std::int64_t> numbers;  // tp, pp, vp, cp, ep, zero, micro-batch, global-batch, seq, dp
  std::string recompute, precision;
  std::vector<std::string> not_modelled;  // keys that change the time of a step and are left out
};

// Reads the arguments of Megatron-LM (a shell script or a list, with variables that the file itself sets), YAML of NeMo
// or Megatron-Bridge, TOML of torchtitan, JSON of DeepSpeed. Errors (bad input): names the file and what is none of
// these, or the key and its value.
Result<Config> parse_config(std::string_view file, std::string_view text);

}  // namespace weft::training
