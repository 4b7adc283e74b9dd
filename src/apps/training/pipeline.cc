#include "apps/training/pipeline.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace weft::training {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Pass {
  std::int64_t chunk, micro_batch;
  char kind;
};

// When every forward and backward pass ended.
class Ends {
 public:
  explicit Ends(const Pipeline& p) : p_(p) {
    const auto all = static_cast<std::size_t>(p.stages * p.chunks * p.micro_batches);
    forward_.assign(all, kNever);
    backward_.assign(all, kNever);
  }
  double& of(char kind, std::int64_t stage, std::int64_t chunk, std::int64_t micro) {
    auto& ends = kind == 'F' ? forward_ : backward_;
    return ends[static_cast<std::size_t>((stage * p_.chunks + chunk) * p_.micro_batches + micro)];
  }
  // When a pass may start, by what it needs of other stages.
  double ready(std::int64_t stage, Pass pass) {
    const auto [chunk, micro, kind] = pass;
    if (kind == 'W') return of('B', stage, chunk, micro);
    if (kind == 'F') {
      if (stage > 0) return of('F', stage - 1, chunk, micro) + p_.edge;
      return chunk > 0 ? of('F', p_.stages - 1, chunk - 1, micro) + p_.edge : 0;
    }
    const double own = of('F', stage, chunk, micro);
    if (stage < p_.stages - 1) return std::max(own, of('B', stage + 1, chunk, micro) + p_.edge);
    return chunk < p_.chunks - 1 ? std::max(own, of('B', 0, chunk + 1, micro) + p_.edge) : own;
  }

 private:
  const Pipeline& p_;
  std::vector<double> forward_, backward_;
};

class Runner {
 public:
  explicit Runner(const Pipeline& p) : p_(p), ends_(p) {
    WEFT_REQUIRE(static_cast<std::int64_t>(p.times.size()) == p.stages * p.chunks);
    result_.stage_end.assign(static_cast<std::size_t>(p.stages), 0);
    result_.stage_busy = result_.stage_begin = result_.stage_end;
  }

  double ready(std::int64_t stage, Pass pass) { return ends_.ready(stage, pass); }
  double free_at(std::int64_t stage) const { return result_.stage_end[static_cast<std::size_t>(stage)]; }

  void carry_out(std::int64_t stage, Pass pass, double ready) {
    const auto s = static_cast<std::size_t>(stage);
    const ChunkTime& time = p_.times[static_cast<std::size_t>(stage * p_.chunks + pass.chunk)];
    const double takes = pass.kind == 'F' ? time.forward : pass.kind == 'B' ? time.backward : time.weight;
    const double begin = std::max(ready, result_.stage_end[s]);
    double end = begin + takes;
    if (pass.kind == 'F' && pass.micro_batch == 0 && !p_.weights_at.empty()) end = std::max(end, p_.weights_at[s]);
    if (pass.kind != 'W') ends_.of(pass.kind, stage, pass.chunk, pass.micro_batch) = end;
    result_.stage_end[s] = end;
    if (p_.schedule == Schedule::kZeroBubble2 && result_.stage_busy[s] == 0) result_.stage_begin[s] = begin;
    result_.stage_busy[s] += takes;
    result_.pieces.push_back({stage, pass.chunk, pass.micro_batch, pass.kind, begin, end});
  }

  PipelineRun done() {
    for (std::size_t s = 0; s < result_.stage_end.size(); ++s)
      result_.seconds = std::max(result_.seconds, result_.stage_end[s] - result_.stage_begin[s]);
    return std::move(result_);
  }

 private:
  const Pipeline& p_;
  Ends ends_;
  PipelineRun result_;
};

// The order of one stage: warm-up, then forward and backward in turn, then what is left.
std::vector<Pass> order_of(const Pipeline& p, std::int64_t stage) {
  const std::int64_t all = p.micro_batches * p.chunks, row = p.stages * p.chunks;
  std::int64_t warm_up = p.stages - stage - 1;
  if (p.chunks > 1) warm_up = p.micro_batches == p.stages ? all : 2 * warm_up + (p.chunks - 1) * p.stages;
  warm_up = std::min(warm_up, all);
  const auto pass = [&](std::int64_t k, char kind) {
    const std::int64_t chunk = k % row / p.stages;
    const std::int64_t micro = p.chunks == 1 ? k : k / row * p.stages + k % p.stages;
    return Pass{p.chunks == 1 ? 0 : kind == 'F' ? chunk : p.chunks - 1 - chunk, micro, kind};
  };
  std::vector<Pass> order;
  for (std::int64_t k = 0; k < warm_up; ++k) order.push_back(pass(k, 'F'));
  for (std::int64_t k = warm_up; k < all; ++k) {
    order.push_back(pass(k, 'F'));
    order.push_back(pass(k - warm_up, 'B'));
  }
  for (std::int64_t k = all - warm_up; k < all; ++k) order.push_back(pass(k, 'B'));
  return order;
}

