#include "machine/node_paths.h"

#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <tuple>

#include "machine/peer_access.h"

namespace weft::topology {
namespace {

// What a search may use. The classes are tried in order of PathType; each allows all that the one before it did, so
// the first that finds a path has found the best type.
struct Rules {
  bool nvlink_only = false;   // scale-up links
  bool chip_links = false;    // of them, only those whose chips pass traffic on
  bool hosts = false;         // CPUs in between, as ends of PCIe links, and memory
  bool sockets = false;       // links between CPUs
  std::int32_t relays = 0;    // GPUs in between
  std::int32_t switches = 0;  // PCIe switches in between
};
constexpr std::int32_t kMany = std::numeric_limits<std::int32_t>::max();
constexpr std::array<Rules, 8> kClasses = {{
    {.nvlink_only = true},                                                // NVL
    {.nvlink_only = true, .relays = 1},                                   // NVL through a neighbour
    {.nvlink_only = true, .chip_links = true, .relays = kMany},           // across a torus or grid of chips
    {.switches = 1},                                                      // PIX
    {.switches = kMany},                                                  // PXB
    {.hosts = true, .switches = kMany},                                   // PHB
    {.hosts = true, .sockets = true, .switches = kMany},                  // SYS
    {.hosts = true, .sockets = true, .relays = kMany, .switches = kMany}  // whatever is left
}};

bool may_use(const Rules& rules, const Link& link) {
  if (link.kind == LinkKind::kNetwork) return false;
  if (rules.chip_links) return link.kind == LinkKind::kChipLink;
  if (rules.nvlink_only) return is_scale_up(link.kind);
  return rules.sockets || link.kind != LinkKind::kInterSocket;
}

BytesPerSecond rate_from(const Link& link, DeviceId from) { return link.a == from ? link.rate_ab : link.rate_ba; }

class Search {
 public:
  Search(const Topology& topology, std::span<const DeviceId> devices, DeviceId from, DeviceId to)
      : topology_(topology), devices_(devices), from_(from), to_(to) {}

  std::optional<Path> run(const Rules& rules) const {
    // Nothing is wider than the widest link at either end; where that can be had, as in a torus of equal links, one
    // search is enough. Else widest first: the best bottleneck. Then the fewest hops and the lowest latency among the
    // links that keep it.
    const BytesPerSecond bound = std::min(widest_at(rules, from_, true), widest_at(rules, to_, false));
    if (bound.value() <= 0) return std::nullopt;
    if (auto path = shortest(rules, bound)) return path;
    const BytesPerSecond bottleneck = widest(rules);
    if (bottleneck.value() <= 0) return std::nullopt;
    return shortest(rules, bottleneck);
  }

 private:
  // A device together with the relays and PCIe switches used to get there, each capped at 2 ("too many" is decided
  // by the rules before that, or does not matter).
  struct State {
    DeviceId at;
    std::int32_t relays, switches;
  };

  std::size_t local(DeviceId id) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(devices_, id) - devices_.begin());
  }
  std::size_t slot(const State& s) const {
    return (local(s.at) * 3 + static_cast<std::size_t>(s.relays)) * 3 + static_cast<std::size_t>(s.switches);
  }
  std::size_t slots() const { return devices_.size() * 9; }

  // The state after crossing `link` from `s`, if the rules let the device at `s` pass traffic on.
  std::optional<State> step(const Rules& rules, const State& s, LinkId id) const {
    const Link& link = topology_.link(id);
    if (!may_use(rules, link)) return std::nullopt;
    State next = s;
    if (s.at != from_) {
      switch (topology_.device(s.at).kind) {
        case DeviceKind::kGpu:
          if (s.relays >= rules.relays) return std::nullopt;
          next.relays = std::min(s.relays + 1, 2);
          break;
        case DeviceKind::kPcieSwitch:
          if (s.switches >= rules.switches) return std::nullopt;
          next.switches = std::min(s.switches + 1, 2);
          break;
        case DeviceKind::kCpu:
          if (!rules.hosts) return std::nullopt;
          break;
        case DeviceKind::kNvSwitch:
          break;
        case DeviceKind::kCore:
        case DeviceKind::kMemory:
        case DeviceKind::kNic:
        case DeviceKind::kNetworkSwitch:
          return std::nullopt;
      }
    }
    next.at = topology_.other_end(id, s.at);
    if (!std::ranges::binary_search(devices_, next.at)) return std::nullopt;
    return next;
  }

  BytesPerSecond widest_at(const Rules& rules, DeviceId id, bool out) const {
    BytesPerSecond best;
    for (const LinkId l : topology_.links_of(id))
      if (const Link& link = topology_.link(l); may_use(rules, link))
        best = std::max(best, rate_from(link, out ? id : topology_.other_end(l, id)));
    return best;
  }

  BytesPerSecond widest(const Rules& rules) const {
    using Entry = std::tuple<double, DeviceId, std::int32_t, std::int32_t>;
    std::vector<double> best(slots(), 0);
    std::priority_queue<Entry> open;
    const State start{from_, 0, 0};
    best[slot(start)] = std::numeric_limits<double>::infinity();
    open.emplace(best[slot(start)], from_, 0, 0);
    while (!open.empty()) {
      const auto [rate, at, relays, switches] = open.top();
      open.pop();
      if (at == to_) return BytesPerSecond(rate);
      const State s{at, relays, switches};
      if (rate < best[slot(s)]) continue;
      for (const LinkId id : topology_.links_of(at)) {
        const auto next = step(rules, s, id);
        if (!next) continue;
        const double through = std::min(rate, rate_from(topology_.link(id), at).value());
        if (through <= best[slot(*next)]) continue;
        best[slot(*next)] = through;
        open.emplace(through, next->at, next->relays, next->switches);
      }
    }
    return {};
  }

