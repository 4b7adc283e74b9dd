#pragma once

#include <memory>
#include <optional>

#include "model/accuracy/measured.h"
#include "plan/cost/machine_view.h"
#include "plan/schedule/lower/lower.h"
#include "plan/tune/nccl/model.h"
#include "plan/tune/nccl/search.h"

namespace weft::accuracy {

// The model's time of one point, and the plan that it is of.
struct Prediction {
  Duration time;
  std::string_view algorithm;  // of weft's registry
  std::string_view protocol;
  int channels = 0;
  bool by_nccl = false;  // weft cannot time what NCCL picks: the time is NCCL's own model's
};

// Predicts what a library delivers on one machine: NCCL's choice by the model of its tuner, timed by weft's simulator;
// where GPUs are not NVIDIA's, weft's own choice stands for a library whose model is not known. Thread: one at a time.
class Predictor {
 public:
  // Thread: as MachineView.
  explicit Predictor(cost::MachineView machine) : machine_(std::move(machine)) {}

  // Errors (bad input): ranks that the machine has not, an algorithm that does not run there.
  Result<Prediction> predict(const Table& table, const Point& point);

  const cost::MachineView& machine() const { return machine_; }
  // Predicts with these costs from now on.
  void set_costs(protocol::HopCosts costs) { machine_.set_costs(std::move(costs)); }
  // Plans of more simulated steps are judged by their estimates. A fit, which predicts every row some hundred times,
  // takes fewer.
  void set_most_steps(double steps) { most_steps_ = steps; }

 private:
  // NCCL's choice, or nothing on other GPUs.
  Result<std::optional<tune::nccl::Row>> ask_nccl(const schedule::Task& task, const Point& point, int release);

  cost::MachineView machine_;
  double most_steps_ = 1e5;
  std::optional<tune::nccl::System> system_;  // for the last number of ranks
  int newest_ = 0;                            // release
};

}  // namespace weft::accuracy
