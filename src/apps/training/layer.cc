#include "apps/training/layer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::training {
namespace {

double d(std::int64_t n) { return static_cast<double>(n); }

// Counts the kernels of one layer.
class Layer {
 public:
  Layer(const Model& m, const Plan& plan, const Card& card, Traffic& traffic)
      : m_(m), plan_(plan), card_(card), traffic_(traffic), tokens_(d(plan.micro_batch * plan.seq) / d(plan.cp)) {}

  LayerTime time;

  // GEMMs from here on have weights that are trained, or not; with adapters (LoRA) beside them, or not.
  void train(bool frozen, bool adapters) {
    trained_ = !frozen && plan_.lora == 0;
    adapted_ = plan_.lora > 0 && adapters;
  }

  // A GEMM of `rows` tokens: forward, gradient of its input, gradient of its weights if they are trained.
  void gemm(double rows, double n, double k, double groups = 1) {
    if (adapted_) {
      adapted_ = false;
      const bool trained = std::exchange(trained_, true);
      const auto rank = d(plan_.lora);
      gemm(rows, rank, k, groups);
      gemm(rows, n, rank, groups);
      trained_ = trained, adapted_ = true;
    }
    ++kernels_;
    time.forward.gemm += card_.grouped_gemm_time(groups, rows, n, k);
    const double weight = trained_ ? card_.grouped_gemm_time(groups, n, k, rows) : 0;
    time.backward.gemm += card_.grouped_gemm_time(groups, rows, k, n) + weight;
    time.weight += weight;
    if (card_.precision == "bf16") return;
    ++kernels_;  // inputs are quantised and transposed: BF16 read, two 8-bit forms written
    time.forward.memory += card_.memory_time(4 * groups * rows * k);
    time.backward.memory += card_.memory_time(4 * groups * rows * n);
  }
  // Memory-bound kernels by bytes read and written per token in the forward pass; backward has twice as many.
  void kernel(double bytes_per_token, double kernels = 1) {
    kernels_ += kernels;
    time.forward.memory += card_.memory_time(tokens_ * bytes_per_token);
    time.backward.memory += card_.memory_time(2 * tokens_ * bytes_per_token);
  }

  // The same as a chain of `kernels` kernels that pass their results through memory.
  void chain(double bytes_per_token, double kernels) {
    kernel(bytes_per_token, kernels);
    time.forward.memory += (kernels - 1) * card_.launch;
    time.backward.memory += 2 * (kernels - 1) * card_.launch;
  }

  void attention() {
    const double s = d(plan_.seq), tp = d(plan_.tp), b = d(plan_.micro_batch);
    const double widths = d(m_.query_width() + m_.value_width()) / tp;
    const bool fused = plan_.flash_attention() && !(m_.sinks && plan_.sinks_unfused());
    // Kernels that are not fused compute all scores and mask those outside of a window.
    const double attending = d(static_cast<std::int64_t>(m_.windows.size())) / d(m_.layers);
    const double share = fused ? m_.attention_share(plan_.seq) : attending;
    if (fused) {
      // 2 FLOP per product of two GEMMs, half of it below the causal mask
      const double flops = tokens_ * s * widths * share;
      const double peak = card_.peak16 * (plan_.flash2() ? card_.attention_before_2024 : 1);
      // Rates by length: of the peak on H100 0.34, 0.45, 0.53, 0.58, 0.62 at 1, 2, 4, 8, 16 k tokens (measured
      // kernels).
      constexpr double kHalf = 830, kLongest = 1.083;
      const double reached = peak * kLongest * s / (s + kHalf);
      core_.forward.attention = flops / (reached * card_.attention_forward) + card_.launch;
      core_.backward.attention = 2.5 * flops / (reached * card_.attention_backward) + card_.launch;
      ++kernels_;
    } else {
      Card at16 = card_;
      at16.peak = card_.peak16;
      at16.precision = "bf16";
      const double groups = b * d(m_.heads) / tp, rows = s / d(plan_.cp), depth = d(m_.head_dim);
      const double both =
          at16.grouped_gemm_time(groups, rows, s, depth) + at16.grouped_gemm_time(groups, rows, depth, s);
      // Softmax with its mask, and dropout, read and write the scores; the GEMMs' own traffic is counted with them.
      const double scores = groups * rows * s;
      core_.forward.attention = share * (both + card_.memory_time(9 * scores));
      core_.backward.attention = share * (2 * both + card_.memory_time(11 * scores));
      kernels_ += 4;
    }
    time.forward += core_.forward;
    time.backward += core_.backward;
  }

