#pragma once

#include "apps/training/card.h"
#include "apps/training/plan.h"
#include "apps/training/traffic.h"

namespace weft::training {

// What a GPU sends of one kind of parallelism: calls, their messages (bytes, the larger side of each collective), and
// seconds until they are there, hidden or not.
struct Sent {
  double calls = 0, bytes = 0, seconds = 0;
  void add(double times, double message, double each) {
    if (times > 0 && each > 0) calls += times, bytes += times * message, seconds += times * each;
  }
  Sent& operator+=(const Sent& o);
};
Sent operator*(const Sent& sent, double factor);

// One pass of a layer, or of the output layer, on one micro-batch; in seconds. Communication is what remains exposed.
struct PassTime {
  double gemm = 0, attention = 0, memory = 0;  // computing: GEMMs, attention, memory-bound kernels
  double host = 0;                             // launches that the host is late with
  double tensor = 0, context = 0, expert = 0;  // exposed communication
  Sent tensor_sent, context_sent, expert_sent;
  double compute() const { return gemm + attention + memory; }
  double total() const { return compute() + host + tensor + context + expert; }
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
// A layer of multi-token prediction: both embeddings joined by a GEMM, a layer as the model's last, an output layer of
// its own (arXiv 2412.19437, section 2.2).
Result<LayerTime> predict_time(const Model& model, const Plan& plan, const Card& card, Traffic& traffic);
// Logits, loss and their gradients.
Result<LayerTime> output_time(const Model& model, const Plan& plan, const Card& card, Traffic& traffic);

}  // namespace weft::training