// ZB-H1 of arXiv 2401.10241: as 1F1B, but weights' gradients of a stage lag behind by its number, so that the last
// stages fill with them the time that the first ones wait for.
std::vector<Pass> zero_bubble_order(const Pipeline& p, std::int64_t stage) {
  const std::int64_t m = p.micro_batches, warm_up = std::min(m, p.stages - stage - 1), lag = std::min(m, stage);
  std::vector<Pass> order;
  for (std::int64_t k = 0; k < warm_up; ++k) order.push_back({0, k, 'F'});
  for (std::int64_t k = 0; k < m; ++k) {
    if (k + warm_up < m) order.push_back({0, k + warm_up, 'F'});
    order.push_back({0, k, 'B'});
    if (k >= lag) order.push_back({0, k - lag, 'W'});
  }
  for (std::int64_t k = m - lag; k < m; ++k) order.push_back({0, k, 'W'});
  return order;
}

// ZB-H2 of the same paper: a stage starts with as many forward passes as fill its wait for the first backward pass,
// 2 (p - s) - 1 of them. Weights' gradients lag behind by `lag` (half passes) for each stage before it and `more`
// passes.
struct Lag {
  std::int64_t lag = 0, more = 0;
  bool forward_first = false;  // in the steady state
};
std::vector<Pass> zero_bubble2_order(const Pipeline& p, std::int64_t stage, const Lag& by) {
  const std::int64_t m = p.micro_batches, warm_up = std::min(m, 2 * (p.stages - stage) - 1);
  const std::int64_t lag = std::min(m, by.lag * stage / 2 + by.more);
  std::vector<Pass> order;
  for (std::int64_t k = 0; k < warm_up; ++k) order.push_back({0, k, 'F'});
  for (std::int64_t k = 0; k < m; ++k) {
    const bool more = k + warm_up < m;
    if (more && by.forward_first) order.push_back({0, k + warm_up, 'F'});
    order.push_back({0, k, 'B'});
    if (more && !by.forward_first) order.push_back({0, k + warm_up, 'F'});
    if (k >= lag) order.push_back({0, k - lag, 'W'});
  }
  for (std::int64_t k = m - lag; k < m; ++k) order.push_back({0, k, 'W'});
  return order;
}

PipelineRun in_order(const Pipeline& p, const std::vector<std::vector<Pass>>& orders) {
  Runner runner(p);
  std::vector<std::size_t> next(orders.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::int64_t s = 0; s < p.stages; ++s) {
      auto& at = next[static_cast<std::size_t>(s)];
      const auto& order = orders[static_cast<std::size_t>(s)];
      for (; at < order.size(); ++at, moved = true) {
        const double ready = runner.ready(s, order[at]);
        if (ready == kNever) break;
        runner.carry_out(s, order[at], ready);
      }
    }
  }
  for (std::size_t s = 0; s < next.size(); ++s) WEFT_ASSERT(next[s] == orders[s].size());
  return runner.done();
}

}  // namespace

PipelineRun run(const Pipeline& pipeline) {
  const auto all = [&](const auto& order_of_stage) {
    std::vector<std::vector<Pass>> orders;
    for (std::int64_t s = 0; s < pipeline.stages; ++s) orders.push_back(order_of_stage(s));
    return in_order(pipeline, orders);
  };
  if (pipeline.schedule == Schedule::k1F1B) return all([&](std::int64_t s) { return order_of(pipeline, s); });
  if (pipeline.schedule == Schedule::kZeroBubble)
    return all([&](std::int64_t s) { return zero_bubble_order(pipeline, s); });
  constexpr std::int64_t kMostLag = 16;
  PipelineRun best;
  for (std::int64_t lag = 0; lag <= kMostLag; ++lag)
    for (const std::int64_t more : {0, 1, 2, 4})
      for (const bool forward_first : {false, true}) {
        PipelineRun found = all([&](std::int64_t s) {
          return zero_bubble2_order(pipeline, s, {lag, more, forward_first});
        });
        if (best.pieces.empty() || found.seconds < best.seconds) best = std::move(found);
      }
  return best;
}

}  // namespace weft::training