  // Of the mean layer: a recurrent mixer in chunks (arXiv 2405.21060, section 6) multiplies states of 128 numbers per
  // channel twice, and within a chunk of 256 tokens scores by channels. Its kernels reach a smaller share of the peak
  // than attention's, and pass projections, convolution, states and gate through memory. Share: an estimate.
  void recurrence() {
    if (m_.recurrent_layers == 0) return;
    constexpr double kDepth = 128, kChunk = 256, kShare = 0.15, kBytes = 27;
    const double share = d(m_.recurrent_layers) / d(m_.layers), state = d(m_.recurrent_state) / d(plan_.tp);
    const double channels = state / kDepth;
    const double scan = share * tokens_ * (4 * state + 2 * kChunk * channels) / (card_.peak16 * kShare);
    time.forward.attention += scan;
    time.backward.attention += 2.5 * scan;
    kernel(share * kBytes * channels);
  }

  double per_shard() const { return plan_.sequence_parallel ? d(plan_.tp) : 1; }

  Status tensor_communication(double times) {
    if (plan_.tp == 1) return {};
    const Traffic::Group group{static_cast<Rank>(plan_.tp), 1};
    const auto bytes = static_cast<Bytes>(tokens_ * d(m_.hidden) * 2);
    double each = 0;
    const double calls = plan_.sequence_parallel ? 2 : 1, backward = plan_.sequence_parallel ? 1.5 : 1;
    if (plan_.sequence_parallel) {
      WEFT_TRY(const auto gather, traffic_(Collective::kAllGather, group, bytes));
      WEFT_TRY(const auto scatter, traffic_(Collective::kReduceScatter, group, bytes));
      each = gather.seconds + scatter.seconds;
    } else {
      WEFT_TRY(const auto reduce, traffic_(Collective::kAllReduce, group, bytes));
      each = reduce.seconds;
    }
    time.forward.tensor += hidden_part(times * each, time.forward.gemm);
    // Sequence parallelism gathers the input once more for the gradient of the weights.
    time.backward.tensor += hidden_part(times * each * backward, time.backward.gemm);
    time.forward.tensor_sent.add(times * calls, d(bytes), each / calls);
    time.backward.tensor_sent.add(times * calls * backward, d(bytes), each / calls);
    return {};
  }

  // Keys and values of a rank's tokens, in bytes.
  double keys_and_values() const {
    const double width = m_.mla() ? d(m_.query_width() + m_.value_width()) : 2 * d(m_.kv_width());
    return tokens_ * 2 * width / d(plan_.tp);
  }

