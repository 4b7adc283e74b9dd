#pragma once

#include <string>
#include <vector>

#include "apps/training/answer.h"
#include "apps/training/best.h"

namespace weft::training {

// Pictures of training as SVG documents, in the colours of the machine's pictures.

// A lane per stage: forward and backward passes, weights' gradients, gradients on the wire, the optimizer; what nothing
// hides (waiting for other stages, gradients after the last pass) is outlined. Beside each lane a bar of the stage's
// memory by part against what the GPU has. Stages beyond kMostLanes are left out, and the picture says so.
inline constexpr std::size_t kMostLanes = 64;
std::string step_svg(const Answer& answer);

// Step time against memory of the plans that fit: the Pareto front as a line, the best of each named; plans that do not
// fit stand beyond the limit, without a time.
std::string front_svg(const Plans& plans, const report::TrainReport& report);

// The indices of the plans that no other beats in both time and memory, the fastest first.
std::vector<std::size_t> pareto_front(const std::vector<Ranked>& plans);

// One plan on more and more replicas.
struct ScalingPoint {
  std::int64_t gpus = 0, replicas = 0;
  double weak_mfu = 0;                        // with as many sequences a replica as asked
  double strong_mfu = 0;                      // with as many sequences in all; 0: they do not divide by the replicas
  double weak_bubble = 0, strong_bubble = 0;  // shares of the step
};
// 1, 2, 4, … replicas of the answer's plan, up to its own. Errors (bad input): those of simulate_step.
Result<std::vector<ScalingPoint>> scaling(const Model& model, const cost::MachineView& machine, const Answer& answer);
// MFU and the bubble's share against the number of GPUs.
std::string scaling_svg(const std::vector<ScalingPoint>& points, const report::TrainReport& report);

}  // namespace weft::training
