#include "machine/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "machine/peer_access.h"
#include "machine/routes.h"
#include "machine/topology_json.h"

namespace weft::topology {
namespace {

std::int64_t count(const Topology& t, DeviceKind kind) { return std::ranges::count(t.devices(), kind, &Device::kind); }

std::string error_of(std::string_view machine) {
  const auto result = load_machine(machine);
  return result ? "" : result.error().message;
}

TEST(Machine, EveryPresetLoadsAloneWithoutNetworkSwitches) {
  ASSERT_GE(presets().size(), 2u);
  for (const PresetInfo& preset : presets()) {
    const auto t = load_machine(preset.name);
    ASSERT_TRUE(t) << t.error().message;
    EXPECT_EQ(t->title, preset.name);
    EXPECT_EQ(t->nodes(), 1);
    EXPECT_EQ(count(*t, DeviceKind::kNetworkSwitch), 0);
    EXPECT_FALSE(preset.summary.empty() || preset.source.empty());
  }
}

// What docker's driver wraps is text whatever the file is called.
TEST(Machine, ATableInLinesOfJsonIsReadFromAFileNamedJson) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "weft-wrapped.json";
  {
    std::ofstream out(file);
    for (const char* line : {"        GPU0    GPU1    CPU Affinity    NUMA Affinity",
                             "GPU0     X      NV12    0-31    0", "GPU1    NV12     X      0-31    0"})
      out << R"({"log":")" << line << R"(\n","stream":"stdout","time":"2026-01-06T10:00:00Z"})" << '\n';
  }
  const auto wrapped = load_machine(file.string() + ":gpu=A100-SXM4-80GB");
  ASSERT_TRUE(wrapped) << wrapped.error().message;
  EXPECT_EQ(count(*wrapped, DeviceKind::kGpu), 2);
  std::ofstream(file) << "words of no machine\n";
  EXPECT_EQ(error_of(file.string()).rfind("weft-wrapped.json:1:1: no JSON:", 0), 0U) << error_of(file.string());
  std::filesystem::remove(file);
}

TEST(Machine, CapitalsOfAPresetAndItsNetworkDoNotMatter) {
  const auto capitals = load_machine("DGX-H100:nodes=2,net=IB-NDR");
  ASSERT_TRUE(capitals) << capitals.error().message;
  EXPECT_EQ(to_json(*capitals), to_json([] {
              Topology t = *load_machine("dgx-h100:nodes=2,net=ib-ndr");
              t.title = "dgx-h100:nodes=2,net=IB-NDR";
              return t;
            }()));
  EXPECT_TRUE(error_of("DGX-H1000").starts_with("unknown machine 'DGX-H1000'"));
}

TEST(Machine, AGpusCommonNameIsItsPreset) {
  for (const auto& [name, preset] : {std::pair("h100", "dgx-h100"),
                                     {"H200", "hgx-h200"},
                                     {"B200", "hgx-b200"},
                                     {"MI350X", "mi350x"},
                                     {"p5.48xlarge", "aws-p5"}}) {
    const auto t = load_machine(name);
    ASSERT_TRUE(t) << t.error().message;
    EXPECT_EQ(t->endpoints().size(), load_machine(preset)->endpoints().size()) << name;
  }
  EXPECT_NE(error_of("dgx-h10").find("did you mean dgx-h100"), std::string::npos);
}

// The PCIe switch of a ConnectX-8 joins its GPU by PCIe 6, the CPU by PCIe 5.
TEST(Machine, Gb300ReachesItsAdapterWithoutTheCpu) {
  const auto t = load_machine("gb300-nvl72");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->endpoints().size(), 72u);
  const auto nic = std::ranges::find(t->devices(), DeviceKind::kNic, &Device::kind) - t->devices().begin();
  const Path path = Routes(*t).path(t->endpoints()[0], static_cast<DeviceId>(nic));
  EXPECT_EQ(path.type, PathType::kPix);
  EXPECT_EQ(path.hops.size(), 2u);
}

TEST(Machine, DgxH100HasEightGpusWith450GigabytesPerSecondOfNvlinkEach) {
  const auto t = load_machine("dgx-h100");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->endpoints().size(), 8u);
  // 18 links of 25 GB/s each way: 450 GB/s per GPU; eight of them: 3.6 TB/s into the switches, which is the data
  // sheet's bisection counted in both directions (4 GPUs on each side, 2 · 4 · 450).
  double into_switches = 0;
  for (const Link& link : t->links())
    if (link.kind == LinkKind::kNvlink) {
      EXPECT_DOUBLE_EQ(link.rate_ab.gb(), 450);
      EXPECT_EQ(link.count, 18);
      into_switches += link.rate_ab.gb();
    }
  EXPECT_DOUBLE_EQ(into_switches, 3600);
}