  Status context_communication() {
    if (plan_.cp == 1) return {};
    const Traffic::Group group{static_cast<Rank>(plan_.cp), static_cast<Rank>(plan_.tp)};
    const double own = keys_and_values(), attending = d(static_cast<std::int64_t>(m_.windows.size())) / d(m_.layers);
    if (plan_.context_by == ContextBy::kAllGather) {
      // All keys and values before the attention; their gradients are summed behind it.
      const auto all = static_cast<Bytes>(own * d(plan_.cp));
      WEFT_TRY(const auto gather, traffic_(Collective::kAllGather, group, all));
      WEFT_TRY(const auto scatter, traffic_(Collective::kReduceScatter, group, all));
      time.forward.context += attending * gather.seconds;
      time.backward.context += attending * (gather.seconds + scatter.seconds);
      time.forward.context_sent.add(attending, d(all), gather.seconds);
      time.backward.context_sent.add(attending, d(all), gather.seconds);
      time.backward.context_sent.add(attending, d(all), scatter.seconds);
    } else if (plan_.context_by == ContextBy::kAllToAll) {
      const double queries = tokens_ * 2 * d(m_.query_width() + m_.value_width()) / d(plan_.tp);
      WEFT_TRY(const auto exchange, traffic_(Collective::kAllToAll, group, static_cast<Bytes>(own + queries)));
      time.forward.context += attending * exchange.seconds;
      time.backward.context += attending * exchange.seconds;
      for (PassTime* pass : {&time.forward, &time.backward})
        pass->context_sent.add(attending, own + queries, exchange.seconds);
    } else {
      // Keys and values pass around the ring while attention computes on those that are there.
      WEFT_TRY(const auto step, traffic_(Collective::kSendReceive, group, static_cast<Bytes>(own)));
      const double ring = attending * d(plan_.cp - 1) * step.seconds;
      time.forward.context_sent.add(attending * d(plan_.cp - 1), own, step.seconds);
      time.backward.context_sent.add(2 * attending * d(plan_.cp - 1), own, step.seconds);
      const double hides = card_.overlaps() ? 1 : 0;
      time.forward.context += std::max(0.0, ring - hides * core_.forward.attention);
      time.backward.context += std::max(0.0, 2 * ring - hides * core_.backward.attention);
    }
    return {};
  }

  // Every rank sends its tokens' copies to the ranks of their experts, evenly, and gets them back. DeepEP and HybridEP
  // send a token once to each node that has experts of it, and there once to each rank. One of both ways, on average.
  Result<Sent> dispatch() {
    const double row = d(m_.expert_hidden) * 2, tokens = tokens_ / per_shard();
    const auto ep = static_cast<Rank>(plan_.ep), stride = static_cast<Rank>(plan_.etp);
    if (plan_.dispatcher == Dispatcher::kAllToAll) {
      WEFT_TRY(const auto all, traffic_(Collective::kAllToAll, {ep, stride}, static_cast<Bytes>(expert_rows() * row)));
      return Sent{1, expert_rows() * row, all.seconds};
    }
    const Traffic::Experts experts{.tokens = static_cast<Bytes>(tokens),
                                   .token_bytes = static_cast<Bytes>(row),
                                   .per_token = static_cast<int>(m_.top_k),
                                   .experts = static_cast<int>(m_.experts)};
    WEFT_TRY(const auto there, traffic_(Collective::kDispatch, {ep, stride}, experts));
    WEFT_TRY(const auto back, traffic_(Collective::kCombine, {ep, stride}, experts));
    // Of `places`, those that have one of a token's experts.
    const auto reached = [&](Rank places) { return d(places) * (1 - std::pow(1 - 1 / d(places), d(m_.top_k))); };
    return Sent{1, tokens * reached(ep) * row, (there.seconds + back.seconds) / 2};
  }

  Status expert_communication() {
    if (plan_.ep > 1) {
      WEFT_TRY(const Sent once, dispatch());  // and combine
      for (PassTime* pass : {&time.forward, &time.backward}) {
        pass->expert += 2 * once.seconds;
        pass->expert_sent += once * 2;
      }
    }
    if (plan_.etp > 1) {
      // The ranks of an expert's matrices gather its tokens and sum its results.
      const Traffic::Group group{static_cast<Rank>(plan_.etp), 1};
      const auto bytes = static_cast<Bytes>(expert_rows() * d(plan_.etp) * d(m_.expert_hidden) * 2);
      WEFT_TRY(const auto gather, traffic_(Collective::kAllGather, group, bytes));
      WEFT_TRY(const auto scatter, traffic_(Collective::kReduceScatter, group, bytes));
      time.forward.expert += gather.seconds + scatter.seconds;
      time.backward.expert += gather.seconds + scatter.seconds;
      for (PassTime* pass : {&time.forward, &time.backward}) {
        pass->expert_sent.add(1, d(bytes), gather.seconds);
        pass->expert_sent.add(1, d(bytes), scatter.seconds);
      }
    }
    return {};
  }
  // Copies of tokens that a rank's experts get. Sequence parallelism spreads the tokens over tp.
  double expert_rows() const { return tokens_ * d(m_.top_k) / per_shard(); }

