#include "machine/routes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/small_list.h"
#include "machine/node_paths.h"
#include "machine/peer_access.h"

namespace weft::topology {
namespace {

constexpr std::uint16_t kUnreached = std::numeric_limits<std::uint16_t>::max();

std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

// splitmix64's finaliser: the choice among equal routes depends on the two NICs and nothing else.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <class T>
void append_raw(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

// Nodes that look alike share one Shape: its paths are kept in node-local numbers, so a cluster of equal nodes keeps
// the paths of one node.
struct Routes::Cache {
  struct Node {
    std::vector<DeviceId> devices;  // ascending; local number = position
    std::vector<LinkId> links;      // both ends inside the node; ascending
    std::int32_t shape = 0;
  };
  struct Shape {
    std::unordered_map<std::uint64_t, Path> paths;                      // hops hold local link numbers
    std::unordered_map<std::uint64_t, Path> staged;                     // through host memory where need be
    std::unordered_map<std::int32_t, std::vector<std::int32_t>> exits;  // equally near NICs, local numbers
  };

  struct Neighbour {
    std::int32_t at;  // position in `switches`
    LinkId link;
  };

  explicit Cache(const Topology& t) : topology(t) {
    nodes.resize(index(t.nodes()));
    for (DeviceId id = 0; id < static_cast<DeviceId>(t.devices().size()); ++id) {
      if (t.device(id).node >= 0) {
        nodes[index(t.device(id).node)].devices.push_back(id);
        local.push_back(static_cast<std::int32_t>(nodes[index(t.device(id).node)].devices.size()) - 1);
      } else {
        switches.push_back(id);
        local.push_back(static_cast<std::int32_t>(switches.size()) - 1);
      }
    }
    for (LinkId id = 0; id < static_cast<LinkId>(t.links().size()); ++id) {
      const std::int32_t node = t.device(t.link(id).a).node;
      if (node >= 0 && node == t.device(t.link(id).b).node && t.link(id).kind != LinkKind::kNetwork)
        nodes[index(node)].links.push_back(id);
    }
    distances.resize(switches.size());
    for (const DeviceId at : switches) {
      neighbours_begin.push_back(neighbours.size());
      for (const LinkId l : t.links_of(at))
        if (const DeviceId to = t.other_end(l, at); t.device(to).node < 0) neighbours.push_back({local[index(to)], l});
    }
    neighbours_begin.push_back(neighbours.size());
    for (const Neighbour& n : neighbours) sorted_neighbours.push_back(n.at);
    for (std::size_t i = 0; i < switches.size(); ++i)
      std::sort(sorted_neighbours.begin() + static_cast<std::ptrdiff_t>(neighbours_begin[i]),
                sorted_neighbours.begin() + static_cast<std::ptrdiff_t>(neighbours_begin[i + 1]));
    std::unordered_map<std::string, std::int32_t> known;
    for (Node& node : nodes) {
      const auto next = static_cast<std::int32_t>(known.size());
      node.shape = known.emplace(describe(node), next).first->second;
    }
    shapes.resize(known.size());
  }

  // Everything about a node that a path depends on, as bytes.
  std::string describe(const Node& node) const {
    std::string key;
    for (const DeviceId id : node.devices) {
      append_raw(key, topology.device(id).kind);
      append_raw(key, topology.device(id).index);
      append_raw(key, !ports_of(id).empty());
      for (const char* fact : {"iommu", "acs", "peermem", "direct", "gdr", "p2p"})
        key.append(topology.device(id).facts.get(fact)).push_back(';');
    }
    for (const LinkId id : node.links) {
      const Link& l = topology.link(id);
      append_raw(key, l.kind);
      append_raw(key, local[index(l.a)]);
      append_raw(key, local[index(l.b)]);
      append_raw(key, l.rate_ab.value());
      append_raw(key, l.rate_ba.value());
      append_raw(key, l.latency.ps());
    }
    return key;
  }

  SmallList<LinkId, 4> ports_of(DeviceId id) const {
    SmallList<LinkId, 4> found;
    for (const LinkId l : topology.links_of(id))
      if (topology.link(l).kind == LinkKind::kNetwork) found.push_back(l);
    return found;
  }

  // Local numbers of the node; type kDis when there is no path.
  const Path& local_path(const Node& node, std::int32_t from, std::int32_t to) {
    auto& paths = shapes[index(node.shape)].paths;
    const std::uint64_t key = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to);
    if (const auto at = paths.find(key); at != paths.end()) return at->second;
    Path path;
    if (auto found = find_node_path(topology, node.devices, node.devices[index(from)], node.devices[index(to)])) {
      path = *std::move(found);
      for (Hop& hop : path.hops)
        hop.link = static_cast<LinkId>(std::ranges::lower_bound(node.links, hop.link) - node.links.begin());
    }
    return paths.emplace(key, std::move(path)).first->second;
  }

  static auto nearness(const Path& p) { return std::tuple(p.type, -p.rate.value(), p.hops.size(), p.latency); }

  // As local_path, but through host memory where one device may not touch the other's. Local numbers.
  const Path& data_path(const Node& node, std::int32_t from, std::int32_t to) {
    auto& paths = shapes[index(node.shape)].staged;
    const std::uint64_t key = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to);
    if (const auto at = paths.find(key); at != paths.end()) return at->second;
    return paths.emplace(key, find_data_path(node, from, to)).first->second;
  }

