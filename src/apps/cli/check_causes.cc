#include "apps/cli/check_causes.h"

#include <algorithm>
#include <cmath>

#include "model/simulate/faults.h"

namespace weft::cli {
namespace {

using accuracy::Point;
using doctor::Cause;
using doctor::Residual;

Result<std::vector<Residual>> replayed(const Cause& cause, const Machine& machine, accuracy::Table table) {
  auto changed = doctor::changed(machine.view->topology(), cause);
  if (!changed) return bad_input("no such part");
  if (!cause.faults.empty()) {
    WEFT_TRY(auto faulted, simulate::apply_faults(*changed, cause.faults));
    *changed = std::move(faulted.machine);
  }
  for (Point& point : table.points)
    if (!cause.protocol.empty()) point.protocol = cause.protocol;
  accuracy::Predictor predictor(cost::MachineView(std::move(*changed), machine.view->costs(), machine.view->caches()));
  return residuals(predictor, table);
}

// The largest row on machines with a slower network.
Result<std::vector<doctor::Slowdown>> slowdowns(accuracy::Predictor& predictor, const Machine& machine,
                                                const accuracy::Table& table) {
  std::vector<doctor::Slowdown> all = {{}};
  if (machine.view->topology().nodes() < 2) return all;
  const Point& last = *std::ranges::max_element(table.points, {}, &Point::bytes);
  WEFT_TRY(const auto healthy, predictor.predict(table, last));
  for (const double rate : {0.7, 0.5, 0.35, 0.2, 0.1}) {
    Cause slower;
    slower.network = rate;
    auto changed = doctor::changed(machine.view->topology(), slower);
    if (!changed) break;
    accuracy::Predictor slow(cost::MachineView(std::move(*changed), machine.view->costs(), machine.view->caches()));
    WEFT_TRY(const auto prediction, slow.predict(table, last));
    all.push_back({rate, prediction.time / healthy.time});
  }
  return all;
}

}  // namespace

Result<std::vector<Residual>> residuals(accuracy::Predictor& predictor, const accuracy::Table& table) {
  std::vector<Residual> all;
  for (const Point& point : table.points) {
    WEFT_TRY(const auto prediction, predictor.predict(table, point));
    all.push_back({std::log(point.time / prediction.time), point.bytes >= kLargeMessage});
  }
  return all;
}

accuracy::Table sample(const accuracy::Table& table) {
  constexpr std::size_t kLargeRows = 4, kSmallRows = 2;
  accuracy::Table part = table;
  part.points.clear();
  for (const bool large : {false, true}) {
    std::vector<Point> rows;
    for (const Point& point : table.points)
      if ((point.bytes >= kLargeMessage) == large) rows.push_back(point);
    const std::size_t wanted = std::min(large ? kLargeRows : kSmallRows, rows.size());
    for (std::size_t i = 0; i < wanted; ++i)
      part.points.push_back(rows[wanted == 1 ? rows.size() - 1 : i * (rows.size() - 1) / (wanted - 1)]);
  }
  return part;
}

Result<std::vector<Explanation>> explanations(accuracy::Predictor& predictor, const Machine& machine,
                                              const accuracy::Table& table, const std::vector<Residual>& healthy) {
  WEFT_TRY(const auto slower, slowdowns(predictor, machine, table));
  WEFT_TRY(const auto causes, doctor::shipped_causes());
  std::vector<Explanation> all = {
      {"model", "the model is at fault, the machine is healthy", "weft calibrate", 0,
       std::log(doctor::kModelPrior) + doctor::log_likelihood(healthy, doctor::kModelSpread)}};
  all[0].left = doctor::distance(healthy);
  all[0].spread = doctor::kModelSpread;
  const bool several = table.points.front().ranks > machine.view->ranks_per_node(table.points.front().ranks);
  for (Cause cause : causes) {
    if (cause.network != 1) cause.network = doctor::rate_for(slower, cause.network);
    const auto rows = replayed(cause, machine, table);
    if (!rows) continue;  // the machine has no such part, or the cause cannot be on it
    all.push_back({cause.id, cause.words, cause.verify, doctor::distance(*rows),
                   std::log(several ? cause.several : cause.alone) + doctor::log_likelihood(*rows, cause.spread),
                   cause.spread});
  }
  const double best = std::ranges::max(all, {}, &Explanation::likelihood).likelihood;
  double sum = 0;
  for (Explanation& e : all) sum += e.likelihood = std::exp(e.likelihood - best);
  for (Explanation& e : all) e.likelihood /= sum;
  std::ranges::stable_sort(all, std::ranges::greater(), &Explanation::likelihood);
  return all;
}

}  // namespace weft::cli
