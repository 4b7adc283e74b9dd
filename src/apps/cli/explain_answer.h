#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/common.h"
#include "apps/cli/experts.h"
#include "apps/cli/explain_nccl.h"
#include "base/report/bench.h"
#include "model/predict/predict.h"
#include "plan/cost/limit.h"
#include "plan/tune/tune.h"

namespace weft::cli {

// What `weft explain` was asked, as far as its answer repeats it.
struct ExplainedQuestion {
  std::string collective;
  std::vector<std::string> faults = {};
  ExpertsSpec experts = {};
};

// The answer about one size.
struct Explained {
  std::vector<tune::Candidate> all;
  std::optional<predict::Answer> answer;  // on modelled machines: the one that is chosen, simulated
  std::optional<NcclView> nccl;
  cost::Limit limit;
  std::optional<report::Measured> measured;  // beside the simulated time
};

nlohmann::json to_json(const ExplainedQuestion& asked, const Machine& machine, const schedule::Task& task,
                       const Explained& e);
void print(const ExplainedQuestion& asked, const Machine& machine, const schedule::Task& task, const Explained& e);

}  // namespace weft::cli
