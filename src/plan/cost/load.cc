#include "plan/cost/load.h"

#include <algorithm>
#include <map>

namespace weft::cost {

double busiest_seconds(const MachineView& machine, protocol::Protocol protocol, const Paths& paths,
                       std::span<const double> pieces) {
  if (!machine.costs().gpu()) return 0;
  const auto directions = paths.directions();
  std::vector<double> on_direction(directions.size());
  std::map<std::int32_t, double> on_host;  // by node
  for (Number p = 0; p < pieces.size(); ++p) {
    if (pieces[p] == 0) continue;
    const Paths::Path& path = paths[p];
    const protocol::HopCost* cost = path.kind.cost(machine.costs(), protocol);
    if (cost == nullptr) return 0;
    for (const Number d : paths.hops(path))
      on_direction[d] += pieces[p] / (cost->efficiency * machine.rate(directions[d]).value());
    const double host = protocol::HopCosts::node(*cost, machine.topology().nodes()).value();
    if (host > 0 && !path.of_group) on_host[paths.node(path.from)] += pieces[p] / host;
  }
  double busiest = on_direction.empty() ? 0 : *std::ranges::max_element(on_direction);
  for (const auto& [node, seconds] : on_host) busiest = std::max(busiest, seconds);
  return busiest;
}

Load::Load(const MachineView& machine, const schedule::Task& task, const schedule::Plan& plan, double most_steps)
    : machine_(&machine), paths_(machine, {}) {
  if (!machine.costs().gpu() || task.ranks > machine.endpoints()) return;
  const int channels = schedule::busy_channels(task, plan);
  const schedule::RankContext context = schedule::context_of(task, plan);
  const int repeats = plan.algorithm->repeats_for(context);
  constexpr int kRepetitions = 3;
  schedule::Plan shorter = plan;
  if (repeats > kRepetitions) shorter.repeat_limit = kRepetitions;
  double steps = 0;
  for (int lane = 0; lane < plan.algorithm->lanes; ++lane) {
    auto steps_of_rank = plan.algorithm->steps(context_of(task, shorter, task.ranks / 2, lane, 0));
    while (steps_of_rank.next() != nullptr && steps < most_steps) ++steps;
  }
  if (steps * task.ranks * std::min(channels, plan.algorithm->orders_for(context)) > most_steps) return;
  const auto count = [&](int repeat_limit) {
    shorter.repeat_limit = repeat_limit;
    return Shares(machine, task, shorter, paths_, channels).pieces();
  };
  if (repeats <= kRepetitions) {
    pieces_ = count(plan.repeat_limit);
    return;
  }
  const std::vector<double> fewer = count(kRepetitions - 1);
  pieces_ = count(kRepetitions);
  for (std::size_t p = 0; p < pieces_.size(); ++p)
    pieces_[p] += (repeats - kRepetitions) * (pieces_[p] - (p < fewer.size() ? fewer[p] : 0));
}

Duration Load::least(const schedule::Task& task, const schedule::Plan& plan) const {
  if (pieces_.empty() || !schedule::alike(task.collective)) return {};
  // Chunks differ by what does not divide; a link that carries many of them carries the mean.
  const double mean = static_cast<double>(task.elements) /
                      static_cast<double>(std::max(task.elements, schedule::with_equal_chunks(task, plan).elements));
  const Bytes piece =
      schedule::LoweringContext(task, plan).layout.largest_chunk() / schedule::busy_channels(task, plan);
  return Duration::seconds(busiest_seconds(*machine_, plan.protocol, paths_, pieces_) * mean *
                           static_cast<double>(protocol::wire_bytes(plan.protocol, piece)));
}

}  // namespace weft::cost
