#include "apps/launch/binding.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft::launch {
namespace {

namespace fs = std::filesystem;

// A machine of two NUMA nodes with four processors each, a NIC and a GPU beside node 1.
class TwoNodes : public testing::Test {
 protected:
  void SetUp() override {
    write("devices/system/node/node0/cpulist", "0-3");
    write("devices/system/node/node1/cpulist", "4-7");
    write("class/net/eth1/device/numa_node", "1");
    write("class/net/veth0/mtu", "1500");  // a virtual link is no device
    write("bus/pci/devices/0000:3b:00.0/vendor", "0x10de");
    write("bus/pci/devices/0000:3b:00.0/class", "0x030200");
    write("bus/pci/devices/0000:3b:00.0/numa_node", "1");
  }
  void TearDown() override { fs::remove_all(host.sys); }
  void write(const std::string& path, const std::string& text) {
    const fs::path file = fs::path(host.sys) / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  std::string bound(const std::string& wanted, Rank ranks) {
    const auto all = bindings_of(wanted, ranks, host);
    if (!all) return all.error().message;
    std::string text;
    for (const Binding& b : *all) text += (text.empty() ? "" : " ") + (b.cpus.empty() ? "all" : text_of_cpus(b.cpus));
    return text;
  }

  HostProcessors host{.usable = {0, 1, 2, 3, 4, 5, 6, 7},
                      .sys = testing::TempDir() + "weft_binding_" + std::to_string(getpid())};
};

TEST_F(TwoNodes, RanksHaveAProcessorEachWhereThereAreEnough) {
  EXPECT_EQ(bound("", 3), "0 1 2");
  EXPECT_EQ(bound("", 9), "all all all all all all all all all");
  EXPECT_EQ(bound("none", 2), "all all");
  EXPECT_NE(bound("core", 9).find("9 ranks, and this process may use 8 processors"), std::string::npos);
}

TEST_F(TwoNodes, NeighbouringRanksShareANumaNode) { EXPECT_EQ(bound("numa", 4), "0-3 0-3 4-7 4-7"); }

TEST_F(TwoNodes, RanksAreBesideTheirNicOrGpu) {
  host.interfaces = {"veth0", "eth1"};
  EXPECT_EQ(bound("nic", 2), "4-7 4-7");
  EXPECT_EQ(bound("gpu", 1), "4-7");
  host.interfaces = {"veth0"};
  EXPECT_NE(bound("nic", 2).find("no interface is a device"), std::string::npos);
}

TEST_F(TwoNodes, MasksOfCgroupsAndLaunchersHold) {
  host.usable = {2, 3, 6};
  host.interfaces = {"eth1"};
  EXPECT_EQ(bound("numa", 2), "2-3 6");
  EXPECT_EQ(bound("nic", 1), "6");
  EXPECT_EQ(bound("2:6", 3), "2 6 2");
  EXPECT_NE(bound("2:4", 2).find("may not use processor 4; its cgroup or its launcher's mask leaves 2-3,6"),
            std::string::npos);
  host.usable = {2, 3};
  EXPECT_NE(bound("gpu", 1).find("0000:3b:00.0 is beside NUMA node 1"), std::string::npos);
}

TEST_F(TwoNodes, WordsThatMeanNothingAreRefused) {
  EXPECT_NE(bound("socket", 2).find("'socket' is none of core"), std::string::npos);
  EXPECT_NE(bound("3-1", 1).find("--bind"), std::string::npos);
}

}  // namespace
}  // namespace weft::launch
