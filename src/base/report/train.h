#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::report {

// What a GPU sends in a step for one kind of parallelism.
struct TrainSends {
  std::string of;  // "tensor", "context", "expert", "pipeline" (exposed in the bubble), "data"
  double calls = 0, bytes = 0, seconds = 0, exposed = 0;
};

// A training step on a machine. Times in seconds, memory in bytes, rates per GPU.
struct TrainRow {
  std::string plan;  // in words
  double seconds = 0, tokens_per_gpu = 0, tflops = 0, mfu = 0;
  std::vector<std::pair<std::string, double>> parts;   // s; sum: the step
  std::vector<TrainSends> sends;                       // as the mean over all stages
  std::vector<std::pair<std::string, double>> memory;  // bytes, of the stage that needs most
  std::vector<double> stage_memory;                    // bytes, by stage
  double capacity = 0;                                 // bytes
  bool fits = true;
  std::string fit;     // "certain", "tight" or "no": published memory lies 15 % around the model's
  std::string limit;   // what takes most of the step besides GEMMs and attention
  std::string remedy;  // what would make it fit
  std::string reason;  // of a plan that lost
};

// A whole run, as its owner counts. Unset: not asked.
struct TrainRun {
  double tokens = 0;              // to train on
  double price = 0;               // per GPU-hour, in the asker's currency
  double failures = 0;            // per 1000 node-days, that end the job
  double checkpoint_s = 0;        // the time that training stands still for one
  double checkpoint_every_s = 0;  // 0: the interval that loses least
  double restart_s = 600;         // from a failure to the first new step where a spare node is ready: detect, load
  double repair_s = 86400;        // until a failed node is back
  std::int64_t spares = 0;        // nodes that stand ready, and are paid
};
// What it takes.
struct TrainBudget {
  double interval_s = 0;   // between checkpoints
  double mttf_s = 0;       // mean time to a failure of the job; 0: never
  double checkpoints = 0;  // shares of the time: writing checkpoints,
  double lost = 0;         // work that is done again,
  double restarts = 0;     // detecting and loading,
  double waiting = 0;      // for a node, while more have failed than there are spares
  double goodput = 1;      // share of the time in which new steps are made
  double days = 0;         // at that goodput
  double gpu_hours = 0;    // of the job's GPUs and the spares'
  double money = 0;
};

struct TrainReport {
  struct WhatIf {
    std::string what;
    double seconds = 0, change = 0;  // change: of the step, +0.04 is 4 % longer
    std::string refused;             // why there is no answer
  };
  std::string model, machine, card, precision, flops_formula;
  std::int64_t gpus = 0, software = 0;
  std::string fitted;  // what the rates of computing were fitted to; empty: as shipped
  std::vector<std::string> not_modelled;
  std::vector<std::string> uncounted_memory;  // what the run may hold beside the memory that is counted
  std::vector<std::string> faults;
  std::optional<double> healthy_seconds;  // a step without the faults
  TrainRun run;                           // as asked
  std::optional<TrainBudget> budget;      // of the run, if one was asked for
  std::vector<WhatIf> what_if;
  // The largest micro-batch and sequence that fit for certain, and tightly; empty: not asked.
  std::vector<std::pair<std::string, std::int64_t>> largest;
  std::vector<TrainRow> rows;  // the best first
};

// " (does not fit)", " (fits tightly)", or nothing.
std::string_view fit_in_words(const TrainRow& row);
// The first row: step time, memory, and what takes most besides GEMMs and attention; what would make it fit.
std::string in_a_sentence(const TrainReport& report);

// weft.train/1, the stable form.
nlohmann::json to_json(const TrainReport& report);

}  // namespace weft::report
