#include "plan/cost/limit.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/text.h"
#include "machine/switched_paths.h"
#include "plan/cost/crossing.h"
#include "plan/cost/node_classes.h"
#include "plan/schedule/collective.h"

namespace weft::cost {
namespace {

using topology::DeviceKind;

const schedule::TokenRoutes& routes_of(const schedule::Task& task) {
  return schedule::or_shown(task.routes.get(), task.ranks);
}

void tighten(Limit& limit, Duration time, std::string resource, bool switches_sum = false) {
  if (time > limit.time) limit = {time, std::move(resource), {}, switches_sum};
}

// A set of ranks, and the rates of all links that lead out of where they sit, and into it.
struct Cut : RankSet {
  BytesPerSecond out, in;
};

// The parts of a machine that a job's ranks sit in, by the links between them: the GPUs themselves, then nodes (or
// NVLink domains that span several), groups of nodes below the same leaf switches, pods below the same spines.
class Parts {
 public:
  Parts(const MachineView& machine, const schedule::Task& task)
      : machine_(machine), task_(task), tiers_(tiers_of(machine.topology())) {}

  // Is no rank on a node with another one?
  bool one_per_node() const {
    std::set<std::int32_t> nodes;
    for (Rank r = 0; r < task_.ranks; ++r)
      if (!nodes.insert(machine_.topology().device(machine_.device(r)).node).second) return false;
    return true;
  }

  // Every GPU for itself. Its scale-up links reach other GPUs of its node; where they do not reach them all, or the job
  // has several nodes, it also sends over PCIe, and to the NICs of its CPU.
  std::vector<Cut> gpus() const {
    const topology::Topology& t = machine_.topology();
    const bool several = machine_.nodes(task_.ranks) > 1, alone = one_per_node();
    std::set<topology::DeviceId> used;
    for (Rank r = 0; r < task_.ranks; ++r) used.insert(machine_.device(r));
    std::vector<Cut> cuts;
    for (Rank r = 0; r < task_.ranks; ++r) {
      const topology::DeviceId device = machine_.device(r);
      Cut all, fabric;
      std::set<topology::DeviceId> reached;  // ranks' GPUs that its own scale-up links end at
      bool switched = false;
      for (const topology::LinkId id : t.links_of(device)) {
        const topology::Link& l = t.link(id);
        const topology::Device& end = t.device(t.other_end(id, device));
        const bool to_host = end.kind == DeviceKind::kCpu;
        if (alone && is_scale_up(l.kind) && !to_host && end.node == t.device(device).node) continue;
        add(all, l, l.a == device);
        if (!is_scale_up(l.kind) || to_host) continue;
        add(fabric, l, l.a == device);
        switched |= end.kind != DeviceKind::kGpu;
        if (used.contains(t.other_end(id, device))) reached.insert(t.other_end(id, device));
      }
      const bool all_reached = switched || reached.size() + 1 >= used.size();
      Cut& cut = cuts.emplace_back(several || !all_reached ? all : fabric);
      count(cut, r);
      cut.senders = 1;
    }
    std::vector<std::int32_t> each(cuts.size());
    std::iota(each.begin(), each.end(), 0);
    count_routes(each, cuts);
    return cuts;
  }

  // The PCIe ports of GPUs that ranks share by MIG: what passes between two instances of one GPU passes its port, too.
  struct Shared {
    std::vector<Rank> ranks;
    Cut port;
  };
  std::vector<Shared> shared_ports() const {
    const topology::Topology& t = machine_.topology();
    std::map<topology::DeviceId, Shared> ports;
    for (Rank r = 0; r < task_.ranks; ++r) {
      const topology::DeviceId device = machine_.device(r);
      const auto links = t.links_of(device);
      if (links.size() != 1 || t.link(links[0]).kind != topology::LinkKind::kPcie) continue;
      ports[t.other_end(links[0], device)].ranks.push_back(r);
    }
    std::vector<Shared> found;
    for (auto& [port, shared] : ports) {
      constexpr std::size_t kWithin = 2;  // hops: to the port and back
      if (shared.ranks.size() < 2 || machine_.path(shared.ranks[0], shared.ranks[1]).hops.size() <= kWithin) continue;
      for (const topology::LinkId id : t.links_of(port))
        if (t.device(t.other_end(id, port)).kind != DeviceKind::kGpu)
          add(shared.port, t.link(id), t.link(id).a == port);
      found.push_back(std::move(shared));
    }
    return found;
  }

