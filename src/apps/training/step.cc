#include "apps/training/step.h"

#include <algorithm>
#include <array>

namespace weft::training {
namespace {

constexpr double kMiB = 1048576;
constexpr double kBucket = 25 * kMiB, kFirstBucket = 1 * kMiB;  // PyTorch DDP's defaults
// Megatron-LM's distributed optimizer: parameters of a bucket, at least, and per replica.
constexpr double kShardedBucket = 40e6, kShardedBucketPerRank = 1e6;

double d(std::int64_t n) { return static_cast<double>(n); }

// The collectives behind one kind of gradient on one stage.
struct Reduction {
  double seconds = 0, first = 0, last = 0;  // all buckets; the first and the last one
  double gather = 0;                        // of updated weights, where the optimizer's state is spread
  double encode = 0;                        // compressing all buckets and back, on the GPU
  int channels = 0;
  std::string algorithm;
};

Result<Reduction> reduction_of(double parameters, Traffic::Group group, const Model& model, const Plan& plan,
                               const Card& card, Traffic& traffic) {
  Reduction r;
  if (group.ranks <= 1 || parameters <= 0) return r;
  const double bytes = parameters * plan.gradient_bytes;
  const bool sharded = plan.zero > 0;
  const Collective collective = sharded ? Collective::kReduceScatter : Collective::kAllReduce;
  double first = std::min(bytes, kFirstBucket), bucket = kBucket;
  if (sharded) {
    bucket = std::max(kShardedBucket, kShardedBucketPerRank * group.ranks) * plan.gradient_bytes;
    first = std::min(bytes, bucket);
  }
  if (plan.bucket > 0) {
    bucket = d(plan.bucket) * kMiB;
    first = std::min({bytes, bucket, sharded ? bucket : kFirstBucket});
  }
  const auto whole = static_cast<std::int64_t>((bytes - first) / bucket);
  const double rest = bytes - first - d(whole) * bucket;
  const auto add = [&](double size, double times) -> Result<double> {
    if (size < 1 || times <= 0) return 0.0;
    const Encoded wire = encoded(size, group.ranks, model, plan, card);
    WEFT_TRY(const auto cost, traffic(plan.compression.any() ? wire.collective : collective, group,
                                      std::max<Bytes>(1, static_cast<Bytes>(wire.bytes))));
    const double seconds = wire.collectives * cost.seconds;
    r.seconds += times * seconds;
    r.encode += times * wire.seconds;
    r.channels = std::max(r.channels, cost.channels);
    r.algorithm = cost.algorithm;
    return seconds;
  };
  WEFT_TRY(r.first, add(first, 1));
  WEFT_TRY(const double each, add(bucket, d(whole)));
  WEFT_TRY(r.last, add(rest, 1));
  if (r.last == 0) r.last = whole > 0 ? each : r.first;
  if (sharded) {
    WEFT_TRY(const auto gather,
             traffic(Collective::kAllGather, group, static_cast<Bytes>(std::min(2 * parameters, bucket))));
    r.gather = gather.seconds * 2 * parameters / std::min(2 * parameters, bucket);
  }
  return r;
}

// Layers whose weights are gathered before they compute and, backward, whose gradients are scattered behind them: two
// streams, one layer is gathered ahead. Returns the time of all.
double gathered(std::int64_t layers, double compute, double gather, double scatter) {
  double wire = 0, before = 0, computed = 0;
  for (std::int64_t i = 0; i < layers; ++i) {
    wire = std::max(wire, before) + gather;
    before = computed;
    const double behind = computed;
    computed = std::max(computed, wire) + compute;
    if (i > 0) wire = std::max(wire, behind) + scatter;
  }
  return std::max(computed, std::max(wire, computed) + scatter * (scatter > 0 ? 1 : 0));
}

class Builder {
 public:
  Builder(const Model& m, const Plan& plan, const Card& card, Traffic& traffic, const std::vector<double>& slow_rank)
      : m_(m), plan_(plan), card_(card), traffic_(traffic), slow_stage_(static_cast<std::size_t>(plan.pp), 1) {
    // All ranks of a stage wait for its slowest: at each layer within a tensor group, at the gradients otherwise.
    for (std::size_t r = 0; r < slow_rank.size() && static_cast<std::int64_t>(r) < plan.ranks(); ++r) {
      double& stage = slow_stage_[r / static_cast<std::size_t>(plan.tp * plan.cp * plan.dp)];
      stage = std::max(stage, slow_rank[r]);
    }
  }

