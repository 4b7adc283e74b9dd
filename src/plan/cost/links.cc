#include "plan/cost/links.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "plan/cost/load.h"

namespace weft::cost {

namespace {

// A protocol's cost on every kind of path; null: it does not run there.
using Costs = std::array<const protocol::HopCost*, PathKind::kCount>;

Costs costs_of(const protocol::HopCosts& table, protocol::Protocol protocol) {
  Costs costs{};
  for (int type = 0; type <= static_cast<int>(topology::PathType::kDis); ++type)
    for (const bool by_switch : {false, true}) {
      const PathKind kind{static_cast<topology::PathType>(type), by_switch};
      costs[kind.index()] = kind.cost(table, protocol);
    }
  return costs;
}

Error does_not_run(protocol::Protocol protocol, const Paths::Path& path) {
  const std::string_view protocol_name = protocol::traits(protocol).name, type = name(path.kind.type);
  if (!path.of_group)
    return {Code::kUnsupported, Blame::kInput,
            fmt::format("{} does not run from rank {} to rank {}: a {} path", protocol_name, path.from, path.to, type)};
  return {Code::kUnsupported, Blame::kInput,
          fmt::format("{} does not run through switches that sum between ranks {} and {}{}", protocol_name, path.from,
                      path.to, path.kind.type == topology::PathType::kDis ? ": there are none on the way" : "")};
}

Shares::Kinds busy_kinds(const Costs& costs) {
  Shares::Kinds busy{};
  for (std::size_t k = 0; k < costs.size(); ++k) busy[k] = costs[k] != nullptr && costs[k]->overhead > Duration();
  return busy;
}

// By node: how many channels of its ranks send over the network at once, on average over the time in which one does:
// all that they send for what the busiest channel of a rank sends.
std::map<std::int32_t, double> senders_of_hosts(const Paths& paths, const Shares& shares) {
  std::map<std::int32_t, double> all, senders;
  std::map<Rank, double> of_rank;
  const auto crosses = [&](Number p) { return paths[p].kind.type == topology::PathType::kNet && !paths[p].of_group; };
  for (Number p = 0; p < shares.pieces().size(); ++p)
    if (crosses(p)) all[paths.node(paths[p].from)] += shares.pieces()[p];
  double most = 1;
  for (Number p = 0; p < shares.first_pieces().size(); ++p)
    if (crosses(p)) most = std::max(most, of_rank[paths[p].from] += shares.first_pieces()[p]);
  for (const auto& [node, pieces] : all) senders[node] = std::max(1.0, pieces / most);
  return senders;
}

}  // namespace

Result<Links> links_of(const MachineView& machine, const schedule::Task& task, protocol::Protocol protocol,
                       const Script& script, const Paths& paths, const Shares& shares) {
  using Kind = Script::Connection::Kind;
  const Costs costs = costs_of(machine.costs(), protocol);
  for (const Number p : shares.first_paths())
    if (costs[paths[p].kind.index()] == nullptr) return tl::make_unexpected(does_not_run(protocol, paths[p]));

  std::vector<double> rates;
  for (const std::int64_t direction : paths.directions())
    rates.push_back(direction < 0 ? HUGE_VAL : machine.rate(direction).value());
  const std::map<std::int32_t, double> senders = senders_of_hosts(paths, shares);
  const int sharing = machine.sharing(task.ranks);
  const double local = machine.costs().local_channel().value();  // zero: bounded by its links only
  Links links;
  links.of.reserve(script.connections.size());
  for (const Script::Connection& c : script.connections) {
    if (c.kind == Kind::kOwn) links.of.push_back({.rate = local > 0 ? local : HUGE_VAL});
    if (c.kind == Kind::kOrder) links.of.emplace_back();
    if (c.kind != Kind::kLinks) continue;
    const Paths::Path& path = paths[c.path];
    const protocol::HopCost* cost = costs[path.kind.index()];
    if (cost == nullptr) return tl::make_unexpected(does_not_run(protocol, path));
    const Duration latency = machine.costs().latency(*cost, path.latency, sharing) - cost->overhead;
    // A cache line crosses for each message or signal, to one of the core's ranks after the other.
    const bool reads_lines = !machine.costs().gpu() && cost->overhead == Duration();
    double rate = protocol::HopCosts::channel(*cost, sharing).value();
    if (machine.costs().gpu()) {
      for (const Number direction : paths.hops(path))
        rate = std::min(rate, rates[direction] * cost->efficiency / shares.users(direction));
      const double host = protocol::HopCosts::node(*cost, machine.topology().nodes()).value();
      // A schedule that only signals, such as a barrier, has no senders of data.
      const auto sharers = senders.find(paths.node(path.from));
      if (host > 0 && !path.of_group && sharers != senders.end()) rate = std::min(rate, host / sharers->second);
    } else if (!machine.costs().network()) {  // whose costs are those of ranks that share cores
      rate /= sharing;
    }
    links.of.push_back({.latency = std::max(0.0, latency.s()),
                        .overhead = cost->overhead.s(),
                        .fence = cost->fence.s(),
                        .rate = rate,
                        .channel = machine.costs().gpu() ? cost->channel.value() : 0,
                        .crosses = path.kind.type == topology::PathType::kNet,
                        .look = reads_lines ? path.latency.s() * sharing : 0});
  }
  links.busiest = busiest_seconds(machine, protocol, paths, shares.pieces());
  const Shares::Kinds busy = busy_kinds(costs);
  links.posting = shares.posting(busy);
  links.taking = shares.taking(busy);
  return links;
}

}  // namespace weft::cost