  Path find_data_path(const Node& node, std::int32_t from, std::int32_t to) {
    const DeviceId a = node.devices[index(from)], b = node.devices[index(to)];
    const Path wire = local_path(node, from, to);
    Path global = wire;
    for (Hop& hop : global.hops) hop.link = node.links[index(hop.link)];
    const DeviceKind kind_a = topology.device(a).kind, kind_b = topology.device(b).kind;
    const auto has_memory = [](DeviceKind kind) { return kind == DeviceKind::kGpu; };
    const bool peers = (has_memory(kind_a) && (has_memory(kind_b) || kind_b == DeviceKind::kNic)) ||
                       (kind_a == DeviceKind::kNic && has_memory(kind_b));
    if (!peers || wire.hops.empty() || peer_access(topology, a, b, global).possible) return wire;
    // The bounce buffer lies near the NIC, between GPUs near the sender.
    const std::int32_t home = kind_b == DeviceKind::kNic ? to : from;
    std::int32_t best = -1;
    for (std::int32_t m = 0; m < static_cast<std::int32_t>(node.devices.size()); ++m) {
      const DeviceId memory = node.devices[index(m)];
      if (topology.device(memory).kind != DeviceKind::kMemory) continue;
      const auto links = topology.links_of(memory);
      if (!links.empty() && topology.link(links[0]).kind == LinkKind::kPcie) continue;  // below a processor
      const Path& near = local_path(node, home, m);
      if (near.type != PathType::kDis && (best < 0 || nearness(near) < nearness(local_path(node, home, best))))
        best = m;
    }
    if (best < 0) return wire;
    Path staged = local_path(node, from, best);
    const Path& rest = local_path(node, best, to);
    if (staged.type == PathType::kDis || rest.type == PathType::kDis) return wire;
    staged.hops.insert(staged.hops.end(), rest.hops.begin(), rest.hops.end());
    staged.rate = std::min(staged.rate, rest.rate);
    staged.latency += rest.latency;
    staged.type = std::max(staged.type, rest.type);
    return staged;
  }

  // The NICs with a network port that are nearest to a device of the node, all equally near.
  const std::vector<std::int32_t>& exits(const Node& node, std::int32_t from) {
    auto& memo = shapes[index(node.shape)].exits;
    if (const auto at = memo.find(from); at != memo.end()) return at->second;
    std::vector<std::int32_t> best;
    for (std::int32_t nic = 0; nic < static_cast<std::int32_t>(node.devices.size()); ++nic) {
      if (topology.device(node.devices[index(nic)]).kind != DeviceKind::kNic ||
          ports_of(node.devices[index(nic)]).empty())
        continue;
      if (nic == from) {
        best = {nic};
        break;
      }
      const Path& path = local_path(node, from, nic);
      if (path.type == PathType::kDis) continue;
      if (!best.empty() && nearness(path) > nearness(local_path(node, from, best[0]))) continue;
      if (!best.empty() && nearness(path) < nearness(local_path(node, from, best[0]))) best.clear();
      best.push_back(nic);
    }
    return memo.emplace(from, std::move(best)).first->second;
  }