  Result<Step> step() {
    WEFT_CHECK(times());
    WEFT_CHECK(chunks());
    WEFT_CHECK(data());
    Step step;
    step.pipeline = run(pipeline_);
    finish(step);
    for (std::int64_t s = 0; s < plan_.pp; ++s) step.stages.push_back(memory_of_stage(m_, plan_, card_, s));
    step.peak = *std::ranges::max_element(step.stages, {}, &StageMemory::total);
    step.fits = fits(step.peak, card_);
    return step;
  }

 private:
  Status times() {
    WEFT_TRY(dense_, layer_time(m_, plan_, card_, traffic_, false));
    if (m_.moe()) {
      WEFT_TRY(moe_, layer_time(m_, plan_, card_, traffic_, true));
    }
    WEFT_TRY(output_, output_time(m_, plan_, card_, traffic_));
    return {};
  }

  // Passes of every chunk, and what they consist of.
  Status chunks() {
    const std::int64_t p = plan_.pp, v = plan_.vp;
    pipeline_ = {.stages = p, .chunks = v, .micro_batches = plan_.micro_batches(), .schedule = plan_.schedule};
    passes_.assign(static_cast<std::size_t>(p), {});
    std::int64_t first = 0;
    for (std::int64_t s = 0; s < p; ++s) {
      for (std::int64_t c = 0; c < v; ++c) {
        const std::int64_t count = v == 1 ? layers_of_stage(m_, plan_, s) : m_.layers / (p * v);
        const std::int64_t from = v == 1 ? first : (c * p + s) * count;
        LayerTime sum;
        for (std::int64_t l = from; l < from + count; ++l) add(sum, m_.moe_layer(l) ? moe_ : dense_);
        if (s == p - 1 && c == v - 1) add(sum, output_);
        ChunkTime time{sum.forward.total(), sum.backward.total(), 0};
        if (plan_.zero == 3) WEFT_CHECK(gather_weights(time, count, sum));
        if (plan_.schedule != Schedule::k1F1B) time.weight = sum.weight, time.backward -= sum.weight;
        const double slow = slow_stage_[static_cast<std::size_t>(s)];
        time = {time.forward * slow, time.backward * slow, time.weight * slow};
        pipeline_.times.push_back(time);
        passes_[static_cast<std::size_t>(s)] += sum.forward;
        passes_[static_cast<std::size_t>(s)] += sum.backward;
      }
      first += layers_of_stage(m_, plan_, s);
    }
    if (p > 1) {
      const double tokens = d(plan_.micro_batch * plan_.seq) / d(plan_.cp * (plan_.tp > 1 ? plan_.tp : 1));
      const Traffic::Group pair{2, static_cast<Rank>(plan_.tp * plan_.cp * plan_.dp)};
      WEFT_TRY(const auto edge,
               traffic_(Collective::kSendReceive, pair, static_cast<Bytes>(tokens * d(m_.hidden) * 2)));
      pipeline_.edge = edge.seconds;
    }
    return {};
  }

