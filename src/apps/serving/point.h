#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/serving/engine.h"

namespace weft::serving {

// What users must get: TTFT and TPOT below these; 0: not asked. A plan holds it by a percentile.
struct Goal {
  double ttft = 0, tpot = 0;  // s
  int percentile = 50;        // 50, 90 or 99
  bool asked() const { return ttft > 0 || tpot > 0; }
};

// One question: a model on engines of a machine under a load.
struct Question {
  Shape shape;
  Plan plan;                      // of the engine, or of decode engines
  std::optional<Plan> prefill;    // of prefill engines, where the two are apart
  int prefills = 1, decodes = 1;  // engines, where the two are apart; 0 prefill engines: as many as decoding needs
  bool by_layer = false;          // caches cross while later layers are computed; otherwise after the prompt's last one
  int replicas = 1;               // engines, or such pairs of pools, that share the load evenly
  Engine engine;
  Load load;
  bool record = false;  // keep the run
  std::string limits;   // of an iteration, in words, where they are not the engine's own
  Goal goal;            // what a request must keep to count for the goodput
  double slow = 1;      // how many times as long a broken GPU computes, and so its engine

  // GPUs of one of the replicas.
  Rank unit() const { return prefill ? prefills * prefill->gpus() + decodes * plan.gpus() : plan.gpus(); }
  Rank gpus() const { return replicas * unit(); }
  // The load is simulated on all replicas, which a router chooses among; otherwise on one with its share.
  bool routed() const { return load.router && !prefill; }
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
  double kept = 1;                                    // share of requests that keep the goal
  std::optional<Quantiles> urgent_ttft, urgent_tpot;  // of those of the lowest priority number, where there are several
  Parts decode;                                       // of a decode iteration
  double step = 0;                                    // s of it
  double batch = 0;                                   // sequences that decode in an iteration
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

// Prefill engines beside the decode engines of one pair of pools at a full load: as many (not rounded) as compute what
// those use up, and the seconds of a full iteration of each. Errors: those of answer.
struct Matching {
  double prefills = 0, reading = 0, step = 0;
  double rate = 0;  // requests/s of one pair of pools
};
Result<Matching> match_prefills(Place& place, const Question& question);
// The same rounded, from 1 to 64.
Result<int> matching_prefills(Place& place, const Question& question);

// Errors (bad input): a plan that does not divide, needs more GPUs than the machine has, or does not fit into memory
// (it says what would); those of serve.
Result<Point> answer(Place& place, const Question& question);

// The smallest changes of the plan that fit: more GPUs, and weights of a smaller type that the card computes with
// ("tp 4", "fp8"); empty: none was found. `with`: how the plan is said, describe() if empty.
std::string what_fits(Place& place, const Question& question,
                      const std::function<std::string(const Plan& plan)>& with = {});

}  // namespace weft::serving