  // Switch-to-switch hops from every switch to `target` (a position in `switches`).
  const std::vector<std::uint16_t>& distances_to(std::int32_t target) {
    std::vector<std::uint16_t>& far = distances[index(target)];
    if (!far.empty()) return far;
    far.assign(switches.size(), kUnreached);
    far[index(target)] = 0;
    std::vector<std::int32_t> queue = {target};
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const std::int32_t at = queue[head];
      for (const auto& [to, link] : neighbours_of(at)) {
        if (far[index(to)] != kUnreached) continue;
        far[index(to)] = static_cast<std::uint16_t>(far[index(at)] + 1);
        queue.push_back(to);
      }
    }
    return far;
  }

  void add_hop(Path& path, LinkId id, DeviceId from) const {
    const Link& l = topology.link(id);
    const bool forward = l.a == from;
    path.hops.push_back({id, forward});
    path.rate = std::min(path.rate, forward ? l.rate_ab : l.rate_ba);
    path.latency += l.latency;
  }

  void add_local(Path& path, const Node& node, std::int32_t from, std::int32_t to) {
    if (from == to) return;
    const Path& part = data_path(node, from, to);
    for (const Hop& hop : part.hops) path.hops.push_back({node.links[index(hop.link)], hop.forward});
    path.rate = std::min(path.rate, part.rate);
    path.latency += part.latency;
  }

  std::span<const Neighbour> neighbours_of(std::int32_t position) const {
    const std::size_t begin = neighbours_begin[index(position)];
    return std::span(neighbours).subspan(begin, neighbours_begin[index(position) + 1] - begin);
  }
  // Are two switches, by position, neighbours? Leaves have fewer than spines.
  bool joined(std::int32_t a, std::int32_t b) const {
    const auto count = [&](std::int32_t p) { return neighbours_begin[index(p) + 1] - neighbours_begin[index(p)]; };
    if (count(b) < count(a)) std::swap(a, b);
    const auto begin = sorted_neighbours.begin() + static_cast<std::ptrdiff_t>(neighbours_begin[index(a)]);
    return std::binary_search(begin, begin + static_cast<std::ptrdiff_t>(count(a)), b);
  }

  // The links of a switch, by position, that are on the shortest ways to another one. Valid until the next call.
  std::span<const LinkId> links_towards(std::int32_t at, std::int32_t target) {
    const std::uint64_t pair = static_cast<std::uint64_t>(at) << 32 | static_cast<std::uint32_t>(target);
    Known& known = recent[mix(pair) % recent.size()];
    if (known.at != at || known.target != target) {
      known.at = at;
      known.target = target;
      known.links.clear();
      find_links(at, target, known.links);
    }
    return known.links;
  }

  // Neighbours, and theirs, are found without asking how far all switches are.
  void find_links(std::int32_t at, std::int32_t target, std::vector<LinkId>& links) {
    const bool from_here = neighbours_of(at).size() < neighbours_of(target).size();
    for (const auto& [to, link] : neighbours_of(from_here ? at : target))
      if (to == (from_here ? target : at)) links.push_back(link);
    if (!links.empty()) return;
    for (const auto& [to, link] : neighbours_of(at))
      if (joined(to, target)) links.push_back(link);
    if (!links.empty()) return;
    const std::vector<std::uint16_t>& far = distances_to(target);
    for (const auto& [to, link] : neighbours_of(at))
      if (far[index(to)] < far[index(at)]) links.push_back(link);
  }

  // The ports of a NIC to the nearest switches. Most have one port, which needs no comparing.
  std::span<const LinkId> ports_towards(DeviceId nic, std::int32_t target) {
    choices.clear();
    for (const LinkId l : topology.links_of(nic))
      if (topology.device(topology.other_end(l, nic)).node < 0) choices.push_back(l);
    if (choices.size() < 2) return choices;
    const std::vector<std::uint16_t>& far = distances_to(target);
    const auto distance = [&](LinkId l) { return far[index(local[index(topology.other_end(l, nic))])]; };
    const std::uint16_t nearest = distance(*std::ranges::min_element(choices, {}, distance));
    std::erase_if(choices, [&](LinkId l) { return nearest == kUnreached || distance(l) > nearest; });
    return choices;
  }

