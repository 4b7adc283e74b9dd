#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::report {

// A training step on a machine. Times in seconds, memory in bytes, rates per GPU.
struct TrainRow {
  std::string plan;  // in words
  double seconds = 0, tokens_per_gpu = 0, tflops = 0, mfu = 0;
  std::vector<std::pair<std::string, double>> parts;   // s; sum: the step
  std::vector<std::pair<std::string, double>> memory;  // bytes, of the stage that needs most
  std::vector<double> stage_memory;                    // bytes, by stage
  double capacity = 0;                                 // bytes
  bool fits = true;
  std::string limit;   // the largest loss
  std::string remedy;  // what would make it fit
  std::string reason;  // of a plan that lost
};

struct TrainReport {
  // A whole run; see training::Budget. Shares of the time, hours of GPUs and spares.
  struct Budget {
    double tokens = 0, price = 0, failures = 0, checkpoint_s = 0, restart_s = 0, repair_s = 0;
    std::int64_t spares = 0;
    double interval_s = 0, mttf_s = 0, checkpoints = 0, lost = 0, restarts = 0, waiting = 0, goodput = 1, days = 0,
           gpu_hours = 0, money = 0;
  };
  struct WhatIf {
    std::string what;
    double seconds = 0, change = 0;  // change: of the step, +0.04 is 4 % longer
    std::string refused;             // why there is no answer
  };
  std::string model, machine, card, precision, flops_formula;
  std::int64_t gpus = 0, software = 0;
  std::vector<std::string> not_modelled;
  std::vector<std::string> faults;
  std::optional<double> healthy_seconds;  // a step without the faults
  std::optional<Budget> budget;
  std::vector<WhatIf> what_if;
  std::vector<TrainRow> rows;  // the best first
};

// The first row: step time, memory, and the largest loss; what would make it fit.
std::string in_a_sentence(const TrainReport& report);

// weft.train/1, the stable form.
nlohmann::json to_json(const TrainReport& report);

}  // namespace weft::report