  void experts() {
    const double rows = expert_rows() * d(plan_.etp), h = d(m_.expert_hidden);
    const double f = d(m_.moe_ffn) / d(plan_.etp), groups = d(m_.experts / plan_.ep);
    train(plan_.frozen.experts, false);
    gemm(tokens_ / per_shard(), d(m_.experts), d(m_.hidden));
    if (m_.expert_hidden != m_.hidden) {
      gemm(tokens_ / per_shard(), h, d(m_.hidden));
      gemm(tokens_ / per_shard(), d(m_.hidden), h);
    }
    const double each = rows / groups;
    gemm(each, (m_.gated ? 2 : 1) * f, h, groups);
    gemm(each, h, f, groups);
    const double copies = rows / tokens_;
    kernel(copies * h * 8, 2);  // permuting tokens and back
    activation(copies * f);
    // Of each expert: where its tokens are, two indices, three GEMMs, activation, two products, sum.
    if (plan_.loops_over_experts()) kernels_ += 10 * groups;
    if (m_.shared_ffn > 0) mlp(d(m_.shared_ffn));
  }
  void mlp(double width) {
    if (width == 0) return;
    const double f = width / d(plan_.tp), h = d(m_.hidden);
    train(plan_.frozen.mlp, true);
    gemm(tokens_, (m_.gated ? 2 : 1) * f, h);
    gemm(tokens_, h, f);
    activation(f);
  }
  // Fused, a gated activation reads both halves and writes their product. Otherwise SiLU writes one half for the
  // product.
  void activation(double width) {
    if (m_.gated && plan_.runs_eagerly())
      chain(width * 2 * 5, 2);
    else if (m_.composed_gelu && plan_.composes_layers())
      chain(width * 36, 8);  // pow, product, sum, product, tanh, sum, half, product: 4 bytes, or 6 of two inputs
    else
      kernel(width * 2 * (m_.gated ? 3 : 2));
  }
  void projections() {
    const double tp = d(plan_.tp), h = d(m_.hidden), q = d(m_.query_width()), v = d(m_.value_width());
    train(plan_.frozen.attention, true);
    if (m_.mla()) {
      const double rank = d(m_.kv_rank);
      if (m_.q_rank > 0)
        gemm(tokens_, d(m_.q_rank), h), gemm(tokens_, q / tp, d(m_.q_rank));
      else
        gemm(tokens_, q / tp, h);
      gemm(tokens_, rank + d(m_.rope_dim), h);
      gemm(tokens_, d(m_.heads * (m_.nope_dim + m_.v_dim)) / tp, rank);
    } else {
      gemm(tokens_, (q + 2 * d(m_.kv_width())) / tp, h);
    }
    gemm(tokens_, h, v / tp);
    // Layers may differ: the mean mixer has as many GEMMs more or less as parameters.
    const double share = m_.projection_share();
    time.forward = time.forward * share;
    time.backward = time.backward * share;
    time.weight *= share;
    if (m_.positions != 0) return;
    // Rotary embedding. Not fused, it is a complex product in FP32: to FP32 (2 + 4 bytes), times the phase (4 + 4),
    // back (4 + 2); torchtitan's apply_rotary_emb.
    const double rotated = (q + d(m_.kv_width())) / tp;
    if (plan_.runs_eagerly())
      chain(20 * rotated, 3);
    else
      kernel(4 * rotated);
  }
  // Two norms and two residual sums; frameworks before 2023 do not fuse biases, dropout and the sum.
  void norms() {
    const double each = m_.blocks * d(m_.hidden) * 2 / per_shard();
    // PyTorch has a kernel for LayerNorm. RMSNorm is composed of others (torch 2.5,
    // aten/src/ATen/native/layer_norm.cpp, rms_norm): to FP32 (2 + 4 bytes per element), square (4 + 4), mean (4),
    // product with the inverse root (4 + 4), to BF16 (4 + 2), weight (2 + 2); the root of one number per token is the
    // seventh kernel.
    if (m_.gated && plan_.runs_eagerly())
      for (int norm = 0; norm < 2; ++norm) chain(18 * each, 7);
    else
      kernel(2 * 2 * each, 2);
    if (m_.head_norms && plan_.runs_eagerly())
      chain(36 * d(m_.query_width() + m_.kv_width()) / d(plan_.tp) * m_.projection_share(), 14);
    kernel(2 * (plan_.flash_attention() ? 3 : 5) * each, 2);
    // GPT-2's dropout of transformers, behind both blocks, in both passes: input, output, a mask of a byte.
    if (m_.composed_gelu && plan_.transformers()) {
      const double dropout = card_.memory_time(tokens_ * 2 * 2.5 * each);
      time.forward.memory += dropout, time.backward.memory += dropout;
      kernels_ += 2;
    }
  }
  void recompute() {
    PassTime again;
    const bool fused = plan_.flash_attention() && !(m_.sinks && plan_.sinks_unfused());
    if (plan_.recompute == Recompute::kFull)
      again = time.forward;
    else if (plan_.recompute == Recompute::kSelective)
      again = fused ? PassTime{.memory = time.forward.memory / 2} : core_.forward;
    time.backward += again * plan_.recompute_share;
  }

