#include "model/sim/packet/effect.h"

#include <algorithm>
#include <ranges>

#include "base/text.h"
#include "model/sim/packet/rules.h"
#include "model/sim/packet/shortest_ways.h"

namespace weft::sim {
namespace {

using topology::DeviceId;

// Whether packets between some two NICs have a choice. Of large networks the first NICs of the first node are looked
// at: those of the last nodes are farthest from them.
bool has_second_way(const topology::Topology& t, const topology::Routes& routes) {
  constexpr int kMostPaths = 4096;
  const auto nics = t.devices_of(topology::DeviceKind::kNic);
  int looked_at = 0;
  for (const DeviceId from : nics)
    for (auto to = nics.rbegin(); to != nics.rend() && t.device(*to).node != t.device(from).node; ++to) {
      if (++looked_at > kMostPaths) return true;  // nothing is claimed
      std::vector<MaxMin::Use> path;
      for (const topology::Hop& hop : routes.path(from, *to).hops)
        path.push_back({static_cast<MaxMin::Resource>(2 * hop.link + (hop.forward ? 0 : 1)), 1});
      if (shortest_ways(t, path, 2).size() > 1) return true;
    }
  return false;
}

}  // namespace

Status check_effect(const PacketOptions& options, const topology::Topology& topology, const topology::Routes& routes) {
  const PacketRules rules = PacketRules::shipped();
  const auto drops = [&](const topology::Link& l) {
    return l.count > 0 && rules.of(topology, l).control == LinkRules::Control::kPause;
  };
  const bool lossy = std::ranges::any_of(topology.links(), drops);
  for (const std::string& given : options.given) {
    const std::string key = given.substr(0, given.find('='));
    if (key == "spread" && options.spread != PacketOptions::Spread::kFlow && !has_second_way(topology, routes))
      return bad_input("--level packet: {} has no effect: in {} one shortest way leads from any NIC to any other",
                       given, topology.title);
    constexpr std::string_view kOfLossy[] = {"pfc", "dcqcn", "recovery", "timeout", "alpha", "loss"};
    if (!lossy && std::ranges::find(kOfLossy, key) != std::end(kOfLossy))
      return bad_input(
          "--level packet: {} has no effect: no link of {} drops packets, as all give credits; Ethernet "
          "does: net=eth-400",
          given, topology.title);
    if (key != "buffer") continue;
    for (const topology::Link& l : topology.links()) {
      const LinkRules& of = rules.of(topology, l);
      const Bytes packet = (options.payload > 0 ? options.payload : of.payload) + of.overhead;
      if (l.count > 0 && options.buffer < packet)
        return bad_input("--level packet: {}: less than a packet of {} on {}", given, format_bytes(packet), of.link);
    }
  }
  return {};
}

}  // namespace weft::sim
