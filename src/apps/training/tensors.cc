#include "apps/training/tensors.h"

#include <numeric>

#include "apps/training/layout.h"

namespace weft::training {
namespace {

double d(std::int64_t n) { return static_cast<double>(n); }

class Saved {
 public:
  Saved(const Model& m, const Plan& plan) : m_(m), plan_(plan) {}

  // 34 s b h + 5 a s² b of arXiv 2205.05198 where the layer is GPT's and dropout is used; fused attention keeps no
  // scores and newer models have no dropout.
  std::vector<SavedTensor> layer(bool moe) {
    const double h = d(m_.hidden);
    if (plan_.recompute == Recompute::kFull) return {{2 * h / spread()}};
    if (plan_.recompute == Recompute::kSelective && plan_.framework == "torchtitan" && !moe) return every_second_gemm();
    norm();
    attention();
    norm();
    if (dropout()) add(m_.blocks * 2 * h / spread());  // masks
    if (moe) {
      mlp(d(m_.shared_ffn), 1 / d(plan_.tp));
      add(d(m_.top_k) * 2 * h);
      mlp(d(m_.moe_ffn), d(m_.top_k));
      add(d(m_.top_k) * 2 * h);
    } else {
      // Megatron-LM's selective recomputation of fused layers leaves out half of the MLP.
      const bool half = plan_.recompute == Recompute::kSelective && !dropout();
      mlp(d(m_.ffn), (half ? 0.5 : 1) / d(plan_.tp));
    }
    return std::move(tensors_);
  }

 private:
  bool dropout() const { return !plan_.flash_attention(); }
  bool eager() const { return plan_.composes_layers(); }
  double spread() const { return plan_.sequence_parallel ? d(plan_.tp) : 1; }
  void add(double bytes) {
    if (bytes > 0) tensors_.push_back({bytes, module_});
  }
  // What follows is the layer's own, or the next module's.
  void in_layer() { module_ = 0; }
  void in_module() { module_ = ++modules_; }

  // Inputs of a block and of its GEMMs. RMSNorm by operations: the input in FP32, what it becomes before the weight,
  // and after it; LayerNorm is one kernel.
  void norm() {
    const double h = d(m_.hidden) * m_.blocks / spread();
    in_module();
    if (eager() && m_.gated) add(4 * h);
    in_layer();
    add(2 * h);
    add(2 * h);
    if (eager() && m_.composed_gelu) add(h);
  }

  // PyTorch's selective checkpointing keeps the layer's input, attention's result, and the output of every second GEMM
  // (torchtitan, _apply_ac_to_transformer_block).
  std::vector<SavedTensor> every_second_gemm() {
    const double h = d(m_.hidden), tp = d(plan_.tp);
    add(2 * h / spread());
    for (const double width : {d(m_.query_width()), 2.0 * d(m_.kv_width()), 2.0 * d(m_.value_width()), h})
      add(width / tp);
    for (int i = 0; i < (m_.gated ? 2 : 1); ++i) add(d(m_.ffn) / tp);
    add(h / tp);
    return std::move(tensors_);
  }

  void attention() {
    const double q = d(m_.query_width()), kv = m_.mla() ? q + d(m_.value_width()) : 2.0 * d(m_.kv_width());
    const double share = m_.projection_share() / d(plan_.tp);
    in_module();
    if (eager() && m_.head_norms) add(6 * (q + d(m_.kv_width())) * share);
    add(2 * q * share);
    add(kv * share);
    add(kv * share);
    // Scores: softmax's result, its dropout's mask and result.
    if (dropout() && plan_.recompute == Recompute::kNone)
      for (const double bytes : {2.0, 1.0, 2.0}) add(bytes * d(m_.heads) * d(plan_.seq) / d(plan_.tp));
    add(2 * d(m_.value_width()) * share);
    in_layer();
  }

  // Kernels of their own keep what fused ones compute again: SiLU's result; of GPT-2's GELU half its input, tanh and
  // the sum that it multiplies with.
  void mlp(double width, double times) {
    const int tensors = m_.gated ? (eager() ? 4 : 3) : (eager() && m_.composed_gelu ? 5 : 2);
    in_module();
    for (int i = 0; i < tensors; ++i) add(2 * width * times);
    in_layer();
  }

  const Model& m_;
  const Plan& plan_;
  std::vector<SavedTensor> tensors_;
  int module_ = 0, modules_ = 0;
};

double sum(const std::vector<SavedTensor>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), 0.0,
                         [](double s, const SavedTensor& t) { return s + t.bytes; });
}

}  // namespace

std::vector<SavedTensor> saved_tensors(const Model& model, const Plan& plan, bool moe) {
  return Saved(model, plan).layer(moe);
}

double activation_bytes(const Model& model, const Plan& plan, bool moe) {
  const double with = sum(saved_tensors(model, plan, moe));
  if (plan.recompute_share >= 1) return with;
  Plan kept = plan;
  kept.recompute = Recompute::kNone;
  return plan.recompute_share * with + (1 - plan.recompute_share) * sum(saved_tensors(model, kept, moe));
}

std::vector<double> weights_of_layer(const Model& m, const Plan& plan, bool moe) {
  const double tp = d(plan.tp), attention = d(m.attention_parameters()) / tp;
  std::vector<double> weights;
  const auto add = [&](double count) {
    if (count > 0) weights.push_back(count);
  };
  // Queries, keys, values and the output, in the ratio of their widths.
  const double widths[] = {d(m.query_width()), d(m.kv_width()), d(m.kv_width()), d(m.value_width())};
  for (const double width : widths) add(attention * width / (widths[0] + widths[1] + widths[2] + widths[3]));
  const auto mlp = [&](double width) {
    for (int i = 0; i < (m.gated ? 3 : 2); ++i) add(d(m.hidden) * width / tp);
  };
  if (!moe) {
    mlp(d(m.ffn));
    return weights;
  }
  mlp(d(m.shared_ffn));
  add(d(m.router_parameters()));
  const double local = d(m.experts) / d(plan.ep * plan.etp) * d(m.expert_hidden) * d(m.moe_ffn);
  add((m.gated ? 2 : 1) * local);
  add(local);
  return weights;
}

StageLayers layers_on(const Model& model, const Plan& plan, std::int64_t stage) {
  StageLayers layers;
  for (const Chunk& chunk : chunks_of(model, plan))
    if (chunk.stage == stage)
      for (std::int64_t i = 0; i < chunk.layers; ++i) ++(model.moe_layer(chunk.first + i) ? layers.moe : layers.dense);
  if (stage == plan.pp - 1) (model.moe_layer(model.layers - 1) ? layers.moe : layers.dense) += plan.mtp;
  return layers;
}

}  // namespace weft::training