  // Tokens travel beside the computing of another micro-batch's opposite pass, but for the pipeline's ends, where there
  // is none. Their kernels take multiprocessors from it: DeepSeek-V3's 20 of 132 (arXiv 2412.19437, section 3.2).
  void overlap_experts() {
    if (plan_.overlap_experts == 0 || !card_.overlaps()) return;
    constexpr double kTaken = 20.0 / 132;
    const auto slower = [&](PassTime& pass) {
      pass.gemm /= 1 - kTaken, pass.attention /= 1 - kTaken, pass.memory /= 1 - kTaken;
    };
    slower(time.forward), slower(time.backward);
    time.weight /= 1 - kTaken;
    const double all = time.forward.expert + time.backward.expert;
    if (all == 0) return;
    const double beside = time.forward.compute() + time.backward.compute(), batches = d(plan_.micro_batches());
    const double hidden = std::min(all, beside) * batches / (batches + d(plan_.pp) - 1);
    time.forward.expert *= 1 - hidden / all;
    time.backward.expert *= 1 - hidden / all;
  }

  // What the framework makes of the kernels: its level, and launches of a layer that the GPU waits for.
  void software(bool moe) {
    const double level = moe ? card_.level_experts : card_.level;
    double host = m_.blocks * (moe ? card_.host_experts : card_.host);
    if (!card_.overlaps() || (moe && plan_.loops_over_experts()))
      host = std::max(host, launches() * kernels::eager_kernel());
    const auto on = [&](PassTime& pass, double launches) {
      pass.gemm /= level, pass.attention /= level, pass.memory /= level;
      pass.host = kernels::waits_for_host(card_.launches, launches, pass.compute());
    };
    on(time.forward, host);
    on(time.backward, 2 * host * (plan_.recompute == Recompute::kFull ? 1 + plan_.recompute_share / 2 : 1));
    time.weight /= level;
  }

 private:
  // Kernels of the forward pass, with those of collectives.
  double launches() const {
    const PassTime& pass = time.forward;
    return kernels_ + pass.tensor_sent.calls + pass.context_sent.calls + pass.expert_sent.calls;
  }
  // What remains exposed of communication beside GEMMs that are cut into four parts, of which one cannot overlap.
  double hidden_part(double communication, double beside) const {
    constexpr double kParts = 4;
    if (!plan_.overlaps_tensor() || !card_.overlaps()) return communication;
    return std::max(communication / kParts, communication - beside * (1 - 1 / kParts));
  }