TEST(Machine, TwoRtx4090SitAtOneCpuOverPcie4) {
  const auto t = load_machine("pcie-2x4090");
  ASSERT_TRUE(t) << t.error().message;
  for (const Link& link : t->links())
    if (link.kind == LinkKind::kPcie) {
      EXPECT_NEAR(link.rate_ab.gb(), 31.508, 0.001);  // 16 GT/s · 16 lanes · 128/130 / 8 bit
    }
}

TEST(Machine, AClusterThatFitsOneSwitchHasOne) {
  const auto t = load_machine("dgx-h100:nodes=8,net=ib-ndr");  // 64 NICs, 64 ports
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(count(*t, DeviceKind::kNetworkSwitch), 1);
}

TEST(Machine, ALargerClusterHasOneLeafPerRailAndNonBlockingSpines) {
  const auto t = load_machine("dgx-h100:nodes=16,net=ib-ndr");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->endpoints().size(), 128u);
  // 16 nodes · 8 rails = 128 NICs: 8 leaves of 16 NICs and 16 uplinks; 128 uplinks need 2 spines of 64 ports.
  EXPECT_EQ(count(*t, DeviceKind::kNetworkSwitch), 8 + 2);
  double down = 0, up = 0;
  for (const Link& link : t->links()) {
    if (link.kind != LinkKind::kNetwork) continue;
    const bool nic = t->device(link.a).kind == DeviceKind::kNic;
    (nic ? down : up) += link.rate_ab.gb();
  }
  EXPECT_DOUBLE_EQ(down, 128 * 50);
  EXPECT_DOUBLE_EQ(up, down);
}

TEST(Machine, OversubscriptionLeavesThatFractionOfTheUplinks) {
  const auto t = load_machine("dgx-h100:nodes=16,net=ib-ndr,oversub=4");
  ASSERT_TRUE(t) << t.error().message;
  double down = 0, up = 0;
  for (const Link& link : t->links())
    if (link.kind == LinkKind::kNetwork) (t->device(link.a).kind == DeviceKind::kNic ? down : up) += link.rate_ab.gb();
  EXPECT_DOUBLE_EQ(down / up, 4);
}

TEST(Machine, RailsChooseHowManyNicsOfANodeAreWired) {
  const auto t = load_machine("dgx-h100:nodes=4,net=ib-ndr,rails=2");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(std::ranges::count(t->links(), LinkKind::kNetwork, &Link::kind), 4 * 2);
}

TEST(Machine, ANodeWithoutNicsGetsOneForTheNetwork) {
  const auto t = load_machine("pcie-2x4090:nodes=2,net=roce-100");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(count(*t, DeviceKind::kNic), 2);
}

TEST(Machine, SeveralNodesWithoutANamedNetworkUseThePresetsOwn) {
  const auto t = load_machine("dgx-a100:nodes=2");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->device(static_cast<DeviceId>(t->devices().size()) - 1).model, "ib-hdr");
}

TEST(Machine, FilesAreReadAndCanBeMultiplied) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "weft-machine-test.json";
  std::ofstream(file) << to_json(*load_machine("dgx-a100"));
  const auto one = load_machine(file.string());
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(*one, *load_machine("dgx-a100"));
  const auto four = load_machine(file.string() + ":nodes=4,net=roce-400");
  ASSERT_TRUE(four) << four.error().message;
  EXPECT_EQ(four->endpoints().size(), 32u);
  EXPECT_NE(error_of(file.string() + ":nodes=4").find("need a network"), std::string::npos);
  std::filesystem::remove(file);
  EXPECT_NE(error_of(file.string()).find("no such file"), std::string::npos);
}

