#include "machine/detect/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "machine/machine.h"

namespace weft::topology {
namespace {

namespace fs = std::filesystem;

// How hwloc's file of a machine of one core begins.
const std::string kOneCore = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3" local_memory="1024"/>
      <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4">
        <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="5"/>
      </object>
    </object>
)";

class Record : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("weft_record_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const fs::path& file, std::string_view text) const {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text << "\n";
  }
  fs::path folder_;
};

// A file system like that of a host with one adapter that speaks both RDMA and Ethernet.
TEST_F(Record, SysfsTellsAdaptersSpeedsAndSettings) {
  fs::create_directories(folder_ / "sys/devices/0000:0c:00.0");
  write("sys/class/net/eth0/speed", "200000");
  write("sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)");
  fs::create_directory_symlink(folder_ / "sys/devices/0000:0c:00.0", folder_ / "sys/class/net/eth0/device");
  fs::create_directory_symlink(folder_ / "sys/devices/0000:0c:00.0", folder_ / "sys/class/infiniband/mlx5_0/device");
  fs::create_directories(folder_ / "sys/class/net/lo");
  fs::create_directories(folder_ / "sys/kernel/iommu_groups/0");
  write("proc/cmdline", "ro quiet iommu=pt");
  fs::create_directories(folder_ / "sys/module/nvidia");
  const HostFacts facts = read_sysfs(folder_);
  ASSERT_EQ(facts.nics.size(), 1u);
  EXPECT_EQ(facts.nics[0], (HostFacts::Nic{"0000:0c:00.0", "mlx5_0", "eth0", 200'000}));
  EXPECT_EQ(facts.iommu, "pt");
  EXPECT_EQ(facts.peermem, "off");
  const auto again = host_facts_from_json("f", to_json(facts));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, facts);
}

TEST_F(Record, ARecordedMachineIsUsedAsAnyOther) {
  HostFacts facts;
  facts.iommu = "on";
  const Status done = record(SyntheticHost("pack:2 [numa] core:4 pu:1"), facts, folder_ / "host");
  ASSERT_TRUE(done) << done.error().message;
  const auto t = load_machine((folder_ / "host").string(), read_recorded);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->title, "host");
  EXPECT_EQ(t->endpoints().size(), 8u);
  const auto cpu = std::ranges::find(t->devices(), DeviceKind::kCpu, &Device::kind);
  EXPECT_EQ(cpu->facts.get("iommu"), "on");
}

TEST_F(Record, WhatIsNoRecordSaysSo) {
  EXPECT_NE(read_recorded(folder_).error().message.find("no hwloc.xml in it"), std::string::npos);
  write("broken.xml", "<?xml version=\"1.0\"?>\n<topology version=\"2.0\">\n  <object>\n</topology>");
  const std::string error = read_recorded(folder_ / "broken.xml").error().message;
  EXPECT_TRUE(error.starts_with("broken.xml:4: not XML")) << error;
  EXPECT_FALSE(read_recorded("/no/such/file").value());
  EXPECT_FALSE(host_facts_from_json("f", "{}"));
}

// Two P100 with two links between them and two each to their CPU, a V100 with one link to each of two NVSwitches.
TEST_F(Record, NvlinksOfHwlocsMatrixAreRead) {
  write("nv.xml",
        kOneCore + R"(    <object type="Bridge" gp_index="6" bridge_type="0-1" depth="0" bridge_pci="0000:[00-09]">
      <object type="PCIDev" gp_index="7" pci_busid="0000:03:00.0" pci_type="0302 [10de:15f9] [0000:0000] a1" pci_link_speed="15">
        <object type="OSDev" gp_index="17" name="nvml0" osdev_type="1"/>
      </object>
      <object type="PCIDev" gp_index="8" pci_busid="0000:04:00.0" pci_type="0302 [10de:15f9] [0000:0000] a1" pci_link_speed="15">
        <object type="OSDev" gp_index="18" name="nvml1" osdev_type="1"/>
      </object>
      <object type="PCIDev" gp_index="9" pci_busid="0000:05:00.0" pci_type="0302 [10de:1db8] [0000:0000] a1" pci_link_speed="15">
        <object type="OSDev" gp_index="19" name="nvml2" osdev_type="1"/>
      </object>
      <object type="PCIDev" gp_index="10" pci_busid="0000:06:00.0" pci_type="0680 [10de:1ac2] [0000:0000] a1" pci_link_speed="1"/>
      <object type="PCIDev" gp_index="11" pci_busid="0000:07:00.0" pci_type="0680 [10de:1ac2] [0000:0000] a1" pci_link_speed="1"/>
    </object>
  </object>
  <distances2hetero nbobjs="6" kind="25" name="NVLinkBandwidth">
    <indexes length="37">OSDev:17 OSDev:18 OSDev:19 PCIDev:10 </indexes>
    <indexes length="20">PCIDev:11 Package:2 </indexes>
    <u64values length="52">1000000 40000 0 0 0 40000 40000 1000000 0 0 0 40000 </u64values>
    <u64values length="48">0 0 1000000 25000 25000 0 0 0 25000 1000000 0 0 </u64values>
    <u64values length="48">0 0 25000 0 1000000 0 40000 40000 0 0 0 1000000 </u64values>
  </distances2hetero>
</topology>)");
  const auto found = read_recorded(folder_ / "nv.xml");
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(*found);
  std::vector<double> rates;
  for (const Link& l : (*found)->links())
    if (l.kind == LinkKind::kNvlink) rates.push_back(l.rate_ab.gb());
  // Two links of 20 GB/s once, and two of 25 to the NVSwitches, which are one device here.
  EXPECT_EQ(rates, (std::vector<double>{40, 50}));
}

TEST(Nvml, IsAbsentHereOrListsGpus) {
  for (const HostFacts::Gpu& gpu : read_nvml()) EXPECT_EQ(gpu.bus_id.size(), 12u);
}

TEST(DetectFacts, NvlinksComeFromNvml) {
  const std::string xml =
      kOneCore + R"(    <object type="Bridge" gp_index="6" bridge_type="0-1" depth="0" bridge_pci="0000:[00-05]">
      <object type="PCIDev" gp_index="7" pci_busid="0000:03:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="63.015385"/>
      <object type="PCIDev" gp_index="8" pci_busid="0000:04:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="63.015385"/>
    </object>
  </object>
</topology>
)";
  HostFacts facts;
  facts.gpus = {{"0000:03:00.0", "90", 0, {{"0000:04:00.0", 12}}}, {"0000:04:00.0", "90", 6, {{"0000:03:00.0", 12}}}};
  const auto t = detect(RecordedHost(xml), std::nullopt, Endpoints::kGpusOrCores, facts);
  ASSERT_TRUE(t) << t.error().message;
  std::vector<double> rates;
  for (const Link& l : t->links())
    if (l.kind == LinkKind::kNvlink) rates.push_back(l.rate_ab.gb());
  EXPECT_EQ(rates, (std::vector<double>{300, 150}));  // 12 links to the peer, once; 6 to NVSwitch
}

}  // namespace
}  // namespace weft::topology
