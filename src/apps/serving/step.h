#pragma once

#include "apps/serving/network.h"
#include "apps/serving/plan.h"

namespace weft::serving {

// The work of one iteration of an engine, over all of attention's replicas.
struct Work {
  double decodes = 0;         // sequences that get one token each, or more of drafts
  double context = 0;         // their cached tokens, summed
  double prefills = 0;        // sequences (or chunks of them) that are read
  double prefill_tokens = 0;  // of them, summed
  double prefill_past = 0;    // cached tokens before them, summed over the sequences
  double outputs = 0;         // tokens that are sampled
  double behind = 0;          // chunks of one prompt that enter an empty pipeline before its last one

  double tokens() const { return decodes + prefill_tokens; }
};

// Seconds of an iteration by what takes them. A value.
struct Parts {
  double dense = 0, attention = 0, experts = 0, small = 0, tensor = 0, exchange = 0, pipeline = 0, host = 0;
  double kernels = 0;  // that are launched for it
  double gpu() const { return dense + attention + experts + small + tensor + exchange + pipeline; }
  double total() const { return gpu() + host; }
  Parts& operator+=(const Parts& o);
  Parts operator*(double f) const;
};

// The time of iterations under one plan. Thread: one at a time. Model, kernels and network must outlive it.
class StepModel {
 public:
  StepModel(const Shape& shape, const Plan& plan, const Engine& engine, const Types& types,
            const kernels::Kernels& kernels, Network& network)
      : shape_(shape), plan_(plan), engine_(engine), types_(types), kernels_(kernels), network_(network) {}

  // `host`: what of the host's work the GPUs wait for. Errors: those of Network.
  Result<Parts> operator()(const Work& work);
  // All computing takes `factor` times as long.
  void slow_down(double factor) { slow_ = factor; }
  const Plan& plan() const { return plan_; }
  const Engine& engine() const { return engine_; }

 private:
  struct Rows;
  void mixer(const LayerKind& kind, const Rows& rows, Parts& parts) const;
  void attend(const LayerKind& kind, const Rows& rows, Parts& parts) const;
  void latent(const LayerKind& kind, const Rows& rows, Parts& parts) const;
  void index(const LayerKind& kind, const Rows& rows, Parts& parts) const;
  void recur(const LayerKind& kind, const Rows& rows, Parts& parts) const;
  void feed(const LayerKind& kind, const Rows& rows, Parts& parts) const;
  Result<Parts> between(const LayerKind& kind, const Rows& rows);
  Result<Parts> layer(const LayerKind& kind, const Rows& rows);
  Result<Parts> sample(double outputs);
  Result<Parts> draft(const Rows& like, double decodes);
  double host(const Work& work, double layers, const Parts& parts) const;
  // A kernel's time and its launches, added to `parts`.
  void gemm(Parts& parts, kernels::Precision precision, double rows, double width, double from) const;
  void move(Parts& parts, double bytes, double times = 1) const;
  void attention(Parts& parts, const kernels::Sequences& s, double seconds) const;
  double small(double bytes) const { return engine_.small_kernel + kernels_.memory(bytes); }

  Shape shape_;
  Plan plan_;
  Engine engine_;
  Types types_;
  double slow_ = 1;
  const kernels::Kernels& kernels_;
  Network& network_;
};

}  // namespace weft::serving