  // Devices that links join without network switches of that tier or a higher one: from 1, the leaves. Nothing where
  // there is only one such part.
  std::vector<Cut> below(int tier) const {
    const topology::Topology& t = machine_.topology();
    std::vector<std::int32_t> root(t.devices().size());
    for (std::size_t d = 0; d < root.size(); ++d) root[d] = static_cast<std::int32_t>(d);
    const auto find = [&](topology::DeviceId d) {
      while (root[at(d)] != d) d = root[at(d)] = root[at(root[at(d)])];
      return d;
    };
    const auto within = [&](const topology::Link& l) { return tiers_[at(l.a)] < tier && tiers_[at(l.b)] < tier; };
    for (const topology::Link& l : t.links())
      if (within(l)) root[at(find(l.a))] = find(l.b);
    std::vector<std::int32_t> number(root.size(), -1);
    std::vector<Cut> cuts;
    std::vector<std::int32_t> cut_of;  // by rank
    for (Rank r = 0; r < task_.ranks; ++r) {
      std::int32_t& n = number[at(find(machine_.device(r)))];
      if (n < 0) n = static_cast<std::int32_t>(cuts.size()), cuts.emplace_back();
      cut_of.push_back(n);
      count(cuts[static_cast<std::size_t>(n)], r);
      if (find(machine_.device((r + 1) % task_.ranks)) != find(machine_.device(r)))
        ++cuts[static_cast<std::size_t>(n)].senders;
    }
    count_routes(cut_of, cuts);
    for (const topology::Link& l : t.links()) {
      const std::int32_t a = find(l.a), b = find(l.b);
      if (a == b) continue;
      if (number[at(a)] >= 0) add(cuts[at(number[at(a)])], l, true);
      if (number[at(b)] >= 0) add(cuts[at(number[at(b)])], l, false);
    }
    return cuts.size() > 1 ? cuts : std::vector<Cut>();
  }
  int highest() const { return *std::ranges::max_element(tiers_); }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  static void add(Cut& cut, const topology::Link& link, bool from_a) {
    cut.out = cut.out + (from_a ? link.rate_ab : link.rate_ba);
    cut.in = cut.in + (from_a ? link.rate_ba : link.rate_ab);
  }
  void count_routes(std::span<const std::int32_t> cut_of, std::vector<Cut>& cuts) const {
    const bool pairs = task_.collective == Collective::kAllToAllV && task_.counts != nullptr;
    if (!schedule::routed(task_.collective) && !pairs) return;
    std::vector<RankSet*> sets;
    for (Cut& cut : cuts) sets.push_back(&cut);
    if (pairs)
      count_pairs(*task_.counts, task_.element_bytes, cut_of, sets);
    else
      count_tokens(routes_of(task_), cut_of, sets);
  }
  void count(Cut& cut, Rank rank) const {
    ++cut.ranks;
    cut.has_root |= rank == task_.root;
    if (task_.counts != nullptr && task_.counts->size() == static_cast<std::size_t>(task_.ranks))
      cut.own += static_cast<double>((*task_.counts)[static_cast<std::size_t>(rank)] * task_.element_bytes);
  }

