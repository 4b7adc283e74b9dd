#include "apps/explore/machine_tables.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/counted.h"
#include "base/embedded.h"
#include "base/text.h"
#include "machine/catalog/origin.h"
#include "machine/render/levels.h"
#include "machine/render/staircase.h"
#include "machine/render/svg.h"
#include "machine/routes.h"
#include "plan/cost/node_classes.h"

namespace weft::explore {
namespace {

using report::Explorer;
using topology::DeviceId;

constexpr std::size_t kMostDevices = 40;  // of the first node; their pairs have paths

double gigabytes(BytesPerSecond rate) { return rate.gb(); }

std::string changed(double now, double was) {
  return now == was ? fmt::format("{:.3g}", now) : fmt::format("{:.3g}, was {:.3g},", now, was);
}

std::string link_sentence(const Explorer::Link& l) {
  const Explorer::Link::Rates was = l.healthy.value_or(Explorer::Link::Rates{l.ab_GBps, l.ba_GBps, l.latency_ns});
  std::string text = fmt::format("{} to {}: {} x {}, ", l.a, l.b, l.count, l.kind);
  if (l.ab_GBps == l.ba_GBps && was.ab_GBps == was.ba_GBps)
    text += fmt::format("{} GB/s each way", changed(l.ab_GBps, was.ab_GBps));
  else
    text +=
        fmt::format("{} GB/s there, {} GB/s back", changed(l.ab_GBps, was.ab_GBps), changed(l.ba_GBps, was.ba_GBps));
  return text + fmt::format(", {} ns.", changed(l.latency_ns, was.latency_ns));
}

std::string path_sentence(const Explorer::Path& p) {
  if (p.type.empty())
    return fmt::format("{} to {}: no path is left; it had {:.3g} GB/s.", p.from, p.to, p.healthy_GBps.value_or(0));
  return fmt::format("{} to {}: {}, {} GB/s each way, {:.4g} ns in {}; the slowest is {}.", p.from, p.to, p.type,
                     changed(p.GBps, p.healthy_GBps.value_or(p.GBps)), p.latency_ns, counted(p.hops, "hop"),
                     p.bottleneck);
}

// The document of the link's rate and that of its latency.
std::vector<Explorer::Origin> origins_of(const topology::Topology& t, const topology::Link& link,
                                         const topology::Catalog& catalog) {
  const auto model = [&](DeviceId id) {
    return t.device(id).kind == topology::DeviceKind::kNetworkSwitch ? std::string_view(t.device(id).model)
                                                                     : std::string_view();
  };
  const topology::Origin from =
      topology::origin_of(catalog, link, model(link.a).empty() ? model(link.b) : model(link.a));
  const auto origin = [](const char* of, const topology::Figure* f) {
    return f == nullptr ? Explorer::Origin{of, {}, {}} : Explorer::Origin{of, f->source, f->date};
  };
  return {origin("rate", from.rate), origin("latency", from.latency)};
}

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
  const auto& catalog = topology::Catalog::shipped();
  std::map<LinkName, const topology::Link*> there;
  for (const auto& [name, link] : named_links(left)) there.emplace(name, link);
  for (const auto& [name, was] : named_links(whole)) {
    const auto& [a, b, kind, number] = name;
    const Explorer::Link::Rates healthy{gigabytes(was->rate_ab), gigabytes(was->rate_ba), was->latency.us() * 1e3};
    Explorer::Link link{.a = a,
                        .b = b,
                        .kind = kind,
                        .count = was->count,
                        .ab_GBps = 0,
                        .ba_GBps = 0,
                        .latency_ns = healthy.latency_ns};
    if (const auto now = there.find(name); now != there.end()) {
      const topology::Link& l = *now->second;
      link.ab_GBps = gigabytes(l.rate_ab), link.ba_GBps = gigabytes(l.rate_ba), link.latency_ns = l.latency.us() * 1e3;
    }
    if (link.ab_GBps != healthy.ab_GBps || link.ba_GBps != healthy.ba_GBps || link.latency_ns != healthy.latency_ns)
      link.healthy = healthy;
    link.said = link_sentence(link);
    if (catalog) link.origins = origins_of(whole, *was, *catalog);
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
  if (t.device(a->second).kind == t.device(b->second).kind &&
      t.device(a->second).kind != topology::DeviceKind::kNic) {  // two GPUs: the data of ranks goes this way
    found.via.push_back(from);
    for (const topology::Hop& h : path.hops)
      found.via.push_back(t.name_of(h.forward ? t.link(h.link).b : t.link(h.link).a));
  }
  return found;
}

// The rate of all links of a node, each way.
double rate_of_node(const topology::Topology& t, std::int32_t node) {
  double rate = 0;
  for (std::size_t l = 0; l < t.links().size(); ++l) {
    const topology::Link& link = t.links()[l];
    if (t.device(link.a).node == node || t.device(link.b).node == node)
      rate += gigabytes(link.rate_ab) + gigabytes(link.rate_ba);
  }
  return rate;
}

// Nodes that are of another class than most; of equally many, those with less.
std::vector<std::int32_t> odd_nodes(const topology::Topology& t) {
  constexpr std::size_t kMost = 1024;
  const std::vector<std::int32_t> classes = cost::node_classes(t);
  std::map<std::int32_t, std::pair<std::size_t, double>> members;  // how many, and the rate of the first
  for (std::size_t n = 0; n < classes.size(); ++n)
    if (auto& [count, rate] = members[classes[n]]; count++ == 0) rate = rate_of_node(t, static_cast<std::int32_t>(n));
  const std::int32_t usual = std::ranges::max_element(members, {}, [](const auto& m) { return m.second; })->first;
  std::vector<std::int32_t> odd;
  for (std::size_t n = 0; n < classes.size() && odd.size() < kMost; ++n)
    if (classes[n] != usual) odd.push_back(static_cast<std::int32_t>(n));
  return odd;
}

Explorer::Map map_of(const topology::Topology& whole, const topology::Topology& left) {
  Explorer::Map map{.levels = {}, .odd = odd_nodes(left), .node_svg = topology::node_svg(whole), .said = {}};
  const auto ends = static_cast<std::int64_t>(whole.endpoints().size());
  map.said = fmt::format("{}", counted(ends, "GPU"));
  const auto levels = topology::map_levels(whole);
  for (auto l = levels.rbegin(); l != levels.rend(); ++l) {
    const auto [least, most] = std::ranges::minmax(l->sizes);
    const std::string sizes = least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
    const std::string below = l + 1 == levels.rend() ? std::string("GPU") : (l + 1)->word;
    if (l == levels.rbegin()) map.said += fmt::format(": {} {}", l->count, plural(l->count, l->word));
    map.said += fmt::format(" of {} {}", sizes, plural(most, below));
  }
  map.said += map.odd.empty() ? ", all nodes alike."
                              : fmt::format(", {} node{} unlike the others.", map.odd.size(),
                                            map.odd.size() == 1 ? " is" : "s are");
  for (const topology::MapLevel& l : levels) map.levels.push_back({l.word, l.count, l.sizes});
  return map;
}

}  // namespace

std::vector<std::string> places_of(const cost::MachineView& machine, Rank ranks) {
  constexpr Rank kMost = 16;  // with more, a picture of the wiring is crowded
  std::vector<std::string> places;
  if (ranks > kMost || ranks > machine.endpoints()) return places;
  for (Rank r = 0; r < ranks; ++r) {
    const topology::Device& device = machine.topology().device(machine.device(r));
    if (device.node != 0) return {};
    places.push_back(machine.topology().name_of(machine.device(r)));
  }
  return places;
}

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
    const std::size_t links = t.links_of(id).size();
    e.devices.push_back({t.name_of(id), std::string(topology::name(d.kind)), d.model,
                         fmt::format("{}: {}{}{}, {}, listed below.", t.name_of(id), topology::name(d.kind),
                                     d.model.empty() ? "" : " ", d.model, counted(links, "link"))});
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
      path.said = path_sentence(path);
      e.paths.push_back(std::move(path));
    }
  constexpr double kGiB = 1073741824.0;
  if (const auto& catalog = topology::Catalog::shipped())
    for (const topology::Step& s : topology::bandwidth_steps(*catalog, t))
      e.steps.push_back({s.name, s.detail, gigabytes(s.rate),
                         "1 GiB in " + format_duration(Duration::seconds(kGiB / s.rate.value()))});
  if (t.nodes() > 1)
    e.left_out = fmt::format("Node 0 of {} is listed; {} more devices are in the other nodes and the network.",
                             t.nodes(), left_out);
  e.machine_svg = topology::svg(t);
  if (t.nodes() > 1) e.map = map_of(t, left.topology());
  e.machine_said = fmt::format("{}: {} and {}{}; the tables below list each.", t.title,
                               counted(e.devices.size(), "device"), counted(e.links.size(), "link"),
                               t.nodes() > 1 ? fmt::format(" of node 0 of {}", t.nodes()) : std::string());
}

}  // namespace weft::explore
