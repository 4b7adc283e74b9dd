#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/training/layer.h"
#include "apps/training/memory.h"
#include "apps/training/pipeline.h"

namespace weft::training {

// Where the time goes, in seconds, as the mean over all stages; the sum is the step.
struct Breakdown {
  double gemm = 0, attention = 0, memory_bound = 0;
  double host = 0;                             // the GPU waits for the host's launches
  double tensor = 0, context = 0, expert = 0;  // exposed communication within layers
  double imbalance = 0;                        // what the slowest stage takes longer than the mean
  double bubble = 0;                           // the slowest stage waits for others
  double data = 0;                             // exposed communication of data parallelism and ZeRO
  double optimizer = 0;
  double compute() const { return gemm + attention + memory_bound; }
};

struct Step {
  double seconds = 0;
  Breakdown parts;
  double data_total = 0;  // s, communication of data parallelism, hidden or not
  // What a GPU sends in a step, as the mean over all stages, and the part of its time that nothing hides. Messages
  // between stages are in the bubble.
  struct Sends {
    const char* of;  // "tensor", "context", "expert", "pipeline", "data"
    Sent sent;
    double exposed = 0;  // s
  };
  std::vector<Sends> sends;
  double tokens_per_gpu = 0;   // per second
  double mfu = 0, tflops = 0;  // of the peak at 16 bit or the plan's precision; per GPU, by kFlopsFormula
  std::vector<StageMemory> stages;
  StageMemory peak;  // of the stage that needs most
  bool fits = true;
  std::string data_algorithm;
  PipelineRun pipeline;
  std::vector<double> data_begin;  // s, by stage: when its gradients' communication begins …
  std::vector<double> data_end;    // … and ends

  // The largest loss, in words: "the pipeline bubble (9 %)".
  std::string limit() const;
};

// One step: every stage's forward and backward passes of all micro-batches in the order of the schedule, gradients
// reduced in buckets behind the last backward pass, the optimizer, weights gathered before the first forward pass.
// Ranks of a stage do the same; one of each is simulated. Requires: check_plan. Errors (bad input): the machine has
// too few GPUs; those of Traffic.
// `slow_rank`: by rank, how many times as long it computes than the others; the replica that has the slowest stages is
// simulated. Empty: all alike.
// `peak`: peak_memory, where it is known and that of the other stages is not asked for; `stages` is then empty.
Result<Step> simulate_step(const Model& model, const Plan& plan, const Card& card, Traffic& traffic,
                           const std::vector<double>& slow_rank = {}, const std::optional<StageMemory>& peak = {});

}  // namespace weft::training