  const MachineView& machine_;
  const schedule::Task& task_;
  std::vector<int> tiers_;  // by device
};

// No part sends or receives faster than its links. And of all parts together: an all_reduce without switches that sum
// takes 2 (parts - 1) messages between them, as every one but one passes on a sum and is sent one.
void limit_by(Limit& limit, std::span<const Cut> cuts, const schedule::Task& task, double bytes, bool switches_sum,
              std::string_view what, std::string_view of_one) {
  BytesPerSecond sum, least, most;
  for (const Cut& cut : cuts) {
    if (cut.out.value() <= 0 || cut.in.value() <= 0) return;
    sum = sum + cut.out;
    least = &cut == cuts.data() ? cut.out : std::min(least, cut.out);
    most = std::max(most, cut.out);
  }
  const auto name = [&](BytesPerSecond rate) {
    return fmt::format("{} {}", least < most && rate == least ? of_one : what, format_rate(rate));
  };
  for (const Cut& cut : cuts) {
    const Crossing crossed = crossing(task.collective, task.ranks, cut, bytes);
    tighten(limit, Duration::seconds(crossed.out / cut.out.value()), name(cut.out), switches_sum);
    tighten(limit, Duration::seconds(crossed.in / cut.in.value()), name(cut.in), switches_sum);
  }
  if (task.collective == Collective::kAllReduce && !switches_sum && cuts.size() > 1) {
    const auto parts = static_cast<double>(cuts.size());
    tighten(limit, Duration::seconds(2 * (parts - 1) * bytes / sum.value()),
            fmt::format("{}{} {}", what, least < most ? ", on average" : "", format_rate(sum * (1 / parts))));
  }
}

// A shared port carries all that its ranks send, and all that they receive; and an all_reduce's 2 (ranks - 1) messages
// cross some port each.
void limit_shared_ports(Limit& limit, const Parts& parts, const schedule::Task& task, double bytes) {
  const std::vector<Parts::Shared> ports = parts.shared_ports();
  if (ports.empty()) return;
  const std::vector<Cut> each = parts.gpus();
  BytesPerSecond sum;
  std::size_t ranks = 0;
  for (const Parts::Shared& port : ports) {
    Crossing all;
    for (const Rank r : port.ranks) {
      const Crossing one = crossing(task.collective, task.ranks, each[static_cast<std::size_t>(r)], bytes);
      all.out += one.out, all.in += one.in;
    }
    const std::string name = fmt::format("GPU port {} of {} instances", format_rate(port.port.out), port.ranks.size());
    tighten(limit, Duration::seconds(all.out / port.port.out.value()), name);
    tighten(limit, Duration::seconds(all.in / port.port.in.value()), name);
    sum = sum + port.port.out;
    ranks += port.ranks.size();
  }
  if (task.collective == Collective::kAllReduce && ranks == static_cast<std::size_t>(task.ranks))
    tighten(limit, Duration::seconds(2 * static_cast<double>(task.ranks - 1) * bytes / sum.value()),
            fmt::format("GPU port {} of {} instances", format_rate(ports[0].port.out), ports[0].ranks.size()));
}

void limit_gpus(Limit& limit, const MachineView& machine, const schedule::Task& task, double bytes) {
  Parts parts(machine, task);
  const bool network_sums = topology::switches_sum(machine.topology(), DeviceKind::kNetworkSwitch),
             nvlink_sums = topology::switches_sum(machine.topology(), DeviceKind::kNvSwitch);
  if (task.ranks > 1 && task.ranks <= machine.endpoints()) {
    const bool alone = parts.one_per_node();
    if (machine.ranks_per_node(task.ranks) > 1 || alone)
      limit_by(limit, parts.gpus(), task, bytes, network_sums || (nvlink_sums && !alone), "GPU port",
               "slowest GPU port");
    limit_shared_ports(limit, parts, task, bytes);
    for (int tier = 1; tier <= parts.highest(); ++tier)
      limit_by(limit, parts.below(tier), task, bytes, network_sums,
               tier == 1   ? "node's NICs"
               : tier == 2 ? "leaf group's uplinks"
                           : "pod's uplinks",
               tier == 1   ? "weakest node's NICs"
               : tier == 2 ? "weakest leaf group's uplinks"
                           : "weakest pod's uplinks");
  }
  // Starting plus one hop to the farthest rank, with the fastest protocol.
  Duration fastest = Duration::max();
  for (const protocol::Protocol p : protocol::kProtocols) {
    const topology::Path path = machine.path(0, task.ranks - 1);
    const protocol::HopCost* hop = machine.costs().find(name(path.type), p);
    if (const Duration* launch = machine.costs().launch(p); hop != nullptr && launch != nullptr)
      fastest = std::min(fastest, *launch + machine.costs().latency(*hop, path.latency, 1));
  }
  if (fastest < Duration::max()) tighten(limit, fastest, "launch and one hop");
}

void limit_cpus(Limit& limit, const MachineView& machine, const schedule::Task& task, double bytes) {
  // Every contribution is read once, every result written once; one part for each rank of an all_gather's inputs or a
  // reduce_scatter's outputs.
  const bool parts_in = task.collective == Collective::kAllGather,
             parts_out = task.collective == Collective::kReduceScatter;
  const double reads = parts_in || task.collective == Collective::kBroadcast ? 1 : task.ranks;
  const double touched = bytes * (reads + (parts_out ? 1 : task.ranks));
  if (machine.costs().network() && task.ranks > 1) {
    // Every rank's core sends and receives the bus traffic, and nothing arrives sooner than a message can.
    const protocol::HopCost& hop = *machine.costs().find("NET", protocol::Protocol::kSimple);
    tighten(limit,
            Duration::seconds(2 * bytes * schedule::bus_factor(task.collective, task.ranks) / hop.channel.value()),
            "connection " + format_rate(hop.channel));
    tighten(limit, hop.least, "one message");
    return;
  }
  const auto level = machine.level_of(static_cast<Bytes>(touched), task.ranks);
  tighten(limit, Duration::seconds(touched / level.rate.value()),
          fmt::format("{} {}", level.name, format_rate(level.rate)));
  tighten(limit, machine.path(0, task.ranks > 1 && machine.endpoints() > 1 ? 1 : 0).latency, "one cache line");
  // Ranks that share a core must each run once; but where data flows one way, the root may be calls ahead.
  if (const int sharing = machine.sharing(task.ranks); sharing > 1 && !schedule::rooted(task.collective))
    tighten(limit, machine.costs().min_scheduling_delay(sharing), "context switch");
}

}  // namespace

Limit limit(const MachineView& machine, const schedule::Task& task) {
  Limit limit{Duration::picoseconds(1), "latency", {}, false};
  const double bytes = static_cast<double>(task.elements * task.element_bytes);
  machine.costs().gpu() ? limit_gpus(limit, machine, task, bytes) : limit_cpus(limit, machine, task, bytes);
  const double carried = schedule::routed(task.collective) ? bytes / task.ranks * routes_of(task).sent_per_token()
                                                           : bytes * schedule::bus_factor(task.collective, task.ranks);
  limit.bus_rate = BytesPerSecond(carried / limit.time.s());
  return limit;
}

std::string share_of_least(const Limit& limit, const schedule::Task& task, Duration time) {
  const double busbw = limit.bus_rate.gb() * (limit.time / time);
  const bool sums = limit.switches_sum && schedule::reduces(task.collective);
  return fmt::format(
      "the least possible time, {} ({}), is {:.0f} % of that; bus bandwidth {:.3g} of at most {:.3g} GB/s{}",
      format_duration(limit.time), limit.resource, 100 * (limit.time / time), busbw, limit.bus_rate.gb(),
      sums ? ", which counts the sums that switches make" : "");
}

}  // namespace weft::cost
