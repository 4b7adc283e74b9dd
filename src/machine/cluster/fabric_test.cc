#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "machine/machine.h"
#include "machine/peer_access.h"
#include "machine/place.h"
#include "machine/render/staircase.h"
#include "machine/routes.h"
#include "machine/switch_height.h"

namespace weft::topology {
namespace {

Topology machine(std::string_view text) {
  auto t = load_machine(text);
  EXPECT_TRUE(t) << t.error().message;
  return std::move(t).value_or(Topology{});
}

std::string error_of(std::string_view text) {
  const auto t = load_machine(text);
  return t ? "no error" : t.error().message;
}

DeviceId named(const Topology& t, std::string_view name) {
  for (DeviceId id = 0; id < static_cast<DeviceId>(t.devices().size()); ++id)
    if (t.name_of(id) == name) return id;
  ADD_FAILURE() << "no " << name;
  return 0;
}

// Gigabytes per second of all links that arrive at each height from below.
std::vector<double> rates_by_level(const Topology& t) {
  const std::vector<std::int32_t> height = switch_heights(t);
  std::vector<double> sums(4);
  for (const Link& l : t.links()) {
    const std::int32_t a = height[static_cast<std::size_t>(l.a)], b = height[static_cast<std::size_t>(l.b)];
    if (l.kind == LinkKind::kNetwork && a != b) sums[static_cast<std::size_t>(std::max(a, b))] += l.rate_ab.gb();
  }
  return sums;
}

TEST(Fabric, ThreeTiersCarryAtEveryLevelWhatTheNicsSend) {
  // 256 nodes · 8 NICs: 64 leaves in two pods of 32, 32 spines and their cores; 50 GB/s per NIC at each level.
  const std::vector<double> rates = rates_by_level(machine("dgx-h100:nodes=256,net=ib-ndr,tiers=3"));
  EXPECT_DOUBLE_EQ(rates[0], 256 * 8 * 50);
  EXPECT_DOUBLE_EQ(rates[1], rates[0]);
  EXPECT_DOUBLE_EQ(rates[2], rates[0]);
}

TEST(Fabric, ACluster131072GpusBuilds) {
  const Topology t = machine("dgx-h100:nodes=16384,net=ib-ndr,tiers=3");
  EXPECT_EQ(t.endpoints().size(), 131'072u);
  const Routes routes(t);
  const std::vector<DeviceId> ends = t.endpoints();
  EXPECT_EQ(routes.path(ends.front(), ends.back()).type, PathType::kNet);
}

TEST(Fabric, APlainFatTreeKeepsANodesNicsAtOneLeaf) {
  const Topology t = machine("dgx-h100:nodes=32,wires=fat-tree");
  std::set<std::pair<std::int32_t, DeviceId>> pairs;
  for (const Link& l : t.links())
    if (l.kind == LinkKind::kNetwork && t.device(l.a).node >= 0) pairs.emplace(t.device(l.a).node, l.b);
  EXPECT_EQ(pairs.size(), 32u);
}

TEST(Fabric, DragonflyReachesEveryNodeInThreeTrunks) {
  const Topology t = machine("dgx-h100:nodes=256,wires=dragonfly");
  const Routes routes(t);
  for (const std::int32_t node : {1, 63, 64, 200, 255}) {
    const Path path = routes.path(named(t, "node0/nic0"), named(t, fmt::format("node{}/nic3", node)));
    EXPECT_EQ(path.type, PathType::kNet);
    EXPECT_LE(path.hops.size(), 2u + 3u) << node;  // NIC, local, global, local, NIC
  }
}

TEST(Fabric, ATorusOfNodesIsWiredToItsNeighbours) {
  const Topology t = machine("dgx-h100:nodes=27,wires=torus,dims=3x3x3");
  // Every node is one hop from six others, and no more than three from any.
  const Routes routes(t);
  int near = 0;
  for (std::int32_t node = 1; node < 27; ++node) {
    const auto trunks = routes.path(named(t, "node0/nic0"), named(t, fmt::format("node{}/nic0", node))).hops.size() - 2;
    EXPECT_LE(trunks, 3u);
    near += trunks == 1;
  }
  EXPECT_EQ(near, 6);
  EXPECT_EQ(error_of("dgx-h100:nodes=27,wires=torus,dims=3x3x2"),
            "'dgx-h100:nodes=27,wires=torus,dims=3x3x2': dims=3x3x2 are 18 nodes, not 27");
}

TEST(NodeOptions, NicsGenerationsAndNvlinkDomains) {
  const Topology nics = machine("dgx-h100:nodes=2,net=ib-ndr,nics=4,at=switch");
  EXPECT_EQ(std::ranges::count(nics.devices(), DeviceKind::kNic, &Device::kind), 8);
  const Topology older = machine("dgx-h100:nvlink=nvlink3,pcie=pcie4");
  for (const Link& l : older.links())
    if (l.kind == LinkKind::kPcie) {
      EXPECT_NEAR(l.rate_ab.gb(), 31.508, 1e-3);
    }
  const Topology rows = machine("gb200-nvl72:mnnvl=8");
  EXPECT_EQ(rows.endpoints().size(), 576u);
  EXPECT_EQ(rows.nodes(), 1);
  const Path path = Routes(rows).path(rows.endpoints().front(), rows.endpoints().back());
  EXPECT_EQ(path.type, PathType::kNvl);
  EXPECT_DOUBLE_EQ(path.rate.gb(), 900);
  EXPECT_EQ(error_of("pcie-2x4090:mnnvl=2"), "'pcie-2x4090:mnnvl=2': mnnvl=2: 'pcie-2x4090' has no NVSwitch");
}

TEST(NodeOptions, OneRankPerNodeLeavesTheOtherGpusOutAndTheirNicsIn) {
  const Topology t = machine("dgx-h100:nodes=4,net=ib-ndr,gpus=1");
  EXPECT_EQ(t.endpoints().size(), 4u);
  EXPECT_EQ(std::ranges::count(t.devices(), DeviceKind::kNic, &Device::kind), 32);
  // A single GPU leaves through the NIC at its own PCIe switch: gpu0, switch, nic0, network switch, and back.
  const Path path = Routes(t).path(named(t, "node0/gpu0"), named(t, "node1/gpu0"));
  EXPECT_EQ(path.hops.size(), 6u);
  EXPECT_DOUBLE_EQ(path.rate.gb(), 50);
  EXPECT_EQ(machine("dgx-h100:nodes=2,net=ib-ndr,gpus=8").devices().size(),
            machine("dgx-h100:nodes=2,net=ib-ndr").devices().size());
  EXPECT_EQ(machine("dgx-h100:gpus=4").endpoints().size(), 4u);
  // Adapters of one GPU are joined before the other GPUs are left out: its 4 of 32, 100 Gb/s each.
  const Topology efa = machine("aws-p5:nodes=2,gpus=1");
  EXPECT_DOUBLE_EQ(Routes(efa).path(named(efa, "node0/gpu0"), named(efa, "node1/gpu0")).rate.gb(), 50);
  // A NIC at a GPU that is left out is left out.
  const Topology at_gpus = machine("dgx-h100:nodes=2,net=ib-ndr,nics=8,at=gpu,gpus=2");
  EXPECT_EQ(std::ranges::count(at_gpus.devices(), DeviceKind::kNic, &Device::kind), 4);
  // A small torus of single ranks.
  EXPECT_EQ(machine("dgx-h100:nodes=9,wires=torus,dims=3x3,gpus=1").endpoints().size(), 9u);
  EXPECT_EQ(error_of("dgx-h100:gpus=9"), "'dgx-h100:gpus=9': gpus=9: 'dgx-h100' has 8");
  EXPECT_EQ(error_of("tpu-v4:gpus=2"),
            "'tpu-v4:gpus=2': gpus=2: the chips of 'tpu-v4' pass traffic on for each other; shape=… makes fewer of "
            "them");
}

TEST(Presets, ShapesMakeSlicesOfOtherSizes) {
  const Topology t = machine("tpu-v4:shape=8x4x4");
  EXPECT_EQ(t.endpoints().size(), 128u);
  EXPECT_EQ(std::ranges::count(t.devices(), DeviceKind::kCpu, &Device::kind), 32);
  // Across the torus: 4 + 2 + 2 hops at the most.
  const Path far = Routes(t).path(named(t, "gpu0"), named(t, "gpu74"));  // 4,2,2
  EXPECT_EQ(far.type, PathType::kNvl);
  EXPECT_EQ(far.hops.size(), 8u);
  EXPECT_DOUBLE_EQ(far.rate.gb(), 50);
  EXPECT_EQ(error_of("dgx-h100:shape=2x2"), "'dgx-h100' is no torus, grid or star: it takes no shape");
  EXPECT_EQ(error_of("tpu-v4:shape=4x4"), "a shape of 'tpu-v4' has 3 numbers, as in 4x4x4");
  EXPECT_NE(error_of("tpu-v4:shape=3x3x3").find("cannot be divided among 27"), std::string::npos);
}

TEST(Presets, FrontierHasTheLinksOfItsNodeDiagram) {
  const Topology t = machine("frontier");
  const Routes routes(t);
  EXPECT_DOUBLE_EQ(routes.path(named(t, "gpu0"), named(t, "gpu1")).rate.gb(), 200);  // one package
  EXPECT_DOUBLE_EQ(routes.path(named(t, "gpu0"), named(t, "gpu6")).rate.gb(), 100);
  EXPECT_DOUBLE_EQ(routes.path(named(t, "gpu0"), named(t, "gpu2")).rate.gb(), 50);
}

TEST(Routing, PoliciesDifferAndRepeat) {
  const std::string base = "dgx-h100:nodes=64,net=ib-ndr,oversub=1,tiers=2";
  const auto spines = [&](const std::string& options) {
    const Topology t = machine(base + options);
    const Routes routes(t);
    std::vector<LinkId> used;
    for (int n = 0; n < 8; ++n)
      used.push_back(routes.path(named(t, fmt::format("node{}/nic0", n)), named(t, fmt::format("node{}/nic0", 40 + n)))
                         .hops[1]
                         .link);
    return used;
  };
  EXPECT_EQ(spines(",seed=1"), spines(",seed=1"));
  EXPECT_NE(spines(",seed=1"), spines(",seed=2"));
  const auto shortest = spines(",routing=shortest"), adaptive = spines(",routing=adaptive");
  EXPECT_EQ(std::set(shortest.begin(), shortest.end()).size(), 1u);
  EXPECT_EQ(std::set(adaptive.begin(), adaptive.end()).size(), 8u);  // every pair its own spine
}

TEST(Routing, PxnLeavesOnTheRailOfTheReceiver) {
  const Topology off = machine("dgx-h100:nodes=16,net=ib-ndr"), on = machine("dgx-h100:nodes=16,net=ib-ndr,pxn=on");
  const auto path = [](const Topology& t) { return Routes(t).path(named(t, "node0/gpu0"), named(t, "node1/gpu5")); };
  // Paths without NVLink: leaf 0, spine, leaf 5. With it: NVLink to GPU 5, leaf 5.
  const auto trunks = [](const Topology& t, const Path& p) {
    return std::ranges::count_if(p.hops, [&](const Hop& h) {
      return t.device(t.link(h.link).a).node < 0 && t.device(t.link(h.link).b).node < 0;
    });
  };
  EXPECT_EQ(trunks(off, path(off)), 2);
  EXPECT_EQ(trunks(on, path(on)), 0);
  EXPECT_EQ(on.link(path(on).hops[0].link).kind, LinkKind::kNvlink);
}

TEST(PeerAccess, SaysWhetherAndWhy) {
  const auto verdict = [](std::string_view what, std::string_view a, std::string_view b) {
    const Topology t = machine(what);
    const DeviceId from = named(t, a), to = named(t, b);
    const PeerAccess access = peer_access(t, from, to, Routes(t).wire_path(from, to));
    return fmt::format("{}: {}", access.possible ? "yes" : "no", access.why);
  };
  EXPECT_EQ(verdict("dgx-h100", "gpu0", "nic0"), "yes: the same PCIe switch");
  EXPECT_EQ(verdict("dgx-h100", "gpu0", "gpu5"), "yes: scale-up links only");
  EXPECT_EQ(verdict("dgx-h100", "gpu0", "nic1"), "no: the root complex of a CPU lies between");
  EXPECT_EQ(verdict("dgx-h100", "gpu0", "nic7"), "no: the link between two sockets lies between");
  EXPECT_EQ(verdict("dgx-h100:iommu=on", "gpu0", "nic0"), "no: the IOMMU translates DMA addresses");
  EXPECT_EQ(verdict("dgx-h100:acs=on", "gpu0", "nic0"), "no: ACS sends peer-to-peer traffic up to the root complex");
  EXPECT_EQ(verdict("dgx-h100:peermem=off", "gpu0", "nic0"),
            "no: kernel module nvidia_peermem (or dma-buf) is not loaded");
  EXPECT_EQ(verdict("pcie-2x4090", "gpu0", "gpu1"), "no: RTX-4090 does not open its memory to PCIe peers");
  EXPECT_EQ(verdict("gb200-nvl72", "gpu0", "nic0"), "yes: a coherent link to the CPU that the NIC hangs at");
}

// A hit takes 10 ns, which measured latencies have; a miss 150: 140 more at each of the two GPUs.
TEST(HostSettings, TranslationsThatMissDelayWhatEntersAndLeavesAGpu) {
  const auto latency = [](const std::string& options) {
    const Topology t = machine("dgx-h100" + options);
    return Routes(t).path(named(t, "gpu0"), named(t, "gpu1")).latency.ns();
  };
  EXPECT_EQ(latency(":tlb=hit"), latency(""));
  EXPECT_EQ(latency(":tlb=miss"), latency("") + 2 * 140);
  EXPECT_FALSE(load_machine("dgx-h100:tlb=maybe"));
}

TEST(PeerAccess, WithoutItTheWayGoesThroughHostMemory) {
  const Topology direct = machine("dgx-h100:nodes=2,net=ib-ndr"),
                 staged = machine("dgx-h100:nodes=2,net=ib-ndr,peermem=off");
  const auto path = [](const Topology& t) { return Routes(t).path(named(t, "node0/gpu0"), named(t, "node1/gpu0")); };
  const auto memory_hops = [](const Topology& t, const Path& p) {
    return std::ranges::count_if(p.hops, [&](const Hop& h) { return t.link(h.link).kind == LinkKind::kMemory; });
  };
  EXPECT_EQ(memory_hops(direct, path(direct)), 0);
  EXPECT_EQ(memory_hops(staged, path(staged)), 4);  // down and up at both ends
  EXPECT_GT(path(staged).latency, path(direct).latency);
}

TEST(Place, PacksAJobBelowTheLowestSwitchesThatHoldIt) {
  const Topology t = machine("dgx-h100:nodes=64,wires=fat-tree");
  const auto groups = node_groups(t);
  ASSERT_TRUE(groups) << groups.error().message;
  std::vector<std::int32_t> free;
  for (std::int32_t n = 0; n < 64; ++n)
    if (n % 4 != 0 || n >= 32) free.push_back(n);  // leaves hold 4 nodes; the first eight leaves have 3 free
  EXPECT_EQ(*choose_nodes(*groups, free, 3), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(*choose_nodes(*groups, free, 4), (std::vector<std::int32_t>{32, 33, 34, 35}));
  EXPECT_EQ(choose_nodes(*groups, free, 60).error().message, "60 nodes are asked for, 56 are free");
  EXPECT_EQ(*scatter_nodes(free, 5, 7), *scatter_nodes(free, 5, 7));
  const std::vector<std::int32_t> two = {40, 3};
  const Topology part = subset(t, two);
  EXPECT_EQ(part.nodes(), 2);
  EXPECT_TRUE(part.validate());
}

TEST(Staircase, FallsFromMemoryToTheNetwork) {
  const auto catalog = Catalog::load(embedded::files());
  const std::vector<Step> steps = bandwidth_steps(*catalog, machine("dgx-h100:nodes=64,net=ib-ndr,oversub=2"));
  std::vector<double> rates;
  for (const Step& s : steps) rates.push_back(s.rate.gb());
  ASSERT_EQ(rates.size(), 5u);
  EXPECT_DOUBLE_EQ(rates[0], 3350);
  EXPECT_DOUBLE_EQ(rates[1], 450);
  EXPECT_NEAR(rates[2], 63.015, 1e-3);
  EXPECT_DOUBLE_EQ(rates[3], 50);
  EXPECT_DOUBLE_EQ(rates[4], 16 * 21 * 50 / 512.0);  // 2 groups · 8 leaves with 42 ports down and 21 up, for 512 GPUs
}

}  // namespace
}  // namespace weft::topology
