#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/cost/expert_kernels.h"
#include "plan/schedule/lower/plan.h"

namespace weft::cli {

// What `weft bench dispatch` and its kind were asked about tokens and experts.
struct ExpertsSpec {
  std::string tokens;  // of every rank: "128", or "1,16,128"; empty: some
  std::int64_t hidden = 7168, top_k = 8, experts = 256;
  double imbalance = 1;
  std::string mode = "normal";
  std::int64_t multiprocessors = 20;
  std::string counts = "exchanged";
};
void add_expert_options(CLI::App& sub, ExpertsSpec& spec);

// Errors (bad input): names the option.
Result<std::vector<Bytes>> tokens_of(const ExpertsSpec& spec);
// A dispatch or combine of `tokens` tokens on every rank. `simulated`: groups of tokens stand for them.
// Errors (bad input): names the option.
Result<schedule::Task> task_of(const ExpertsSpec& spec, Collective collective, Rank ranks, Rank ranks_per_node,
                               Bytes tokens, DataType type, bool simulated);
// The machine with the costs of the kernels that carry these. `post`: as --post. Errors (bad input): names the option.
Result<std::shared_ptr<cost::MachineView>> machine_of(const ExpertsSpec& spec, const cost::MachineView& machine,
                                                      Collective collective, Rank ranks, const std::string& post);
// The element type where --dtype is not given: bfloat16 of tokens (dispatch, combine), as engines send them; else
// float.
std::string usual_type(Collective collective);
std::string type_help();  // of --dtype
// "tokens of 7168 elements, each for 8 of 256 experts, once to each rank of them"
std::string words_of(const ExpertsSpec& spec);

}  // namespace weft::cli
