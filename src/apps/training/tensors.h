#pragma once

#include <vector>

#include "apps/training/plan.h"

namespace weft::training {

// Tensors of one layer on one GPU, in the order in which its forward pass makes or reads them.

// A tensor that the layer keeps for its backward pass.
struct SavedTensor {
  double bytes = 0;  // per token
  // The module that makes it, 0: the layer itself. What a module holds is deleted when the module returns, where
  // nothing is kept.
  int module = 0;
};
// With the plan's recomputation. `moe`: the layer has experts.
std::vector<SavedTensor> saved_tensors(const Model& model, const Plan& plan, bool moe);
// Their sum; where recomputation holds for a share of the layers, that of the mean layer.
double activation_bytes(const Model& model, const Plan& plan, bool moe);
// Numbers in each weight. The local experts' first and second matrices are one weight each.
std::vector<double> weights_of_layer(const Model& model, const Plan& plan, bool moe);

// Layers of a stage with and without experts; those of multi-token prediction are as the model's last.
struct StageLayers {
  std::int64_t dense = 0, moe = 0;
  std::int64_t all() const { return dense + moe; }
};
StageLayers layers_on(const Model& model, const Plan& plan, std::int64_t stage);

}  // namespace weft::training