  // From `a` to `b`, each a NIC or a network switch, over network links only. False when there is no way.
  bool add_network(Path& path, DeviceId a, DeviceId b) {
    const std::uint64_t pair = static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
    const std::uint64_t hash = mix(pair ^ topology.routing.seed * 0x9e3779b97f4a7c15);
    if (topology.routing.policy == Routing::Policy::kAdaptive)
      if (const auto known = adaptive.find(pair); known != adaptive.end()) {
        for (const Hop& hop : known->second)
          add_hop(path, hop.link, hop.forward ? topology.link(hop.link).a : topology.link(hop.link).b);
        return true;
      }
    const std::size_t first_hop = path.hops.size();
    DeviceId at = a;
    if (topology.device(a).node >= 0) {
      for (const LinkId l : ports_of(a)) {
        if (topology.other_end(l, a) != b) continue;
        add_hop(path, l, a);
        return true;
      }
    }
    // The last port, on b's side, is drawn first: it fixes the switch to go to.
    LinkId last = -1;
    DeviceId target = b;
    if (topology.device(b).node >= 0) {
      const auto ports = ports_of(b);
      if (ports.empty()) return false;
      last = pick({ports.begin(), ports.end()}, hash, b, true);
      target = topology.other_end(last, b);
      if (topology.device(target).node >= 0) return false;
    }
    for (std::uint64_t level = 0; at != target; ++level) {
      const std::int32_t to = local[index(target)];
      const auto choices = topology.device(at).node < 0 ? links_towards(local[index(at)], to) : ports_towards(at, to);
      if (choices.empty()) return false;
      const LinkId taken = pick(choices, mix(hash + level), at, false);
      add_hop(path, taken, at);
      at = topology.other_end(taken, at);
    }
    if (last >= 0) add_hop(path, last, target);
    if (topology.routing.policy == Routing::Policy::kAdaptive) {
      std::vector<Hop> taken(path.hops.begin() + static_cast<std::ptrdiff_t>(first_hop), path.hops.end());
      for (const Hop& hop : taken) ++load[hop.link * 2 + (hop.forward ? 0 : 1)];
      adaptive.emplace(pair, std::move(taken));
    }
    return true;
  }

  // One of equally short ways out of `at` (into it, if `inward`).
  LinkId pick(std::span<const LinkId> choices, std::uint64_t hash, DeviceId at, bool inward) const {
    if (topology.routing.policy == Routing::Policy::kShortest) return choices.front();
    if (topology.routing.policy == Routing::Policy::kEcmp) return choices[hash % choices.size()];
    const auto pairs_on = [&](LinkId l) {
      const bool forward = (topology.link(l).a == at) != inward;
      const auto found = load.find(l * 2 + (forward ? 0 : 1));
      return found == load.end() ? 0 : found->second;
    };
    return *std::ranges::min_element(choices, {}, pairs_on);
  }

  // The NIC (or the switch itself) through which a device talks to the network, or -1.
  DeviceId exit_of(DeviceId id) {
    const Device& d = topology.device(id);
    if (d.node < 0) return id;
    const Node& node = nodes[index(d.node)];
    const std::vector<std::int32_t>& near = exits(node, local[index(id)]);
    return near.empty() ? -1 : node.devices[index(near[index(d.index) % near.size()])];
  }

  // With PXN, the peer GPU that is reached over NVLink and whose own NIC shares a switch with `in`, and that NIC.
  std::pair<DeviceId, DeviceId> pxn_of(DeviceId from, DeviceId out, DeviceId in) {
    const std::pair<DeviceId, DeviceId> none{-1, -1};
    const Device& d = topology.device(from);
    if (!topology.routing.pxn || d.kind != DeviceKind::kGpu || topology.device(in).node < 0) return none;
    const auto share_switch = [&](DeviceId x, DeviceId y) {
      for (const LinkId one : ports_of(x))
        for (const LinkId other : ports_of(y))
          if (topology.other_end(one, x) == topology.other_end(other, y)) return true;
      return false;
    };
    if (share_switch(out, in)) return none;
    const Node& node = nodes[index(d.node)];
    for (const DeviceId peer : node.devices) {
      if (peer == from || topology.device(peer).kind != DeviceKind::kGpu) continue;
      const DeviceId rail = exit_of(peer);
      if (rail >= 0 && share_switch(rail, in) &&
          local_path(node, local[index(from)], local[index(peer)]).type == PathType::kNvl)
        return {peer, rail};
    }
    return none;
  }

