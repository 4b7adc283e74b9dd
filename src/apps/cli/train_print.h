#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/training/answer.h"
#include "apps/training/best.h"
#include "apps/training/config/config.h"
#include "base/report/train.h"

namespace weft::cli {

// The output of `weft train`.

struct BestPlans {
  training::Plans plans;
  training::Card card;
  report::TrainReport report;  // rows: the plans that fit, ranked, then the others
};

void print_step(const report::TrainReport& report);
// `simulated`: are the first ones? Requires: a plan that fits.
void print_best(const BestPlans& found, std::int64_t shown, bool simulated);
// What was taken from a framework's file and what was not, on stderr.
void print_config(const std::string& file, const training::Config& config);
// Chrome's trace format: a lane per stage for passes, another for the communication of gradients.
nlohmann::json timeline_of(const training::Step& step);

}  // namespace weft::cli