  std::optional<Path> shortest(const Rules& rules, BytesPerSecond at_least) const {
    using Cost = std::pair<std::int32_t, std::int64_t>;  // hops, picoseconds
    using Entry = std::tuple<Cost, DeviceId, std::int32_t, std::int32_t>;
    constexpr Cost kFar = {kMany, 0};
    std::vector<Cost> best(slots(), kFar);
    std::vector<std::pair<State, LinkId>> came(slots(), {State{-1, 0, 0}, -1});
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    const State start{from_, 0, 0};
    best[slot(start)] = {0, 0};
    open.emplace(best[slot(start)], from_, 0, 0);
    while (!open.empty()) {
      const auto [cost, at, relays, switches] = open.top();
      open.pop();
      const State s{at, relays, switches};
      if (at == to_) return trace(came, s, at_least, cost.second);
      if (cost > best[slot(s)]) continue;
      for (const LinkId id : topology_.links_of(at)) {
        const Link& link = topology_.link(id);
        if (rate_from(link, at) < at_least) continue;
        const auto next = step(rules, s, id);
        if (!next) continue;
        const Cost then = {cost.first + 1, cost.second + link.latency.ps()};
        if (then >= best[slot(*next)]) continue;
        best[slot(*next)] = then;
        came[slot(*next)] = {s, id};
        open.emplace(then, next->at, next->relays, next->switches);
      }
    }
    return std::nullopt;
  }

  Path trace(const std::vector<std::pair<State, LinkId>>& came, State s, BytesPerSecond rate, std::int64_t ps) const {
    Path path;
    while (s.at != from_) {
      const auto& [before, id] = came[slot(s)];
      path.hops.push_back({id, topology_.link(id).a == before.at});
      s = before;
    }
    std::ranges::reverse(path.hops);
    path.type = classify(topology_, from_, path.hops);
    path.rate = rate;
    path.latency = Duration::picoseconds(ps);
    return path;
  }

  const Topology& topology_;
  std::span<const DeviceId> devices_;
  DeviceId from_, to_;
};

// A PCIe switch with ACS passes nothing from port to port: the path goes up to the CPU and down again.
std::optional<Path> redirected(const Topology& topology, std::span<const DeviceId> devices, DeviceId from,
                               DeviceId to) {
  std::optional<Path> best;
  for (const DeviceId cpu : devices) {
    if (topology.device(cpu).kind != DeviceKind::kCpu || cpu == from || cpu == to) continue;
    const Rules rules{.hosts = true, .switches = kMany};
    auto up = Search(topology, devices, from, cpu).run(rules);
    const auto down = Search(topology, devices, cpu, to).run(rules);
    if (!up || !down || (best && best->hops.size() <= up->hops.size() + down->hops.size())) continue;
    up->hops.insert(up->hops.end(), down->hops.begin(), down->hops.end());
    up->rate = std::min(up->rate, down->rate);
    up->latency += down->latency;
    up->type = PathType::kPhb;
    best = std::move(up);
  }
  return best;
}

}  // namespace

PathType classify(const Topology& topology, DeviceId from, std::span<const Hop> hops) {
  bool all_nvlink = true, host = false, sockets = false, network = false;
  std::int32_t switches = 0;
  DeviceId at = from;
  for (std::size_t i = 0; i < hops.size(); ++i) {
    const Link& link = topology.link(hops[i].link);
    all_nvlink = all_nvlink && is_scale_up(link.kind);
    sockets = sockets || link.kind == LinkKind::kInterSocket;
    network = network || link.kind == LinkKind::kNetwork;
    at = topology.other_end(hops[i].link, at);
    const DeviceKind kind = topology.device(at).kind;
    const bool last = i + 1 == hops.size();
    if (kind == DeviceKind::kPcieSwitch) ++switches;
    // A CPU at the end of an NVLink is a neighbour; one in between, or reached over PCIe, is a host bridge.
    if (kind == DeviceKind::kCpu && !(last && is_scale_up(link.kind))) host = true;
  }
  const Device& start = topology.device(from);
  if (start.kind == DeviceKind::kCpu && !hops.empty() && !is_scale_up(topology.link(hops[0].link).kind)) host = true;
  if (network) return PathType::kNet;
  if (sockets) return PathType::kSys;
  if (host) return PathType::kPhb;
  if (all_nvlink) return PathType::kNvl;
  return switches <= 1 ? PathType::kPix : PathType::kPxb;
}

std::optional<Path> find_node_path(const Topology& topology, std::span<const DeviceId> devices, DeviceId from,
                                   DeviceId to) {
  const Search search(topology, devices, from, to);
  for (const Rules& rules : kClasses) {
    auto path = search.run(rules);
    if (!path) continue;
    const bool through_switch = path->type == PathType::kPix || path->type == PathType::kPxb;
    if (through_switch && host_fact(topology, devices, "acs") == "on")
      if (auto around = redirected(topology, devices, from, to)) return around;
    return path;
  }
  return std::nullopt;
}

}  // namespace weft::topology