  // FSDP: every pass of a layer gathers its weights, the backward pass scatters its gradients.
  Status gather_weights(ChunkTime& time, std::int64_t count, const LayerTime& sum) {
    const Traffic::Group group = replicas();
    if (group.ranks <= 1) return {};
    const StageParameters own = parameters_of_stage(m_, plan_, 0);
    const double layer = (own.dense - d(m_.embedding_parameters() + m_.output_parameters()) / d(plan_.tp)) / d(count);
    WEFT_TRY(const auto gather, traffic_(Collective::kAllGather, group, static_cast<Bytes>(2 * layer)));
    WEFT_TRY(const auto scatter,
             traffic_(Collective::kReduceScatter, group, static_cast<Bytes>(plan_.gradient_bytes * layer)));
    const double taken = static_cast<double>(gather.channels) / card_.multiprocessors;
    const auto pass = [&](double compute, double scattered) {
      const double alone = compute / d(count), wire = gather.seconds + scattered;
      if (plan_.overlap == 0) return compute + d(count) * wire;
      // Communication that runs beside takes multiprocessors away for as long.
      const double slowed = alone + std::min(wire, alone) * taken;
      return gathered(count, slowed, gather.seconds, scattered);
    };
    const double forward = pass(sum.forward.total(), 0), backward = pass(sum.backward.total(), scatter.seconds);
    sharded_exposed_ += forward - time.forward + backward - time.backward;
    sharded_total_ += d(count) * (2 * gather.seconds + scatter.seconds);
    sharded_algorithm_ = gather.algorithm;
    time.forward = forward, time.backward = backward;
    return {};
  }

  Traffic::Group replicas() const { return {static_cast<Rank>(plan_.dp * plan_.cp), static_cast<Rank>(plan_.tp)}; }

  Status data() {
    for (std::int64_t s = 0; s < plan_.pp; ++s) {
      const StageParameters own = parameters_of_stage(m_, plan_, s);
      parameters_.push_back(own);
      Reduction all;
      if (plan_.zero < 3) {
        WEFT_TRY(all, reduction_of(own.dense, replicas(), m_, plan_, card_, traffic_));
      }
      // Replicas of experts are the ranks of a stage that hold the same ones.
      const auto replicas = static_cast<Rank>(plan_.dp * plan_.cp * plan_.tp / plan_.ep);
      WEFT_TRY(const Reduction experts,
               reduction_of(own.expert, {replicas, static_cast<Rank>(plan_.ep)}, m_, plan_, card_, traffic_));
      all.seconds += experts.seconds;
      all.gather += experts.gather;
      all.encode += experts.encode;
      all.last = std::max(all.last, experts.last);
      all.channels = std::max(all.channels, experts.channels);
      if (all.algorithm.empty()) all.algorithm = experts.algorithm;
      reductions_.push_back(all);
    }
    if (plan_.zero > 0 && plan_.zero < 3 && overlaps_data())
      for (std::int64_t s = 0; s < plan_.pp; ++s)
        pipeline_.weights_at.push_back(reductions_[static_cast<std::size_t>(s)].gather + dense_.forward.total());
    return {};
  }

  bool overlaps_data() const { return plan_.software >= 2023 && plan_.overlap != 0; }

