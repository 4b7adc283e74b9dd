#include "machine/cluster/fabric.h"

#include <algorithm>
#include <cmath>

namespace weft::topology {
namespace {

std::int32_t divide_up(std::int64_t a, std::int64_t b) { return static_cast<std::int32_t>((a + b - 1) / b); }

// Near-equal factors of n, the largest first: 12 in two is 4 x 3.
std::vector<std::int32_t> factors(std::int32_t n, int parts) {
  std::vector<std::int32_t> found;
  for (; parts > 1; --parts) {
    auto root = static_cast<std::int32_t>(std::llround(std::pow(n, 1.0 / parts)));
    while (n % root != 0) --root;
    found.push_back(root);
    n /= root;
  }
  found.push_back(n);
  std::ranges::sort(found, std::greater());
  return found;
}

class Builder {
 public:
  Builder(const NetworkParts& parts, const ClusterOptions& options, const std::vector<std::vector<DeviceId>>& nics,
          Topology& cluster)
      : parts_(parts),
        options_(options),
        nics_(nics),
        cluster_(cluster),
        nodes_(static_cast<std::int32_t>(nics.size())),
        rails_(static_cast<std::int32_t>(nics[0].size())) {}

  Status run() {
    const bool fits = static_cast<std::int64_t>(nodes_) * rails_ <= parts_.ports;
    switch (options_.wires) {
      case Wires::kAuto:
        if (fits && options_.tiers == 0) break;
        return fat_tree(true);
      case Wires::kSwitch:
        break;
      case Wires::kRails:
        return fat_tree(true);
      case Wires::kFatTree:
        return fat_tree(false);
      case Wires::kDragonfly:
        return dragonfly();
      case Wires::kTorus:
        return torus();
    }
    const DeviceId all = add_switches(1);
    for (std::int32_t n = 0; n < nodes_; ++n)
      for (std::int32_t r = 0; r < rails_; ++r) attach(n, r, all);
    return {};
  }

 private:
  // Returns the first of `count` new switches.
  DeviceId add_switches(std::int32_t count) {
    const auto first = static_cast<DeviceId>(cluster_.devices().size());
    for (std::int32_t s = 0; s < count; ++s) {
      const DeviceId id = cluster_.add({.kind = DeviceKind::kNetworkSwitch,
                                        .node = -1,
                                        .index = switches_++,
                                        .model = parts_.model,
                                        .bus_id = {},
                                        .port_rate = {}});
      if (parts_.reduces) cluster_.set_fact(id, "reduces", "yes");
    }
    return first;
  }

  void attach(std::int32_t node, std::int32_t rail, DeviceId to) {
    Link edge = parts_.edge;
    edge.a = nics_[static_cast<std::size_t>(node)][static_cast<std::size_t>(rail)];
    edge.b = to;
    cluster_.connect(edge);
  }

  void join(DeviceId a, DeviceId b, std::int32_t count) {
    Link trunk = parts_.trunk;
    trunk.a = a;
    trunk.b = b;
    trunk.rate_ab = trunk.rate_ba = trunk.rate_ab * count;
    trunk.count = count;
    cluster_.connect(trunk);
  }

  // A leaf has `down` ports towards nodes and `up` towards spines.
  Status fat_tree(bool by_rail) {
    const std::int32_t ports = parts_.ports, oversub = options_.oversub;
    // By rail a leaf holds one NIC of each of `group` nodes; else all NICs of them.
    const std::int32_t most_down = std::max(1, ports * oversub / (oversub + 1));
    const std::int32_t group =
        by_rail ? std::min(most_down, nodes_) : std::clamp(most_down / std::max(rails_, 1), 1, nodes_);
    const std::int32_t per_group = by_rail ? rails_ : divide_up(rails_, most_down);  // leaves
    const std::int32_t down = by_rail ? group : std::min(group * rails_, most_down);
    const std::int32_t leaves = divide_up(nodes_, group) * per_group;
    const std::int32_t up = divide_up(down, oversub);
    const DeviceId first = add_switches(leaves);
    for (std::int32_t n = 0; n < nodes_; ++n)
      for (std::int32_t r = 0; r < rails_; ++r)
        attach(n, r, first + n / group * per_group + (by_rail ? r : r / most_down));
    if (leaves == 1) return {};
    // Two levels reach as many leaves as a spine has ports; three are built when asked for only, because a chassis
    // spine is what is usually bought.
    if (options_.tiers == 3) return three_levels(first, leaves, up);
    const std::int32_t spines = spread(leaves, up, ports);
    const DeviceId spine = add_switches(spines);
    for (std::int32_t l = 0; l < leaves; ++l)
      for (std::int32_t s = 0; s < spines; ++s) join(first + l, spine + s, up / spines);
    return {};
  }

  // The fewest upper switches that have the ports, such that each lower one spreads its `up` links evenly over them.
  static std::int32_t spread(std::int32_t lower, std::int32_t up, std::int32_t ports) {
    std::int32_t upper = divide_up(static_cast<std::int64_t>(lower) * up, ports);
    while (upper < up && up % upper != 0) ++upper;
    return std::min(upper, up);
  }

