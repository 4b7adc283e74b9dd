#include "apps/training/trouble.h"

#include <algorithm>
#include <map>
#include <set>

#include "model/simulate/faults.h"

namespace weft::training {
namespace {

using topology::DeviceKind;
using topology::Topology;

// What a node's links add up to, and which network switches have which links: equal before and after a fault where
// nothing changed.
struct Sums {
  double rate = 0, latency = 0;
  std::int64_t links = 0;
  bool operator==(const Sums&) const = default;
  void add(const topology::Link& l) {
    rate += l.rate_ab.value() + l.rate_ba.value();
    latency += l.latency.us();
    ++links;
  }
};

std::vector<Sums> of_nodes(const Topology& t) {
  std::vector<Sums> sums(static_cast<std::size_t>(t.nodes()));
  for (const topology::Link& l : t.links())
    for (const auto end : {l.a, l.b})
      if (const int node = t.device(end).node; node >= 0) sums[static_cast<std::size_t>(node)].add(l);
  return sums;
}

// Switches have names here: faults that take devices out number the others anew.
std::map<std::string, Sums> of_switches(const Topology& t) {
  std::map<std::string, Sums> sums;
  for (const topology::Link& l : t.links())
    for (const auto end : {l.a, l.b})
      if (t.device(end).kind == DeviceKind::kNetworkSwitch) sums[t.name_of(end)].add(l);
  return sums;
}

}  // namespace

Result<Trouble> trouble_of(const cost::MachineView& machine, std::span<const std::string> faults) {
  WEFT_TRY(simulate::Faulted faulted, simulate::apply_faults(machine.topology(), faults));
  const sim::Disturbances& d = faulted.disturbances;
  if (!d.flaps.empty() || !d.changes.empty() || d.jitter.kind != sim::Disturbances::Jitter::Kind::kNone)
    return bad_input("--fault: a training step knows what is gone or slow from the start, no flaps, jitter or @t=");
  Trouble trouble{cost::MachineView(std::move(faulted.machine), machine.costs(), machine.caches()), {}, {}};
  for (const auto& slow : d.slow) {
    trouble.slow_rank.resize(static_cast<std::size_t>(trouble.machine.endpoints()), 1);
    trouble.slow_rank[static_cast<std::size_t>(slow.rank)] *= slow.factor;
  }
  const Topology& before = machine.topology();
  const Topology& after = trouble.machine.topology();
  std::set<int> nodes;
  const auto was = of_nodes(before), is = of_nodes(after);
  for (std::size_t n = 0; n < was.size(); ++n)
    if (n >= is.size() || was[n] != is[n]) nodes.insert(static_cast<int>(n));
  // A switch that changed, or is gone, concerns all nodes that hang at it.
  const auto switches = of_switches(after);
  std::set<std::string> changed;
  for (const auto& [name, sums] : of_switches(before))
    if (const auto now = switches.find(name); now == switches.end() || now->second != sums) changed.insert(name);
  for (const topology::Link& l : before.links())
    for (const auto& [end, other] : {std::pair{l.a, l.b}, {l.b, l.a}})
      if (before.device(end).node >= 0 && before.device(other).kind == DeviceKind::kNetworkSwitch &&
          changed.contains(before.name_of(other)))
        nodes.insert(before.device(end).node);
  trouble.nodes.assign(nodes.begin(), nodes.end());
  return trouble;
}

}  // namespace weft::training