  // Behind the pipeline: the rest of the reduction, the optimizer.
  void finish(Step& step) {
    double end = 0;
    std::size_t slowest = 0;
    std::vector<double> exposed(static_cast<std::size_t>(plan_.pp)), optimizers(exposed), busy(exposed);
    for (std::size_t s = 0; s < exposed.size(); ++s) {
      const Reduction& r = reductions_[s];
      const double done = step.pipeline.stage_end[s];
      double reduced = done + r.seconds, begin = done;
      if (overlaps_data()) {
        // Gradients are complete layer by layer in the last backward pass of each chunk.
        const auto last = std::ranges::find_if(
            step.pipeline.pieces.rbegin(), step.pipeline.pieces.rend(),
            [&](const Piece& p) { return p.stage == static_cast<std::int64_t>(s) && p.pass == 'B'; });
        const double window = last == step.pipeline.pieces.rend() ? 0 : last->end - last->begin;
        begin = done - window;
        const double beside = std::min(r.seconds, window);
        const double slower = beside * r.channels / card_.multiprocessors;
        reduced = std::max(done + slower + r.last, begin + slower + r.seconds);
      }
      if (plan_.zero > 0 && plan_.zero < 3 && !overlaps_data()) reduced += r.gather;
      reduced += r.encode;  // its kernels take the GPU from the backward pass
      const double replicas = plan_.zero > 0 ? d(plan_.dp * plan_.cp) : 1;
      const double experts = plan_.zero > 0 ? std::max(1.0, d(plan_.dp * plan_.cp * plan_.tp) / d(plan_.ep)) : 1;
      // Adam: FP32 weight and two moments read and written, gradient read, BF16 weight written.
      const double bytes = (parameters_[s].dense / replicas + parameters_[s].expert / experts) *
                           (2 * plan_.optimizer_bytes + plan_.gradient_bytes + 2);
      optimizers[s] = card_.memory_time(bytes);
      exposed[s] = reduced - done;
      step.data_begin.push_back(begin);
      step.data_end.push_back(reduced);
      const double span = reduced + optimizers[s] - step.pipeline.stage_begin[s];
      if (span > end) end = span, slowest = s;
    }
    const double m = d(plan_.micro_batches());
    const PassTime all = passes_[slowest] * (m * slow_stage_[slowest]);
    step.seconds = end;
    step.parts = {.gemm = all.gemm,
                  .attention = all.attention,
                  .memory_bound = all.memory,
                  .tensor = all.tensor,
                  .context = all.context,
                  .expert = all.expert};
    step.parts.data = exposed[slowest] + sharded_exposed_ * m;
    step.parts.optimizer = optimizers[slowest];
    step.data_total = reductions_[slowest].seconds + reductions_[slowest].gather + sharded_total_ * m;
    step.data_algorithm = plan_.zero == 3 ? sharded_algorithm_ : reductions_[slowest].algorithm;
    step.parts.bubble = end - all.total() - step.parts.data - step.parts.optimizer;
    if (plan_.pp == 1) step.parts.data += std::exchange(step.parts.bubble, 0.0);  // the first gather of weights
    const double tokens = d(plan_.global_batch) * d(plan_.seq), gpus = d(plan_.ranks());
    step.tokens_per_gpu = tokens / end / gpus;
    step.tflops = step.tokens_per_gpu * m_.flops_per_token(plan_.seq) * 1e-12;
    step.mfu = step.tflops * 1e12 / card_.peak;
  }

  static void add(LayerTime& sum, const LayerTime& layer) {
    sum.forward += layer.forward;
    sum.backward += layer.backward;
    sum.weight += layer.weight;
  }

  const Model& m_;
  const Plan& plan_;
  const Card& card_;
  Traffic& traffic_;
  LayerTime dense_, moe_, output_;
  std::vector<double> slow_stage_;  // how many times as long a stage's slowest rank computes
  Pipeline pipeline_;
  std::vector<PassTime> passes_;  // by stage, of one micro-batch, both passes
  std::vector<StageParameters> parameters_;
  std::vector<Reduction> reductions_;
  double sharded_exposed_ = 0, sharded_total_ = 0;  // ZeRO 3, of one micro-batch
  std::string sharded_algorithm_;
};

}  // namespace

std::string Step::limit() const {
  const std::array<std::pair<const char*, double>, 7> losses = {
      std::pair{"the pipeline bubble", parts.bubble},
      {"exposed data-parallel communication", parts.data},
      {"exposed tensor-parallel communication", parts.tensor},
      {"exposed all_to_all of experts", parts.expert},
      {"exposed context-parallel communication", parts.context},
      {"memory-bound kernels", parts.memory_bound},
      {"the optimizer", parts.optimizer}};
  const auto worst = *std::ranges::max_element(losses, {}, &std::pair<const char*, double>::second);
  return fmt::format("{} ({:.1f} %)", worst.first, 100 * worst.second / seconds);
}

Result<Step> simulate_step(const Model& model, const Plan& plan, const Card& card, Traffic& traffic,
                           const std::vector<double>& slow_rank) {
  if (plan.ranks() > traffic.gpus())
    return bad_input("the plan needs {} GPUs (tp {} x pp {} x cp {} x dp {}), the machine has {}", plan.ranks(),
                     plan.tp, plan.pp, plan.cp, plan.dp, traffic.gpus());
  return Builder(model, plan, card, traffic, slow_rank).step();
}

}  // namespace weft::training
