#pragma once

#include <memory>
#include <optional>

#include "accuracy/measured.h"
#include "cost/machine_view.h"
#include "tune/nccl/search.h"
#include "tune/tune.h"

namespace weft::accuracy {

// What the model says of one point, and for which way of doing it.
struct Prediction {
  Duration time;
  std::string_view algorithm;  // of weft's registry
  std::string_view protocol;
  int channels = 0;
  bool substituted = false;  // weft cannot do what the library would pick here: the best of what it can
};

// Predicts what NCCL delivers on one machine: NCCL's choice by the model of its tuner, timed by weft's simulator; where
// GPUs are not NVIDIA's, the best of rings and trees. Thread: one at a time.
class Predictor {
 public:
  // Thread: as MachineView.
  explicit Predictor(cost::MachineView machine) : machine_(std::move(machine)) {}

  // Errors (bad input): ranks that the machine has not, an algorithm that does not run there.
  Result<Prediction> predict(const Table& table, const Point& point);

  const cost::MachineView& machine() const { return machine_; }

 private:
  Result<tune::Candidate> choose(const tune::Question& question, const Point& point, bool& substituted);
  Result<Duration> simulate(const schedule::Task& task, const schedule::Plan& plan) const;

  cost::MachineView machine_;
  std::optional<tune::nccl::System> system_;  // for the last number of ranks
};

}  // namespace weft::accuracy
