#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "apps/training/answer.h"
#include "apps/training/model.h"
#include "base/result.h"
#include "plan/cost/machine_view.h"

namespace weft::cli {

// The file of --config: what it says beside the words of the command line.
struct FromConfig {
  std::optional<training::Model> model;    // where it has the sizes
  std::optional<std::int64_t> accumulate;  // micro-batches of one rank, where the file gives them instead of a global
                                           // batch; 0 where it says neither
  bool shard_in_node = false;              // see training::Config
  std::string tuning;                      // the same
};

// Takes from a framework's file what the command line does not say. `config`: FILE, "FILE ARGUMENTS" of a script, or
// FILE:FUNCTION of a Python file. `vocab`: 0 where it is not given. Errors (bad input): see training::parse_config; a
// file that names no model where the command line names none.
Result<FromConfig> read_train_config(const std::string& config, std::int64_t vocab,
                                     const std::function<bool(const char* option)>& given, bool quiet,
                                     training::Words& words);

// What follows from the file once the machine is known: the global batch, replicas that share state within a node.
void complete(const FromConfig& file, const cost::MachineView& machine, training::Words& words);

// Adds to the model's name how its weights are tuned, where not all of them are.
void name_tuning(const FromConfig& file, training::Model& model);

}  // namespace weft::cli
