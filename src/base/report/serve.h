#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::report {

// Milliseconds.
struct ServeSpread {
  double mean = 0, median = 0, p90 = 0, p99 = 0;
};

// A model under one plan and load. Times in milliseconds, memory in bytes, rates per second.
struct ServeRow {
  std::string plan;  // in words
  std::string load;  // "64 clients", "2 requests/s"
  std::int64_t gpus = 1;
  ServeSpread ttft, tpot, end_to_end;
  std::vector<std::pair<std::string, double>> ttft_parts;  // ms; sum: the mean
  std::vector<std::pair<std::string, double>> step_parts;  // ms of a decode iteration; sum: step
  double step = 0, batch = 0;
  double tokens_per_step = 1;  // of a sequence; above 1: with drafts
  double tokens_per_gpu = 0, input_per_gpu = 0, tokens_per_user = 0, requests_per_second = 0;
  std::vector<std::pair<std::string, double>> memory;  // bytes on a GPU
  double capacity = 0;
  double cache_tokens = 0, cache_used = 0;  // share
  std::int64_t requests = 0, preemptions = 0;
  // Where a goal is asked: the share of requests that keep it, and those per second.
  std::optional<double> kept, goodput;
  std::optional<ServeSpread> urgent_ttft, urgent_tpot;  // of requests that go first
  double prefix_hits = 0;                               // share of the prompts' tokens that were cached
  // … that were read from a tier below the GPUs' memory; that were there, but computed sooner than read.
  double reloaded = 0, faster_computed = 0;
  double computing = 0;                                      // ms of a whole prompt alone
  std::vector<std::pair<std::string, double>> reloading;     // ms to read it from each tier instead
  bool has_prefixes = false;                                 // the load says which prompts begin alike
  std::optional<double> stable_rate;                         // requests/s; the asked rate is above it
  bool trace = false;                                        // … that of a trace
  double money = 0;                                          // per million output tokens; 0: no price
  std::string reason;                                        // of a plan that lost or was refused
  std::vector<std::pair<std::string, std::string>> options;  // of weft serve that ask for this plan and load
  bool fits = true;
};

// The same with something broken.
struct ServeFault {
  std::vector<std::string> faults;
  std::int64_t engines = 1, lost = 0, slowed = 0;
  ServeSpread ttft, tpot;  // of all requests
  double tokens = 1;       // output tokens/s beside those without the fault
  double restart = 0;      // s until lost engines are back
  double waiting = 0;      // requests that wait then
  double empty_again = 0;  // s from the fault until the queue is empty; below 0: never, 0: no engine was lost
  std::optional<double> stable_rate;  // of what is left; the asked rate is above it
};

struct ServeReport {
  std::string model, machine, card, engine, precision, cache;
  std::int64_t input = 0, output = 0;
  std::string kernels;         // whose measured kernels the rates are of
  std::vector<ServeRow> rows;  // the best first; of --best: those that hold the goal, then the others with a reason
  // Of --best: the goal (ms; 0: none), points that were tried, and those that no other beats in tokens/s per GPU and
  // per user.
  double goal_ttft = 0, goal_tpot = 0;
  std::int64_t percentile = 50, tried = 0;
  std::vector<ServeRow> frontier;
  std::optional<ServeFault> fault;
};

// The same question for several machines.
struct ServeMachines {
  struct Machine {
    std::string name;
    std::optional<ServeReport> report;
    std::string reason;  // why there is no answer
  };
  std::vector<Machine> machines;
};
std::string in_words(const ServeMachines& all);
nlohmann::json to_json(const ServeMachines& all);  // weft.serve-machines/1

// The first row: what users see, whether the load is stable, what faults change.
std::string in_a_sentence(const ServeReport& report);

// A table for people: of one plan, and of --best with the first `shown` plans.
std::string in_words(const ServeReport& report);
std::string best_in_words(const ServeReport& report, std::size_t shown);

// weft.serve/1, the stable form.
nlohmann::json to_json(const ServeReport& report);

}  // namespace weft::report