  // Pods of leaves and spines; spine s of every pod is joined to the cores of plane s.
  Status three_levels(DeviceId first, std::int32_t leaves, std::int32_t up) {
    const std::int32_t per_pod = std::min(leaves, std::max(1, parts_.ports / 2));
    const std::int32_t pods = divide_up(leaves, per_pod);
    const std::int32_t spines = std::max(1, spread(per_pod, up, parts_.ports / 2));
    // A spine's links up, which its plane's cores share.
    const std::int32_t spine_up =
        divide_up(divide_up(static_cast<std::int64_t>(per_pod) * up, spines), options_.spine_oversub);
    const std::int32_t cores = pods > 1 ? spread(pods, spine_up, parts_.ports) : 0;
    const DeviceId spine = add_switches(pods * spines), core = add_switches(spines * cores);
    for (std::int32_t l = 0; l < leaves; ++l)
      for (std::int32_t s = 0; s < spines; ++s) join(first + l, spine + l / per_pod * spines + s, up / spines);
    for (std::int32_t p = 0; p < pods; ++p)
      for (std::int32_t s = 0; s < spines; ++s)
        for (std::int32_t c = 0; c < cores; ++c)
          join(spine + p * spines + s, core + s * cores + c, std::max(1, spine_up / cores));
    return {};
  }

  // Balanced as Kim et al. (ISCA 2008) recommend: of a switch's ports a quarter to NICs, half inside the group, a
  // quarter to other groups.
  Status dragonfly() {
    const std::int32_t down = std::max(1, parts_.ports / 4), per_group = 2 * down, global = down;
    const std::int64_t all = static_cast<std::int64_t>(nodes_) * rails_;
    const std::int32_t switches = divide_up(all, down), groups = divide_up(switches, per_group);
    const DeviceId first = add_switches(switches);
    std::int64_t port = 0;
    for (std::int32_t n = 0; n < nodes_; ++n)
      for (std::int32_t r = 0; r < rails_; ++r) attach(n, r, first + static_cast<DeviceId>(port++ / down));
    const auto size = [&](std::int32_t g) { return std::min(per_group, switches - g * per_group); };
    for (std::int32_t g = 0; g < groups; ++g)
      for (std::int32_t i = 0; i < size(g); ++i)
        for (std::int32_t j = i + 1; j < size(g); ++j) join(first + g * per_group + i, first + g * per_group + j, 1);
    for (std::int32_t a = 0; a < groups; ++a)
      for (std::int32_t b = a + 1; b < groups; ++b) join_groups(first, per_group, a, b, size, global, groups);
    return {};
  }

  // The smaller group's global ports, divided among the other groups: one link per switch pair as long as they last.
  template <class Size>
  void join_groups(DeviceId first, std::int32_t per_group, std::int32_t a, std::int32_t b, const Size& size,
                   std::int32_t global, std::int32_t groups) {
    const std::int32_t members = std::min(size(a), size(b));
    const std::int32_t links = std::max(1, members * global / (groups - 1));
    const std::int32_t pairs = std::min(links, members);
    for (std::int32_t i = 0; i < pairs; ++i) {
      // Different peers start at different switches where there are fewer links than switches.
      const std::int32_t in_a = (i + (pairs < members ? b : 0)) % size(a),
                         in_b = (i + (pairs < members ? a : 0)) % size(b);
      join(first + a * per_group + in_a, first + b * per_group + in_b, links / pairs);
    }
  }

  // A switch per node with all its NICs; as many links to every neighbour as the node has rails.
  Status torus() {
    std::vector<std::int32_t> dims = options_.dims;
    if (dims.empty()) dims = factors(nodes_, nodes_ >= 27 ? 3 : 2);
    std::int64_t product = 1;
    for (const std::int32_t d : dims) product *= d;
    if (product != nodes_) return bad_input("dims={} are {} nodes, not {}", fmt::join(dims, "x"), product, nodes_);
    const DeviceId first = add_switches(nodes_);
    for (std::int32_t n = 0; n < nodes_; ++n) {
      for (std::int32_t r = 0; r < rails_; ++r) attach(n, r, first + n);
      std::int32_t stride = nodes_;
      for (const std::int32_t length : dims) {
        stride /= length;
        const std::int32_t here = n / stride % length;
        if (here + 1 < length) join(first + n, first + n + stride, rails_);
        if (length > 2 && here + 1 == length) join(first + n, first + n - here * stride, rails_);
      }
    }
    return {};
  }

  const NetworkParts& parts_;
  const ClusterOptions& options_;
  const std::vector<std::vector<DeviceId>>& nics_;
  Topology& cluster_;
  std::int32_t nodes_, rails_, switches_ = 0;
};

}  // namespace

Status add_fabric(const NetworkParts& parts, const ClusterOptions& options,
                  const std::vector<std::vector<DeviceId>>& nics, Topology& cluster) {
  return Builder(parts, options, nics, cluster).run();
}

}  // namespace weft::topology
