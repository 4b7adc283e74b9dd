#include "apps/training/budget.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/counted.h"

namespace weft::training {
namespace {

constexpr double kDay = 86400;

// The share of the time in which more than `spares` of the nodes are being repaired.
double more_than(std::int64_t spares, double being_repaired) {
  double term = std::exp(-being_repaired), sum = 0;
  for (std::int64_t k = 0; k <= spares; ++k) {
    sum += term;
    term *= being_repaired / static_cast<double>(k + 1);
  }
  return std::max(0.0, 1 - sum);
}

}  // namespace

Result<report::TrainBudget> budget_of(const report::TrainRun& run, double tokens_per_gpu, std::int64_t gpus,
                                      std::int64_t nodes) {
  for (const auto& [name, value] : {std::pair{"--tokens", run.tokens},
                                    {"--price", run.price},
                                    {"--failures", run.failures},
                                    {"--checkpoint-time", run.checkpoint_s},
                                    {"--checkpoint-every", run.checkpoint_every_s},
                                    {"--restart-time", run.restart_s},
                                    {"--repair-time", run.repair_s},
                                    {"--spares", static_cast<double>(run.spares)}})
    if (!(value >= 0) || !std::isfinite(value)) return bad_input("{} {}: at least 0", name, value);
  report::TrainBudget b;
  const double rate = run.failures / 1000 / kDay * static_cast<double>(nodes);  // of the job, per second
  b.mttf_s = rate > 0 ? 1 / rate : 0;
  b.interval_s = run.checkpoint_every_s > 0         ? run.checkpoint_every_s
                 : rate > 0 && run.checkpoint_s > 0 ? std::sqrt(2 * run.checkpoint_s / rate)
                                                    : 0;
  if (b.interval_s > 0) b.checkpoints = run.checkpoint_s / (b.interval_s + run.checkpoint_s);
  b.lost = rate * (b.interval_s + run.checkpoint_s) / 2;
  b.restarts = rate * run.restart_s;
  if (rate > 0) b.waiting = more_than(run.spares, rate * run.repair_s);
  b.goodput = (1 - b.waiting) * (1 - b.checkpoints - b.lost - b.restarts);
  if (!(b.goodput > 0))
    return bad_input(
        "--failures {}: {} fail every {:.0f} s on average, which leaves no time between restarts, checkpoints and "
        "repairs",
        run.failures, counted(nodes, "node"), b.mttf_s);
  const double all = static_cast<double>(gpus) * (1 + static_cast<double>(run.spares) / static_cast<double>(nodes));
  b.days = run.tokens / (tokens_per_gpu * static_cast<double>(gpus)) / b.goodput / kDay;
  b.gpu_hours = b.days * 24 * all;
  b.money = b.gpu_hours * run.price;
  return b;
}

}  // namespace weft::training
