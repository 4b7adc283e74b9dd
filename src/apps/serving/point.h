#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/serving/engine.h"

namespace weft::serving {

// One question: a model on engines of a machine under a load.
struct Question {
  Shape shape;
  Plan plan;                      // of the engine, or of decode engines
  std::optional<Plan> prefill;    // of prefill engines, where the two are apart
  int prefills = 1, decodes = 1;  // engines, where the two are apart; 0 prefill engines: as many as decoding needs
  int replicas = 1;               // engines that share the load evenly, where they are not apart
  Engine engine;
  Load load;
  bool record = false;  // keep the run
  double slow = 1;      // how many times as long a broken GPU computes, and so its engine

  Rank gpus() const { return prefill ? prefills * prefill->gpus() + decodes * plan.gpus() : replicas * plan.gpus(); }
};

struct Quantiles {
  double mean = 0, median = 0, p90 = 0, p99 = 0;  // s
};

// The times (seconds) and rates (per second) that users see.
struct Point {
  Quantiles ttft, tpot, end_to_end;
  // Means of what TTFT consists of; they sum to its mean.
  double text = 0, queue = 0, reading = 0, moving = 0, response = 0;
  double tokens_per_gpu = 0, tokens_per_user = 0;  // output tokens/s
  double input_per_gpu = 0;                        // input tokens/s
  double requests = 0, requests_per_second = 0;
  Parts decode;      // of a decode iteration
  double step = 0;   // s of it
  double batch = 0;  // sequences that decode in an iteration
  double cache_used = 0;
  double prefix_hits = 0;                    // share of the prompts' tokens that were cached
  double reloaded = 0, faster_computed = 0;  // … that came from a lower tier; that were in one but computed sooner
  // Seconds that a prompt of Load::input tokens takes to be computed alone, and to be read from each lower tier.
  double computing = 0;
  std::vector<std::pair<std::string, double>> reloading;
  std::int64_t preemptions = 0;
  std::shared_ptr<const Run> run;  // of one engine's share, or of both pools; where it is recorded
  Memory memory;                   // of the engine, or of decode engines
  double cache_tokens = 0;         // that all replicas of attention of one engine hold
  Rank gpus = 1;
  std::optional<double> stable_rate;  // requests/s; set where the asked rate, or that of a trace, is above it
};

// A machine with what was already asked of it. Thread: one at a time.
class Place {
 public:
  // Errors (bad input): the machine has no GPU of the catalogue.
  // `troubled`: nodes that are worse than the others.
  static Result<Place> open(const cost::MachineView& view, std::vector<int> troubled = {});
  Result<const kernels::Kernels*> kernels(const Engine& engine);
  Network& network() { return *network_; }
  const std::string& part() const { return part_; }
  Rank gpus() const { return network_->gpus(); }

 private:
  std::string part_;
  std::unique_ptr<cost::MachineView> view_;  // in which collectives are replayed from CUDA graphs
  std::unique_ptr<Network> network_;
  std::map<std::string, kernels::Kernels> kernels_;
};

// Prefill engines whose rate matches what the decode engines use up at a full load. Errors: those of answer.
Result<int> matching_prefills(Place& place, const Question& question);

// Errors (bad input): a plan that does not divide, needs more GPUs than the machine has, or does not fit into memory
// (it says what would); those of serve.
Result<Point> answer(Place& place, const Question& question);

// The smallest changes of the plan that fit: more GPUs, and weights of a smaller type that the card computes with
// ("tp 4", "fp8"); empty: none was found. `with`: how the plan is said, describe() if empty.
std::string what_fits(Place& place, const Question& question,
                      const std::function<std::string(const Plan& plan)>& with = {});

}  // namespace weft::serving