  const Model& m_;
  const Plan& plan_;
  const Card& card_;
  Traffic& traffic_;
  double tokens_;
  bool trained_ = true, adapted_ = false;
  double kernels_ = 0;  // of the forward pass that compute
  LayerTime core_;
};

}  // namespace

PassTime& PassTime::operator+=(const PassTime& o) {
  gemm += o.gemm, attention += o.attention, memory += o.memory, host += o.host;
  tensor += o.tensor, context += o.context, expert += o.expert;
  tensor_sent += o.tensor_sent, context_sent += o.context_sent, expert_sent += o.expert_sent;
  return *this;
}

Sent& Sent::operator+=(const Sent& o) {
  calls += o.calls, bytes += o.bytes, seconds += o.seconds;
  return *this;
}
Sent operator*(const Sent& s, double f) { return {s.calls * f, s.bytes * f, s.seconds * f}; }

PassTime operator*(const PassTime& p, double f) {
  return {p.gemm * f,    p.attention * f, p.memory * f,      p.host * f,         p.tensor * f,
          p.context * f, p.expert * f,    p.tensor_sent * f, p.context_sent * f, p.expert_sent * f};
}

Result<LayerTime> layer_time(const Model& model, const Plan& plan, const Card& card, Traffic& traffic, bool moe) {
  Layer layer(model, plan, card, traffic);
  layer.projections();
  layer.attention();
  layer.recurrence();
  layer.norms();
  if (moe)
    layer.experts();
  else
    layer.mlp(static_cast<double>(model.ffn));
  WEFT_CHECK(layer.tensor_communication(model.blocks * (moe && model.shared_ffn == 0 ? 1 : 2)));
  WEFT_CHECK(layer.context_communication());
  if (moe) WEFT_CHECK(layer.expert_communication());
  layer.recompute();
  layer.software(moe);
  if (moe) layer.overlap_experts();
  return layer.time;
}

Result<LayerTime> predict_time(const Model& model, const Plan& plan, const Card& card, Traffic& traffic) {
  WEFT_TRY(LayerTime time, layer_time(model, plan, card, traffic, model.moe_layer(model.layers - 1)));
  WEFT_TRY(const LayerTime output, output_time(model, plan, card, traffic));
  Layer joint(model, plan, card, traffic);
  const double tokens = static_cast<double>(plan.micro_batch * plan.seq) / static_cast<double>(plan.cp);
  joint.gemm(tokens, static_cast<double>(model.hidden) / static_cast<double>(plan.tp),
             2 * static_cast<double>(model.hidden));
  for (const LayerTime& part : {output, joint.time}) {
    time.forward += part.forward;
    time.backward += part.backward;
    time.weight += part.weight;
  }
  return time;
}

Result<LayerTime> output_time(const Model& model, const Plan& plan, const Card& card, Traffic& traffic) {
  // Matrices whose rows are not a multiple of 16 bytes miss Hopper's and Blackwell's own instructions: a vocabulary
  // that nobody pads. Rate: of training steps of GPT-2 on H200 (bench/results/2026-11-26-h200.md).
  constexpr double kUnaligned = 130e12;
  Card aligned = card;
  if (plan.composes_layers() && model.vocab % 8 != 0) aligned.gemm = std::min(card.gemm, kUnaligned / card.peak);
  Layer layer(model, plan, aligned, traffic);
  const double share = static_cast<double>(model.vocab) / static_cast<double>(plan.tp);
  layer.train(plan.frozen.output, false);
  layer.gemm(static_cast<double>(plan.micro_batch * plan.seq) / static_cast<double>(plan.cp), share,
             static_cast<double>(model.hidden));
  layer.kernel(share * 14);  // BF16 logits become FP32; maximum, sum and loss read them
  WEFT_CHECK(layer.tensor_communication(0.5));
  layer.software(false);
  return layer.time;
}

}  // namespace weft::training
