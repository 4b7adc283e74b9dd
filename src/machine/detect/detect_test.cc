#include "machine/detect/detect.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "machine/routes.h"

namespace weft::topology {
namespace {

const MeasuredRates kRates = {.memory = BytesPerSecond::gigabytes(20),
                              .core = BytesPerSecond::gigabytes(10),
                              .core_to_core = Duration::nanoseconds(100),
                              .source = "made up"};

std::int64_t count(const Topology& t, DeviceKind kind) { return std::ranges::count(t.devices(), kind, &Device::kind); }

// One core; below its host bridge a root port, a PCIe switch with two ports, an H100 and a ConnectX-7 at those, and
// a management chip's display controller at the root.
constexpr const char* kGpuHost = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3" local_memory="1024"/>
      <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4">
        <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="5"/>
      </object>
    </object>
    <object type="Bridge" gp_index="6" bridge_type="0-1" depth="0" bridge_pci="0000:[00-05]">
      <object type="PCIDev" gp_index="7" pci_busid="0000:00:02.0" pci_type="0300 [1a03:2000] [1a03:2000] 01" pci_link_speed="0.0"/>
      <object type="Bridge" gp_index="8" bridge_type="1-1" depth="1" bridge_pci="0000:[01-05]" pci_busid="0000:00:01.0" pci_type="0604 [8086:352a] [8086:0000] 04" pci_link_speed="63.015385">
        <object type="Bridge" gp_index="9" bridge_type="1-1" depth="2" bridge_pci="0000:[02-05]" pci_busid="0000:01:00.0" pci_type="0604 [1000:c030] [1000:0072] 00" pci_link_speed="63.015385">
          <object type="Bridge" gp_index="10" bridge_type="1-1" depth="3" bridge_pci="0000:[03-03]" pci_busid="0000:02:00.0" pci_type="0604 [1000:c030] [1000:0072] 00" pci_link_speed="63.015385">
            <object type="PCIDev" gp_index="11" pci_busid="0000:03:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="63.015385"/>
          </object>
          <object type="Bridge" gp_index="12" bridge_type="1-1" depth="3" bridge_pci="0000:[04-04]" pci_busid="0000:02:01.0" pci_type="0604 [1000:c030] [1000:0072] 00" pci_link_speed="31.507692">
            <object type="PCIDev" gp_index="13" pci_busid="0000:04:00.0" pci_type="0207 [15b3:1021] [15b3:0038] 00" pci_link_speed="31.507692"/>
          </object>
        </object>
      </object>
    </object>
  </object>
</topology>
)";

TEST(Detect, RanksThatUseNoGpuSitOnTheCoresOfAGpuHost) {
  const auto t = detect(RecordedHost(kGpuHost), kRates, Endpoints::kCores);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(count(*t, DeviceKind::kGpu), 0);
  ASSERT_FALSE(t->endpoints().empty());
  for (const DeviceId id : t->endpoints()) EXPECT_EQ(t->device(id).kind, DeviceKind::kCore);
}

TEST(Detect, GpusAndNicsBehindAPcieSwitch) {
  const auto t = detect(RecordedHost(kGpuHost), kRates);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(count(*t, DeviceKind::kPcieSwitch), 1);  // upstream port and two downstream ports are one switch
  EXPECT_EQ(count(*t, DeviceKind::kCore), 0);        // ranks sit on the GPU
  ASSERT_EQ(t->endpoints().size(), 1u);              // the management chip is none
  const DeviceId gpu = t->endpoints()[0];
  EXPECT_EQ(t->device(gpu).model, "H100-SXM5");
  EXPECT_EQ(t->device(gpu).bus_id, "0000:03:00.0");
  const auto nic =
      static_cast<DeviceId>(std::ranges::find(t->devices(), DeviceKind::kNic, &Device::kind) - t->devices().begin());
  const Path path = Routes(*t).path(gpu, nic);
  EXPECT_EQ(path.type, PathType::kPix);
  EXPECT_NEAR(path.rate.gb(), 31.508, 0.001);  // PCIe 4.0 x16 of the NIC
}

TEST(Detect, SocketsMemoryAndCoresOfAMachineWithoutGpus) {
  const auto t = detect(SyntheticHost("pack:2 [numa] l3:1 core:4 pu:1"), kRates);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->title, "this");
  EXPECT_EQ(count(*t, DeviceKind::kCpu), 2);
  EXPECT_EQ(count(*t, DeviceKind::kMemory), 2);
  ASSERT_EQ(t->endpoints().size(), 8u);
  const Routes routes(*t);
  const Path near = routes.path(t->endpoints()[0], t->endpoints()[3]);
  EXPECT_EQ(near.type, PathType::kPhb);
  EXPECT_DOUBLE_EQ(near.rate.gb(), 10);
  EXPECT_EQ(near.latency, Duration::nanoseconds(100));  // half of it to the CPU, half on to the other core
  const Path far = routes.path(t->endpoints()[3], t->endpoints()[4]);
  EXPECT_EQ(far.type, PathType::kSys);
  EXPECT_GT(far.latency, near.latency);
}

TEST(Detect, HyperthreadsAreNotCores) {
  const auto t = detect(SyntheticHost("pack:1 [numa] core:4 pu:2"), kRates);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->endpoints().size(), 4u);
}

TEST(Detect, ASocketOfSeveralNumaNodesCountsAsSeveralCpus) {
  const auto t = detect(SyntheticHost("pack:1 group:4 [numa] core:2 pu:1"), kRates);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(count(*t, DeviceKind::kCpu), 4);
  EXPECT_EQ(t->endpoints().size(), 8u);
}

TEST(Detect, ThisMachineHasAtLeastOneEndpoint) {
  const auto t = detect(ThisHost(), kRates);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_GE(t->endpoints().size(), 1u);
  EXPECT_TRUE(t->validate());
}

TEST(Detect, BadInputIsNamed) {
  EXPECT_EQ(detect(SyntheticHost("no machine"), kRates).error().message,
            "'no machine' is no hwloc synthetic description");
  EXPECT_EQ(detect(RecordedHost("<html/>"), kRates).has_value(), false);
  EXPECT_EQ(detect(ThisHost(), MeasuredRates{.memory = {}, .core = {}, .core_to_core = {}, .source = "run 7"})
                .error()
                .message,
            "the measured rates of 'run 7' are not above 0");
}

}  // namespace
}  // namespace weft::topology