  Path path(DeviceId from, DeviceId to) {
    const Path none;
    Path path;
    path.rate = BytesPerSecond(std::numeric_limits<double>::infinity());
    const Device& a = topology.device(from);
    const Device& b = topology.device(to);
    if (a.node >= 0 && a.node == b.node) {
      const Node& node = nodes[index(a.node)];
      path.type = data_path(node, local[index(from)], local[index(to)]).type;
      if (path.type != PathType::kDis) {
        add_local(path, node, local[index(from)], local[index(to)]);
        return path;
      }
    }
    constexpr std::size_t kMostHops = 16;  // of nearly all ways between nodes
    path.hops.reserve(kMostHops);
    const DeviceId out = exit_of(from), in = exit_of(to);
    if (out < 0 || in < 0 || out == in) return none;
    path.type = PathType::kNet;
    if (const auto [peer, rail] = pxn_of(from, out, in); peer >= 0) {
      const Node& node = nodes[index(a.node)];
      add_local(path, node, local[index(from)], local[index(peer)]);
      add_local(path, node, local[index(peer)], local[index(rail)]);
      if (!add_network(path, rail, in)) return none;
    } else {
      if (a.node >= 0) add_local(path, nodes[index(a.node)], local[index(from)], local[index(out)]);
      if (!add_network(path, out, in)) return none;
    }
    if (b.node >= 0) add_local(path, nodes[index(b.node)], local[index(in)], local[index(to)]);
    return path;
  }

  const Topology& topology;
  std::vector<Node> nodes;
  std::vector<DeviceId> switches;
  std::vector<std::int32_t> local;  // of each device: position in its node, or in `switches`
  std::vector<Shape> shapes;
  std::vector<Neighbour> neighbours;  // of every switch, in the order of its links
  std::vector<std::size_t> neighbours_begin;
  std::vector<std::int32_t> sorted_neighbours;  // their positions, sorted for every switch
  struct Known {
    std::int32_t at = -1, target = -1;
    std::vector<LinkId> links;
  };
  std::vector<Known> recent = std::vector<Known>(4096);  // links from a switch to another, of pairs asked for lately
  std::vector<LinkId> choices;                           // scratch of ports_towards
  std::vector<std::vector<std::uint16_t>> distances;     // by target switch; empty until asked for
  // Adaptive routing only: the way each pair of NICs was given, and the pairs on each direction of a link.
  std::unordered_map<std::uint64_t, std::vector<Hop>> adaptive;
  std::unordered_map<LinkId, std::int64_t> load;
};

Routes::Routes(const Topology& topology) : cache_(std::make_unique<Cache>(topology)) {}
Routes::~Routes() = default;
Routes::Routes(Routes&&) noexcept = default;

Path Routes::path(DeviceId from, DeviceId to) const {
  const auto count = static_cast<DeviceId>(cache_->topology.devices().size());
  WEFT_REQUIRE(from >= 0 && from < count && to >= 0 && to < count, "{} to {} of {}", from, to, count);
  if (from == to) return {PathType::kLoc, {}, BytesPerSecond(std::numeric_limits<double>::infinity()), {}};
  return cache_->path(from, to);
}

Path Routes::wire_path(DeviceId from, DeviceId to) const {
  const std::int32_t node = cache_->topology.device(from).node;
  WEFT_REQUIRE(node >= 0 && node == cache_->topology.device(to).node, "{} and {}", from, to);
  const Cache::Node& home = cache_->nodes[index(node)];
  Path path = cache_->local_path(home, cache_->local[index(from)], cache_->local[index(to)]);
  for (Hop& hop : path.hops) hop.link = home.links[index(hop.link)];
  return path;
}

}  // namespace weft::topology
