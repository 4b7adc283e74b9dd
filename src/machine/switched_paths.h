#pragma once

#include <optional>
#include <span>

#include "machine/routes.h"

namespace weft::topology {

// Ways of a whole group of devices through switches that sum what comes in and copy what goes out (NVLink SHARP, SHARP;
// fact "reduces": "yes"): each link is crossed once, however many members lie behind it. A path's type, rate and
// latency are those of the worst member's way. In all of them: nothing, if between some members there is no such
// switch, or if the group has one member only. Time: O(members) paths.
bool reduces(const Device& device);
// Are there switches of this kind, and do all of them sum? Of those inside nodes: and is every GPU joined to one that
// does? Time: O(devices + links).
bool switches_sum(const Topology& topology, DeviceKind kind);

// Everybody's data to `reader`, its own included, summed on the way.
std::optional<Path> reduced_path(const Topology& topology, const Routes& routes, std::span<const DeviceId> members,
                                 DeviceId reader);
// The path from `writer` to everybody, itself included.
std::optional<Path> multicast_path(const Topology& topology, const Routes& routes, std::span<const DeviceId> members,
                                   DeviceId writer);
// The path from one member to the first switch on its way that sums …
std::optional<Path> path_into_switch(const Topology& topology, const Routes& routes, std::span<const DeviceId> members,
                                     DeviceId member);
// … and from all members' first switches, over those that sum them up further, to every member.
std::optional<Path> path_from_switches(const Topology& topology, const Routes& routes,
                                       std::span<const DeviceId> members);

}  // namespace weft::topology