TEST(Machine, ErrorsNameWhatIsWrongAndWhatThereIs) {
  const std::string unknown = error_of("dgx-h900");
  EXPECT_NE(unknown.find("'dgx-h900'"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("dgx-h100, "), std::string::npos) << unknown;
  EXPECT_EQ(error_of("dgx-h100:nodes=0"), "'dgx-h100:nodes=0': nodes 0 is outside 1 … 131072");
  EXPECT_EQ(error_of("dgx-h100:nodes=two"), "'dgx-h100:nodes=two': nodes 'two' is not a whole number");
  EXPECT_EQ(error_of("dgx-h100:foo=1"),
            "'dgx-h100:foo=1': unknown option 'foo'; there are nodes, net, rails, oversub, tiers, wires, dims, nics, "
            "at, gpus, nvlink, pcie, "
            "mnnvl, shape, sharp, memory, iommu, tlb, mig, acs, peermem, p2p, gdr, routing, seed, pxn, and, node, gpu, "
            "topology");
  EXPECT_EQ(error_of("dgx-h100:nodes=2,nodes=3"), "'dgx-h100:nodes=2,nodes=3': option 'nodes' is given twice");
  EXPECT_EQ(error_of("dgx-h100:nodes=2,rails=9"),
            "'dgx-h100:nodes=2,rails=9': rails=9: a node of 'dgx-h100' has 8 NICs");
  const std::string net = error_of("dgx-h100:nodes=2,net=token-ring");
  EXPECT_NE(net.find("unknown net 'token-ring'; there are ib-sdr, ib-ddr"), std::string::npos) << net;
  EXPECT_NE(error_of(""), "");
}

TEST(TwoKinds, FurtherNodesHangAtTheSameNetworkWithTheRailsThatBothHave) {
  const auto loaded = load_machine("dgx-h100:nodes=2,and=dgx-a100*3");
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Topology& t = *loaded;
  EXPECT_EQ(t.nodes(), 5);
  std::map<std::string, int> gpus, cables;  // by node and model; by node
  for (const DeviceId gpu : t.devices_of(DeviceKind::kGpu))
    ++gpus[std::to_string(t.device(gpu).node) + " " + t.device(gpu).model];
  EXPECT_EQ(gpus["1 H100-SXM5"], 8);
  EXPECT_EQ(
      gpus["4 " + load_machine("dgx-a100")->device(load_machine("dgx-a100")->devices_of(DeviceKind::kGpu)[0]).model],
      8);
  EXPECT_EQ(gpus.size(), 5u);
  for (const Link& link : t.links())
    if (t.device(link.b).kind == DeviceKind::kNetworkSwitch && t.device(link.a).kind == DeviceKind::kNic)
      ++cables[std::to_string(t.device(link.a).node)];
  EXPECT_EQ(cables.size(), 5u);
  for (const auto& [node, count] : cables) EXPECT_EQ(count, cables["0"]) << node;
  const Routes routes(t);
  EXPECT_EQ(routes.path(t.devices_of(DeviceKind::kGpu)[0], t.devices_of(DeviceKind::kGpu)[39]).type, PathType::kNet);
}

TEST(TwoKinds, RefusesNodesThatDoNotFitTogether) {
  EXPECT_NE(error_of("dgx-h100:and=pcie-4x3090*2")
                .find("nodes of 'dgx-h100' have 8 GPUs and those of 'pcie-4x3090' 4; "
                      "gpus=4 takes as many of each"),
            std::string::npos)
      << error_of("dgx-h100:and=pcie-4x3090*2");
  EXPECT_TRUE(load_machine("dgx-h100:gpus=4,and=pcie-4x3090*2"));
  EXPECT_NE(error_of("dgx-h100:and=dgx-h1000").find("unknown machine 'dgx-h1000'"), std::string::npos);
  EXPECT_NE(error_of("dgx-h100:and=*2").find("and=PRESET*NODES"), std::string::npos);
  EXPECT_NE(error_of("dgx-h100:and=dgx-h200*0").find("the nodes of and="), std::string::npos);
}

// NVIDIA's MIG User Guide: no peer-to-peer between instances, neither over NVLink nor over PCIe; GPUDirect RDMA stays.
TEST(Mig, InstancesShareTheirGpusPcieLinkAndMeetInHostMemory) {
  const auto loaded = load_machine("dgx-h100:mig=7");
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Topology& t = *loaded;
  EXPECT_EQ(count(t, DeviceKind::kGpu), 56);
  EXPECT_EQ(count(t, DeviceKind::kNvSwitch), 0);
  const Routes routes(t);
  const auto named = [&](std::string_view name) {
    for (DeviceId id = 0; id < static_cast<DeviceId>(t.devices().size()); ++id)
      if (t.name_of(id) == name) return id;
    return DeviceId{-1};
  };
  const DeviceId first = named("gpu0"), sibling = named("gpu1"), other = named("gpu7"), nic = named("nic0");
  EXPECT_FALSE(peer_access(t, first, sibling, routes.path(first, sibling)).possible);
  EXPECT_FALSE(peer_access(t, first, other, routes.path(first, other)).possible);
  EXPECT_TRUE(peer_access(t, first, nic, routes.path(first, nic)).possible);
  EXPECT_EQ(t.device(first).model, "1/7 of H100-SXM5");
}

TEST(Mig, RefusesWhatHasNone) {
  EXPECT_NE(error_of("pcie-4x3090:mig=2").find("RTX-3090 has no MIG"), std::string::npos);
  EXPECT_NE(error_of("dgx-h100:mig=8").find("mig"), std::string::npos);
  EXPECT_NE(error_of("gb200-nvl72:mig=2,mnnvl=2").find("no NVLink"), std::string::npos);
  EXPECT_NE(error_of("dgx-h100:mig=2,p2p=sys").find("no P2P"), std::string::npos);
}

}  // namespace
}  // namespace weft::topology
