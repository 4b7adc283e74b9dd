#include "apps/training/step.h"

#include <algorithm>
#include <array>
#include <optional>

#include "apps/training/layout.h"
#include "base/counted.h"

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
  Sent sent;
  int channels = 0;
  std::string algorithm;
};

// Who holds the same weights: all replicas, and those among them that share the state of ZeRO.
struct Replicas {
  std::int64_t all = 1, sharing = 1, stride = 1;
  Traffic::Group group() const { return {static_cast<Rank>(all), static_cast<Rank>(stride)}; }
  Traffic::Group shard() const { return {static_cast<Rank>(sharing), static_cast<Rank>(stride)}; }
  Traffic::Group copies() const { return {static_cast<Rank>(all / sharing), static_cast<Rank>(stride * sharing)}; }
};

Result<Reduction> reduction_of(double parameters, double held, const Replicas& replicas, const Model& model,
                               const Plan& plan, const Card& card, Traffic& traffic) {
  Reduction r;
  if (replicas.all <= 1 || parameters <= 0) return r;
  const double bytes = parameters * plan.gradient_bytes;
  const bool sharded = plan.zero > 0 && replicas.sharing > 1;
  const Collective collective = sharded ? Collective::kReduceScatter : Collective::kAllReduce;
  double first = std::min(bytes, kFirstBucket), bucket = kBucket;
  if (sharded) {
    bucket = std::max(kShardedBucket, kShardedBucketPerRank * d(replicas.all)) * plan.gradient_bytes;
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
    const Encoded wire = encoded(size, static_cast<Rank>(replicas.all), model, plan, card);
    WEFT_TRY(const auto cost, traffic(plan.compression.any() ? wire.collective : collective,
                                      sharded ? replicas.shard() : replicas.group(),
                                      std::max<Bytes>(1, static_cast<Bytes>(wire.bytes))));
    double seconds = wire.collectives * cost.seconds;
    r.sent.add(times * wire.collectives, wire.bytes, cost.seconds);
    if (sharded && replicas.sharing < replicas.all) {
      WEFT_TRY(const auto sum, traffic(Collective::kAllReduce, replicas.copies(),
                                       std::max<Bytes>(1, static_cast<Bytes>(size / d(replicas.sharing)))));
      seconds += sum.seconds;
      r.sent.add(times, size / d(replicas.sharing), sum.seconds);
    }
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
    // Updated weights; all of them where ZeRO 3 spread them between the steps.
    const double weights = 2 * (plan.zero == 3 ? held : parameters), piece = std::min(weights, bucket);
    WEFT_TRY(const auto gather, traffic(Collective::kAllGather, replicas.shard(), static_cast<Bytes>(piece)));
    r.gather = gather.seconds * weights / piece;
    r.sent.add(weights / piece, piece, gather.seconds);
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

  Result<Step> step(const std::optional<StageMemory>& peak) {
    WEFT_CHECK(times());
    WEFT_CHECK(chunks());
    WEFT_CHECK(data());
    Step step;
    step.pipeline = run(pipeline_);
    finish(step);
    if (peak) {
      step.peak = *peak;
    } else {
      for (std::int64_t s = 0; s < plan_.pp; ++s) step.stages.push_back(memory_of_stage(m_, plan_, card_, s));
      step.peak = *std::ranges::max_element(step.stages, {}, &StageMemory::total);
    }
    step.fits = fits(step.peak, card_);
    return step;
  }

 private:
  Status times() {
    WEFT_TRY(dense_, layer_time(m_, plan_, card_, traffic_, false));
    if (m_.moe()) {
      WEFT_TRY(moe_, layer_time(m_, plan_, card_, traffic_, true));
    }
    if (plan_.mtp > 0) {
      WEFT_TRY(predict_, predict_time(m_, plan_, card_, traffic_));
    }
    WEFT_TRY(output_, output_time(m_, plan_, card_, traffic_));
    return {};
  }

  // Passes of every chunk, and what they consist of.
  Status chunks() {
    const std::int64_t p = plan_.pp, v = plan_.vp;
    pipeline_ = {.stages = p, .chunks = v, .micro_batches = plan_.micro_batches(), .schedule = plan_.schedule};
    passes_.assign(static_cast<std::size_t>(p), {});
    pipeline_.times.resize(static_cast<std::size_t>(p * v));
    for (const Chunk& chunk : chunks_of(m_, plan_)) {
      LayerTime sum;
      for (std::int64_t l = 0; l < chunk.layers; ++l) add(sum, m_.moe_layer(chunk.first + l) ? moe_ : dense_);
      if (chunk.stage == p - 1 && chunk.chunk == v - 1) {
        for (std::int64_t i = 0; i < plan_.mtp; ++i) add(sum, predict_);
        add(sum, output_);
      }
      ChunkTime time{sum.forward.total(), sum.backward.total(), 0};
      if (plan_.gathers_per_pass()) WEFT_CHECK(gather_weights(time, chunk.layers, sum));
      if (plan_.schedule != Schedule::k1F1B) time.weight = sum.weight, time.backward -= sum.weight;
      const double slow = slow_stage_[static_cast<std::size_t>(chunk.stage)];
      pipeline_.times[static_cast<std::size_t>(chunk.stage * v + chunk.chunk)] = {
          time.forward * slow, time.backward * slow, time.weight * slow};
      passes_[static_cast<std::size_t>(chunk.stage)] += sum.forward;
      passes_[static_cast<std::size_t>(chunk.stage)] += sum.backward;
    }
    if (p > 1) {
      const double tokens = d(plan_.micro_batch * plan_.seq) / d(plan_.cp * (plan_.tp > 1 ? plan_.tp : 1));
      const Traffic::Group pair{2, static_cast<Rank>(plan_.tp * plan_.cp * plan_.dp)};
      WEFT_TRY(const auto edge,
               traffic_(Collective::kSendReceive, pair, static_cast<Bytes>(tokens * d(m_.hidden) * 2)));
      pipeline_.edge = edge.seconds;
      // Forward and backward between all chunks, each sent by one stage and as many as there are between them.
      edge_.add(2 * d(plan_.micro_batches()) * d(p * v - 1) / d(p), tokens * d(m_.hidden) * 2, edge.seconds);
    }
    return {};
  }

  // FSDP: every pass of a layer gathers its weights, the backward pass scatters its gradients.
  Status gather_weights(ChunkTime& time, std::int64_t count, const LayerTime& sum) {
    const StageParameters own = parameters_of_stage(m_, plan_, 0), trained = trained_of_stage(m_, plan_, 0);
    const double ends = d(m_.embedding_parameters() + m_.output_parameters()) / d(plan_.tp), layers = d(count);
    Traffic::Cost gather, scatter;
    Sent sent;  // of one layer
    const auto charge = [&](const Replicas& among, double weights, double gradients) -> Status {
      if (among.all <= 1 || weights <= 0) return {};
      WEFT_TRY(const auto in, traffic_(Collective::kAllGather, among.shard(), static_cast<Bytes>(2 * weights)));
      WEFT_TRY(auto out, traffic_(Collective::kReduceScatter, among.shard(),
                                  static_cast<Bytes>(plan_.gradient_bytes * gradients)));
      sent.add(2, 2 * weights, in.seconds);
      sent.add(1, plan_.gradient_bytes * gradients, out.seconds);
      if (among.sharing < among.all) {
        WEFT_TRY(const auto sum, traffic_(Collective::kAllReduce, among.copies(),
                                          static_cast<Bytes>(plan_.gradient_bytes * gradients / d(among.sharing))));
        out.seconds += sum.seconds;
        sent.add(1, plan_.gradient_bytes * gradients / d(among.sharing), sum.seconds);
      }
      gather.seconds += in.seconds, scatter.seconds += out.seconds;
      gather.channels = std::max(gather.channels, in.channels);
      if (!in.algorithm.empty()) gather.algorithm = in.algorithm;
      return {};
    };
    WEFT_CHECK(charge(replicas(), std::max(0.0, own.dense - ends) / layers,
                      std::min(trained.dense, std::max(0.0, own.dense - ends)) / layers));
    WEFT_CHECK(charge(expert_replicas(), own.expert / layers, trained.expert / layers));
    if (gather.seconds == 0) return {};
    const double taken = static_cast<double>(gather.channels) / card_.multiprocessors;
    const auto pass = [&](double compute, double scattered) {
      const double alone = compute / d(count), wire = gather.seconds + scattered;
      if (plan_.overlap == 0 || !card_.overlaps()) return compute + d(count) * wire;
      // Communication that runs beside takes multiprocessors away for as long.
      const double slowed = alone + std::min(wire, alone) * taken;
      return gathered(count, slowed, gather.seconds, scattered);
    };
    const double forward = pass(sum.forward.total(), 0), backward = pass(sum.backward.total(), scatter.seconds);
    sharded_exposed_ += forward - time.forward + backward - time.backward;
    sharded_total_ += d(count) * (2 * gather.seconds + scatter.seconds);
    sharded_sent_ += sent * d(count);
    sharded_algorithm_ = gather.algorithm;
    time.forward = forward, time.backward = backward;
    return {};
  }

  Replicas replicas() const { return {plan_.replicas(), plan_.sharded(), plan_.tp}; }
  // Replicas of experts are the ranks of a stage that hold the same ones.
  Replicas expert_replicas() const {
    const std::int64_t all = plan_.expert_replicas();
    const std::int64_t copies = plan_.replicas() / plan_.sharded();
    return {all, all % copies == 0 ? all / copies : all, plan_.etp * plan_.ep};
  }

  Status data() {
    for (std::int64_t s = 0; s < plan_.pp; ++s) {
      const StageParameters own = parameters_of_stage(m_, plan_, s), trained = trained_of_stage(m_, plan_, s);
      parameters_.push_back(trained);
      Reduction all, experts;
      if (!plan_.gathers_per_pass()) {
        WEFT_TRY(all, reduction_of(trained.dense, own.dense, replicas(), m_, plan_, card_, traffic_));
        WEFT_TRY(experts, reduction_of(trained.expert, own.expert, expert_replicas(), m_, plan_, card_, traffic_));
      }
      all.seconds += experts.seconds;
      all.sent += experts.sent;
      all.gather += experts.gather;
      all.encode += experts.encode;
      all.last = std::max(all.last, experts.last);
      all.channels = std::max(all.channels, experts.channels);
      if (all.algorithm.empty()) all.algorithm = experts.algorithm;
      reductions_.push_back(all);
    }
    if (plan_.zero > 0 && !plan_.gathers_per_pass() && overlaps_data())
      for (std::int64_t s = 0; s < plan_.pp; ++s)
        pipeline_.weights_at.push_back(reductions_[static_cast<std::size_t>(s)].gather + dense_.forward.total());
    return {};
  }

  bool overlaps_data() const { return plan_.software >= 2023 && plan_.overlap != 0 && card_.overlaps(); }

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
      if (plan_.zero > 0 && !plan_.gathers_per_pass() && !overlaps_data()) reduced += r.gather;
      reduced += r.encode;  // its kernels take the GPU from the backward pass
      optimizers[s] = optimizer_time(parameters_[s]);
      exposed[s] = reduced - done;
      step.data_begin.push_back(begin);
      step.data_end.push_back(reduced);
      const double span = reduced + optimizers[s] - step.pipeline.stage_begin[s];
      if (span > end) end = span, slowest = s;
    }
    step.seconds = end;
    step.data_total =
        reductions_[slowest].seconds + reductions_[slowest].gather + sharded_total_ * d(plan_.micro_batches());
    step.data_algorithm = plan_.gathers_per_pass() ? sharded_algorithm_ : reductions_[slowest].algorithm;
    step.parts = parts(end, exposed, optimizers);
    step.sends = sends(step.parts);
    const double tokens = d(plan_.global_batch) * d(plan_.seq), gpus = d(plan_.ranks());
    step.tokens_per_gpu = tokens / end / gpus;
    // Adapters leave out the weights' gradients, a third of a model's FLOP.
    const double computed = plan_.lora > 0 ? 2.0 / 3 : 1;
    step.tflops = step.tokens_per_gpu * m_.flops_per_token(plan_.seq) * computed * 1e-12;
    step.mfu = step.tflops * 1e12 / card_.peak;
  }

  // Adam: FP32 weight and two moments read and written, gradient read, BF16 weight written. Muon: a momentum that five
  // Newton-Schulz steps make orthogonal, 4 a² b + 2 a³ FLOP each for a matrix of a × b (github.com/KellerJordan/Muon).
  double optimizer_time(const StageParameters& trained) const {
    const double dense = trained.dense / (plan_.zero > 0 ? d(plan_.sharded()) : 1);
    const double expert = trained.expert / (plan_.zero > 0 ? d(expert_replicas().sharing) : 1);
    const double bytes = (dense + expert) * (2 * plan_.optimizer_bytes + plan_.gradient_bytes + 2);
    double seconds = card_.memory_time(bytes);
    if (plan_.optimizer == Optimizer::kMuon) {
      const auto per_parameter = [](double a, double b) { return 5 * (4 * a + 2 * a * a / b); };
      const double h = d(m_.hidden), wide = std::max(h, d(m_.ffn)), f = d(m_.moe_ffn), eh = d(m_.expert_hidden);
      const double flops =
          dense * per_parameter(h, wide) + (expert > 0 ? expert * per_parameter(std::min(f, eh), std::max(f, eh)) : 0);
      seconds += flops / (card_.peak16 * card_.gemm);
    }
    return seconds;
  }

  // Where the time goes: the mean over all stages, what the slowest stage takes more, and what nothing of the slowest
  // stage fills.
  Breakdown parts(double end, const std::vector<double>& exposed, const std::vector<double>& optimizers) const {
    const double micro = d(plan_.micro_batches()), stages = d(plan_.pp);
    Breakdown b;
    double sum = 0, most = 0;
    for (std::size_t s = 0; s < exposed.size(); ++s) {
      const PassTime all = passes_[s] * (micro * slow_stage_[s]);
      const double data = exposed[s] + sharded_exposed_ * micro;
      b.gemm += all.gemm / stages, b.attention += all.attention / stages, b.memory_bound += all.memory / stages;
      b.host += all.host / stages, b.tensor += all.tensor / stages, b.context += all.context / stages;
      b.expert += all.expert / stages, b.data += data / stages, b.optimizer += optimizers[s] / stages;
      const double own = all.total() + data + optimizers[s];
      sum += own, most = std::max(most, own);
    }
    b.imbalance = most - sum / stages;
    b.bubble = end - most;
    if (plan_.pp == 1) b.data += std::exchange(b.bubble, 0.0);  // the first gather of weights
    return b;
  }

  std::vector<Step::Sends> sends(const Breakdown& parts) const {
    const double micro = d(plan_.micro_batches()), stages = d(plan_.pp);
    PassTime all;
    Sent data = sharded_sent_ * (micro / stages);
    for (const PassTime& stage : passes_) all += stage;
    for (const Reduction& r : reductions_) data += r.sent * (1 / stages);
    std::vector<Step::Sends> found;
    for (const Step::Sends& one : {Step::Sends{"tensor", all.tensor_sent * (micro / stages), parts.tensor},
                                   {"context", all.context_sent * (micro / stages), parts.context},
                                   {"expert", all.expert_sent * (micro / stages), parts.expert},
                                   {"pipeline", edge_, 0},
                                   {"data", data, parts.data}})
      if (one.sent.calls > 0) found.push_back(one);
    return found;
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
  LayerTime dense_, moe_, output_, predict_;
  Sent edge_, sharded_sent_;        // between stages, of a step; of ZeRO 3, one micro-batch
  std::vector<double> slow_stage_;  // how many times as long a stage's slowest rank computes
  Pipeline pipeline_;
  std::vector<PassTime> passes_;             // by stage, of one micro-batch, both passes
  std::vector<StageParameters> parameters_;  // that are trained
  std::vector<Reduction> reductions_;
  double sharded_exposed_ = 0, sharded_total_ = 0;  // ZeRO 3, of one micro-batch
  std::string sharded_algorithm_;
};

}  // namespace

