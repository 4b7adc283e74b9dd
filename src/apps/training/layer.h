#pragma once

#include "apps/training/card.h"
#include "apps/training/plan.h"
#include "apps/training/traffic.h"

namespace weft::training {

// One pass of a layer, or of the output layer, on one micro-batch; in seconds. Communication is what remains exposed.
struct PassTime {
  double gemm = 0, attention = 0, memory = 0;  // computing: GEMMs, attention, memory-bound kernels
  double tensor = 0, context = 0, expert = 0;  // exposed communication
  double compute() const { return gemm + attention + memory; }
  double total() const { return compute() + tensor + context + expert; }
  PassTime& operator+=(const PassTime& o);
};
PassTime operator*(const PassTime& pass, double factor);

// `weight`: the part of the backward pass that computes weights' gradients, as part of `backward`; recomputation is in
// `backward`, too.
struct LayerTime {
  PassTime forward, backward;
  double weight = 0;
};

// A layer of the transformer, with experts or without. Errors: see Traffic.
Result<LayerTime> layer_time(const Model& model, const Plan& plan, const Card& card, Traffic& traffic, bool moe);
// Logits, loss and their gradients.
Result<LayerTime> output_time(const Model& model, const Plan& plan, const Card& card, Traffic& traffic);

}  // namespace weft::training
