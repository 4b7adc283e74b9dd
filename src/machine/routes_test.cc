#include "machine/routes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <set>

#include "machine/machine.h"

namespace weft::topology {
namespace {

Topology machine(std::string_view text) {
  auto t = load_machine(text);
  EXPECT_TRUE(t) << t.error().message;
  return std::move(t).value_or(Topology{});
}

// The only device of this name, e.g. "gpu3".
DeviceId named(const Topology& t, std::string_view name) {
  for (DeviceId id = 0; id < static_cast<DeviceId>(t.devices().size()); ++id)
    if (t.name_of(id) == name) return id;
  ADD_FAILURE() << "no " << name;
  return 0;
}

// Every hop starts where the one before ended, and rate and latency are those of the hops.
void expect_connected(const Topology& t, const Path& path, DeviceId from, DeviceId to) {
  DeviceId at = from;
  double slowest = INFINITY;
  Duration latency;
  for (const Hop& hop : path.hops) {
    const Link& link = t.link(hop.link);
    ASSERT_EQ(hop.forward ? link.a : link.b, at);
    at = hop.forward ? link.b : link.a;
    slowest = std::min(slowest, (hop.forward ? link.rate_ab : link.rate_ba).value());
    latency += link.latency;
  }
  EXPECT_EQ(at, to);
  EXPECT_EQ(path.rate.value(), slowest);
  EXPECT_EQ(path.latency, latency);
}

TEST(Routes, NvlinkBeatsPcieInADgxH100) {
  const Topology t = machine("dgx-h100");
  const Routes routes(t);
  const Path path = routes.path(named(t, "gpu0"), named(t, "gpu7"));
  EXPECT_EQ(path.type, PathType::kNvl);
  EXPECT_EQ(path.hops.size(), 2u);  // to the NVSwitch and on
  EXPECT_DOUBLE_EQ(path.rate.gb(), 450);
  expect_connected(t, path, named(t, "gpu0"), named(t, "gpu7"));
}

TEST(Routes, ClassesAreThoseOfTheField) {
  const Topology t = machine("dgx-h100");
  const Routes routes(t);
  const auto type = [&](std::string_view a, std::string_view b) { return routes.path(named(t, a), named(t, b)).type; };
  EXPECT_EQ(type("gpu0", "gpu0"), PathType::kLoc);
  EXPECT_EQ(type("gpu0", "nic0"), PathType::kPix);  // the switch they share
  EXPECT_EQ(type("gpu0", "nic1"), PathType::kPhb);  // CPU 0
  EXPECT_EQ(type("gpu0", "nic4"), PathType::kSys);  // CPU 0 to CPU 1
  EXPECT_EQ(type("gpu0", "cpu0"), PathType::kPhb);
  EXPECT_EQ(type("gpu0", "memory1"), PathType::kSys);
}

TEST(Routes, GpusWithoutNvlinkMeetAtTheHostBridge) {
  const Topology t = machine("pcie-2x4090");
  const Path path = Routes(t).path(named(t, "gpu0"), named(t, "gpu1"));
  EXPECT_EQ(path.type, PathType::kPhb);
  EXPECT_NEAR(path.rate.gb(), 31.508, 0.001);
}

TEST(Routes, AGpuRelaysOnlyWhereNoNvlinkIsDirect) {
  const Topology t = machine("dgx1-v100");
  const Routes routes(t);
  EXPECT_EQ(routes.path(named(t, "gpu0"), named(t, "gpu3")).hops.size(), 1u);
  const Path relayed = routes.path(named(t, "gpu0"), named(t, "gpu5"));  // 0-4-5 or 0-1-5: no direct link
  EXPECT_EQ(relayed.type, PathType::kNvl);
  EXPECT_EQ(relayed.hops.size(), 2u);
  EXPECT_DOUBLE_EQ(relayed.rate.gb(), 25);  // one of the two links is single either way
}

TEST(Routes, AWiderPathBeatsAShorterOneAndAShorterOneAnEquallyWideOne) {
  Topology t;
  const auto add = [&](DeviceKind kind, std::int32_t number) {
    return t.add({.kind = kind, .node = 0, .index = number, .model = {}, .bus_id = {}, .port_rate = {}});
  };
  const auto connect = [&](DeviceId a, DeviceId b, double gb) {
    const BytesPerSecond rate = BytesPerSecond::gigabytes(gb);
    return t.connect(
        {.kind = LinkKind::kNvlink, .a = a, .b = b, .rate_ab = rate, .rate_ba = rate, .latency = {}, .count = 1});
  };
  const DeviceId a = add(DeviceKind::kGpu, 0), b = add(DeviceKind::kGpu, 1), c = add(DeviceKind::kGpu, 2);
  const DeviceId fabric = add(DeviceKind::kNvSwitch, 0);
  connect(a, b, 25);
  const LinkId direct = connect(a, c, 100);
  for (const DeviceId gpu : {a, b, c}) connect(gpu, fabric, 100);
  const Routes routes(t);
  EXPECT_EQ(routes.path(a, b).hops.size(), 2u);  // 100 GB/s by the switch, not 25 directly
  EXPECT_DOUBLE_EQ(routes.path(a, b).rate.gb(), 100);
  EXPECT_EQ(routes.path(a, c).hops, (std::vector<Hop>{{direct, true}}));
  EXPECT_EQ(routes.path(c, a).hops, (std::vector<Hop>{{direct, false}}));
}

TEST(Routes, NodesAreReachedThroughTheNearestNics) {
  const Topology t = machine("dgx-h100:nodes=16,net=ib-ndr");
  const Routes routes(t);
  const DeviceId from = named(t, "node0/gpu3"), to = named(t, "node9/gpu3");
  const Path path = routes.path(from, to);
  EXPECT_EQ(path.type, PathType::kNet);
  // GPU, PCIe switch, NIC 3, leaf of rail 3, NIC 3, PCIe switch, GPU: six links.
  EXPECT_EQ(path.hops.size(), 6u);
  EXPECT_DOUBLE_EQ(path.rate.gb(), 50);
  expect_connected(t, path, from, to);
  const DeviceId other_rail = named(t, "node9/gpu4");
  const Path crossing = routes.path(from, other_rail);
  EXPECT_EQ(crossing.hops.size(), 8u);  // up to a spine and down to the leaf of rail 4
  expect_connected(t, crossing, from, other_rail);
}

TEST(Routes, EquallyNearNicsAreSharedOutByGpu) {
  const Topology t = machine("dgx-a100:nodes=2");  // two GPUs and two NICs at each PCIe switch
  const Routes routes(t);
  std::set<DeviceId> used;
  for (int g = 0; g < 8; ++g) {
    const Path path = routes.path(named(t, fmt::format("node0/gpu{}", g)), named(t, "node1/gpu0"));
    for (const Hop& hop : path.hops)
      if (t.link(hop.link).kind == LinkKind::kNetwork) {
        used.insert(hop.forward ? t.link(hop.link).a : t.link(hop.link).b);
        break;
      }
  }
  EXPECT_EQ(used.size(), 8u);
}

TEST(Routes, AnswersDoNotDependOnTheOrderOfCalls) {
  const Topology t = machine("dgx-h100:nodes=32,net=ib-hdr");
  const std::vector<DeviceId> ends = t.endpoints();
  const Routes forwards(t), backwards(t);
  std::vector<std::vector<Hop>> first, second;
  for (std::size_t i = 0; i < ends.size(); i += 5)
    first.push_back(forwards.path(ends[i], ends[ends.size() - 1 - i]).hops);
  for (std::size_t i = first.size(); i-- > 0;)
    second.insert(second.begin(), backwards.path(ends[i * 5], ends[ends.size() - 1 - i * 5]).hops);
  EXPECT_EQ(first, second);
}

TEST(Routes, TheOrderOfLinksDoesNotDecideWhetherANicReachesMemory) {
  // A GH200 reaches its NIC through the coherent link to its CPU, whatever comes first in a file of links.
  const Topology t = machine("gh200:nodes=2");
  Topology other;
  for (const Device& d : t.devices()) other.add(d);
  for (std::size_t l = t.links().size(); l-- > 0;) other.connect(t.links()[l]);
  const Routes routes(t), other_routes(other);
  for (const DeviceId from : t.endpoints())
    for (const DeviceId to : t.endpoints()) {
      const Path path = routes.path(from, to), other_path = other_routes.path(from, to);
      EXPECT_EQ(path.hops.size(), other_path.hops.size()) << t.name_of(from) << " to " << t.name_of(to);
      EXPECT_EQ(path.latency, other_path.latency) << t.name_of(from) << " to " << t.name_of(to);
    }
}

TEST(Routes, EqualCostRoutesSpreadOverTheSpines) {
  const Topology t = machine("dgx-h100:nodes=64,net=ib-ndr");
  const Routes routes(t);
  std::set<DeviceId> spines;
  for (int n = 0; n < 32; ++n) {
    const Path path =
        routes.path(named(t, fmt::format("node{}/gpu0", n)), named(t, fmt::format("node{}/gpu0", n + 32)));
    ASSERT_EQ(path.hops.size(), 8u);
    const Hop up = path.hops[3];
    spines.insert(up.forward ? t.link(up.link).b : t.link(up.link).a);
  }
  EXPECT_GT(spines.size(), 4u);  // 64 nodes · 8 rails: 16 leaves · 32 uplinks / 64 ports = 8 spines
}

TEST(Routes, DevicesWithoutAConnectionAreDisconnected) {
  Topology t;
  const DeviceId a = t.add({}), b = t.add({.index = 1, .model = {}, .bus_id = {}, .port_rate = {}});
  EXPECT_EQ(Routes(t).path(a, b).type, PathType::kDis);
  EXPECT_TRUE(Routes(t).path(a, b).hops.empty());
}

TEST(Routes, SixteenThousandGpusBuildAndRouteWithinSeconds) {
  const auto start = std::chrono::steady_clock::now();
  const Topology t = machine("dgx-h100:nodes=2048,net=ib-ndr");
  const auto built = std::chrono::steady_clock::now();
  const std::vector<DeviceId> ends = t.endpoints();
  ASSERT_EQ(ends.size(), 16'384u);
  const Routes routes(t);
  std::size_t crossing = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Path path = routes.path(ends[i], ends[(i + 1) % ends.size()]);
    ASSERT_NE(path.type, PathType::kDis);
    crossing += path.type == PathType::kNet;
  }
  EXPECT_EQ(crossing, 2048u);  // one ring edge leaves each node
  const auto routed = std::chrono::steady_clock::now();
  const auto seconds = [](auto d) { return std::chrono::duration<double>(d).count(); };
  RecordProperty("build_s", std::to_string(seconds(built - start)));
  RecordProperty("route_s", std::to_string(seconds(routed - built)));
  // Measured 0.1 s each in Release; the bound leaves room for sanitizers and busy machines.
  EXPECT_LT(seconds(routed - start), 20);
}

}  // namespace
}  // namespace weft::topology
