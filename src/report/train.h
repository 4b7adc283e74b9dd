#pragma once

#include <nlohmann/json.hpp>
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
  std::string model, machine, card, precision, flops_formula;
  std::int64_t gpus = 0, software = 0;
  std::vector<std::string> not_modelled;
  std::vector<TrainRow> rows;  // the best first
};

// The first row: step time, memory, and the largest loss; what would make it fit.
std::string in_a_sentence(const TrainReport& report);

// weft.train/1, the stable form.
nlohmann::json to_json(const TrainReport& report);

}  // namespace weft::report
