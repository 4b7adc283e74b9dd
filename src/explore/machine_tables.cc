#include "explore/machine_tables.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "topology/render/svg.h"
#include "topology/routes.h"

namespace weft::explore {
namespace {

using report::Explorer;
using topology::DeviceId;

constexpr std::size_t kMostDevices = 40;  // of the first node; their pairs have paths

double gigabytes(BytesPerSecond rate) { return rate.gb(); }

using LinkName = std::tuple<std::string, std::string, std::string, int>;  // ends, kind, which of several equal ones

// The links of the first node and its way to the network, by name: ids change where a fault takes a device out.
std::vector<std::pair<LinkName, const topology::Link*>> named_links(const topology::Topology& t) {
  std::vector<std::pair<LinkName, const topology::Link*>> named;
  std::map<LinkName, int> equal;
  for (const topology::Link& l : t.links()) {
    if (t.device(l.a).node != 0 && t.device(l.b).node != 0) continue;
    LinkName name{t.name_of(l.a), t.name_of(l.b), std::string(topology::name(l.kind)), 0};
    std::get<3>(name) = equal[name]++;
    named.emplace_back(std::move(name), &l);
  }
  return named;
}

void describe_links(const topology::Topology& whole, const topology::Topology& left, Explorer& e) {
  std::map<LinkName, const topology::Link*> there;
  for (const auto& [name, link] : named_links(left)) there.emplace(name, link);
  for (const auto& [name, was] : named_links(whole)) {
    const auto& [a, b, kind, number] = name;
    const Explorer::Link::Rates healthy{gigabytes(was->rate_ab), gigabytes(was->rate_ba), was->latency.us() * 1e3};
    Explorer::Link link{a, b, kind, was->count, 0, 0, healthy.latency_ns};
    if (const auto now = there.find(name); now != there.end()) {
      const topology::Link& l = *now->second;
      link.ab_GBps = gigabytes(l.rate_ab), link.ba_GBps = gigabytes(l.rate_ba), link.latency_ns = l.latency.us() * 1e3;
    }
    if (link.ab_GBps != healthy.ab_GBps || link.ba_GBps != healthy.ba_GBps || link.latency_ns != healthy.latency_ns)
      link.healthy = healthy;
    e.links.push_back(std::move(link));
  }
}

using Ids = std::map<std::string, DeviceId>;
Ids ids_of_first_node(const topology::Topology& t) {
  Ids ids;
  for (DeviceId id = 0; id < static_cast<DeviceId>(t.devices().size()); ++id)
    if (t.device(id).node == 0) ids.emplace(t.name_of(id), id);
  return ids;
}

// The path between two devices, by their names. No type: there is none.
Explorer::Path path_between(const cost::MachineView& machine, const Ids& ids, const std::string& from,
                            const std::string& to) {
  const topology::Topology& t = machine.topology();
  Explorer::Path found{.from = from, .to = to, .type = {}, .bottleneck = {}};
  const auto a = ids.find(from), b = ids.find(to);
  if (a == ids.end() || b == ids.end()) return found;
  const topology::Path path = machine.routes().path(a->second, b->second);
  if (path.hops.empty()) return found;
  const auto rate_of = [&](const topology::Hop& h) {
    return h.forward ? t.link(h.link).rate_ab : t.link(h.link).rate_ba;
  };
  const topology::Hop& slowest = *std::ranges::min_element(path.hops, {}, rate_of);
  const topology::Link& l = t.link(slowest.link);
  found.type = topology::name(path.type);
  found.bottleneck = t.name_of(slowest.forward ? l.a : l.b) + " to " + t.name_of(slowest.forward ? l.b : l.a);
  found.GBps = gigabytes(path.rate);
  found.latency_ns = path.latency.us() * 1e3;
  found.hops = static_cast<int>(path.hops.size());
  return found;
}

}  // namespace

void describe(const cost::MachineView& whole, const cost::MachineView& left, Explorer& e) {
  const topology::Topology& t = whole.topology();
  std::vector<std::string> ends;
  std::size_t left_out = 0;
  for (DeviceId id = 0; id < static_cast<DeviceId>(t.devices().size()); ++id) {
    const topology::Device& d = t.device(id);
    if (d.node != 0) {
      ++left_out;
      continue;
    }
    e.devices.push_back({t.name_of(id), std::string(topology::name(d.kind)), d.model});
    if ((d.kind == topology::DeviceKind::kGpu || d.kind == topology::DeviceKind::kNic ||
         d.kind == topology::DeviceKind::kCore) &&
        ends.size() < kMostDevices)
      ends.push_back(t.name_of(id));
  }
  describe_links(t, left.topology(), e);
  const Ids ids = ids_of_first_node(t), ids_left = ids_of_first_node(left.topology());
  for (std::size_t i = 0; i < ends.size(); ++i)
    for (std::size_t j = i + 1; j < ends.size(); ++j) {
      const Explorer::Path healthy = path_between(whole, ids, ends[i], ends[j]);
      if (healthy.type.empty()) continue;
      Explorer::Path path = &whole == &left ? healthy : path_between(left, ids_left, ends[i], ends[j]);
      if (path.GBps != healthy.GBps) path.healthy_GBps = healthy.GBps;
      e.paths.push_back(std::move(path));
    }
  if (t.nodes() > 1)
    e.left_out = fmt::format("Node 0 of {} is listed; {} more devices are in the other nodes and the network.",
                             t.nodes(), left_out);
  e.machine_svg = topology::svg(t);
}

}  // namespace weft::explore