std::string Step::limit() const {
  const std::array<std::pair<const char*, double>, 9> losses = {
      std::pair{"the pipeline bubble", parts.bubble},
      {"stages that compute longer than others", parts.imbalance},
      {"the host, which launches kernels too late", parts.host},
      {"exposed data-parallel communication", parts.data},
      {"exposed tensor-parallel communication", parts.tensor},
      {"exposed all_to_all of experts", parts.expert},
      {"exposed context-parallel communication", parts.context},
      {"memory-bound kernels", parts.memory_bound},
      {"the optimizer", parts.optimizer}};
  const auto worst = *std::ranges::max_element(losses, {}, &std::pair<const char*, double>::second);
  return fmt::format("{} ({:.1f} % of the step)", worst.first, 100 * worst.second / seconds);
}

Result<Step> simulate_step(const Model& model, const Plan& plan, const Card& card, Traffic& traffic,
                           const std::vector<double>& slow_rank, const std::optional<StageMemory>& peak) {
  if (plan.ranks() > traffic.gpus())
    return bad_input("the plan needs {} (tp {} x pp {} x cp {} x dp {}), the machine has {}",
                     counted(plan.ranks(), "GPU"), plan.tp, plan.pp, plan.cp, plan.dp, traffic.gpus());
  return Builder(model, plan, card, traffic, slow_rank).step(peak);
}

}  // namespace weft::training
