#include "apps/doctor/machine_facts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "machine/machine.h"

namespace weft::doctor {
namespace {

std::vector<std::string> rules_of(const std::vector<MachineFact>& facts) {
  std::vector<std::string> ids;
  for (const MachineFact& fact : facts) ids.push_back(fact.rule);
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}
using Ids = std::vector<std::string>;

Ids judged(std::string_view machine) {
  const auto loaded = topology::load_machine(machine);
  EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().message);
  return loaded ? rules_of(judge(*loaded)) : Ids{};
}

TEST(MachineFacts, MachinesAsVendorsBuildThemAreNotAccused) {
  for (const char* name : {"dgx-h100:nodes=2", "dgx-a100", "hgx-b200", "gb200-nvl72", "mi300x", "dgx1-v100", "aws-p5"})
    EXPECT_EQ(judged(name), Ids{}) << name;
}

TEST(MachineFacts, SettingsOfTheHostAreNamed) {
  EXPECT_EQ(judged("dgx-h100:acs=on"), Ids{"T05"});
  EXPECT_EQ(judged("dgx-h100:iommu=on"), Ids{"T06"});
  EXPECT_EQ(judged("dgx-h100:peermem=off"), Ids{"T07"});
}

// Eight GPUs on two sockets; gpu3's links are as given.
std::string table(const std::string& of_gpu3, const std::string& nic_of_far) {
  std::string text = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n";
  const auto cell = [&](int a, int b) -> std::string {
    if (a == b) return "X";
    if (a != 3 && b != 3) return "NV18";
    return (a == 2 || b == 2) && of_gpu3 == "SYS" ? "PIX" : of_gpu3;  // of one switch
  };
  for (int a = 0; a < 4; ++a) {
    text += "GPU" + std::to_string(a);
    for (int b = 0; b < 4; ++b) text += "\t" + cell(a, b);
    text += a < 2 ? "\tPIX\tSYS\t0-47\t0\n" : "\tSYS\t" + nic_of_far + "\t48-95\t1\n";
  }
  return text + "NIC0\tPIX\tPIX\tSYS\tSYS\tX\tSYS\nNIC1\tSYS\tSYS\t" + nic_of_far + "\t" + nic_of_far +
         "\tSYS\tX\n\nLegend:\n\n  X = Self\n";
}

TEST(MachineFacts, AGpuWithoutNvlinkOrWithFewerIsNamed) {
  EXPECT_EQ(rules_of(machine_facts("t", table("NV18", "PIX"))), Ids{});
  EXPECT_EQ(rules_of(machine_facts("t", table("SYS", "PIX"))), (Ids{"T01", "T08"}));
}

TEST(MachineFacts, ANicAcrossTheHostBridgeIsFarWhereOthersHaveOneBesideThem) {
  EXPECT_EQ(rules_of(machine_facts("t", table("NV18", "PHB"))), Ids{"T03"});
}

TEST(MachineFacts, ATableThatLeavesNvlinkOutAccusesNoGpuOfHavingNone) {
  std::string text = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n";
  for (int a = 0; a < 4; ++a) {
    text += "GPU" + std::to_string(a);
    for (int b = 0; b < 4; ++b) text += a == b ? "\tX" : a / 2 == b / 2 ? "\tNODE" : "\tSYS";
    text += a < 2 ? "\t0-31\t0\n" : "\t32-63\t1\n";
  }
  EXPECT_EQ(rules_of(machine_facts("t", text)), Ids{"T08"});
  text += "\nLegend:\n\n  X    = Self\n  PIX  = Connection traversing at most a single PCIe bridge\n";
  std::string judged;
  EXPECT_EQ(rules_of(machine_facts("t", text, &judged)), Ids{});
  EXPECT_NE(judged.find("topo -mp"), std::string::npos) << judged;
}

TEST(MachineFacts, PairsWithoutPeerAccessAreNamedWithTheReason) {
  const auto facts = machine_facts("p2p.txt",
                                   " \tGPU0\tGPU1\tGPU2\n GPU0\tX\tOK\tCNS\n GPU1\tOK\tX\tOK\n GPU2\tCNS\tOK\tX\n\n"
                                   "Legend:\n  CNS = Chipset not supported\n");
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_EQ(facts[0].text,
            "weft: topology: 1 pair of GPUs without peer access, the chipset does not support it: GPU0-GPU2");
  EXPECT_EQ(facts[0].line, 2);
  EXPECT_TRUE(machine_facts("p2p.txt", "\tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n").empty());
}

TEST(MachineFacts, AnXmlWithHalfALinkAndANicWithoutPeerMemoryIsJudged) {
  const auto xml = [](const char* width, const char* gdr) {
    std::string text =
        "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"ff\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
        "familyid=\"6\" modelid=\"143\">\n";
    for (int i = 0; i < 2; ++i)
      text +=
          std::string("<pci busid=\"0000:") + (i == 0 ? "19" : "2a") +
          ":00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x26b9\" link_speed=\"16.0 GT/s PCIe\" link_width=\"" +
          (i == 0 ? "16" : width) + "\"><gpu dev=\"" + std::to_string(i) + "\" sm=\"89\" rank=\"" + std::to_string(i) +
          "\" gdr=\"1\"/></pci>\n";
    text += std::string(
                "<pci busid=\"0000:3b:00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" "
                "link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\" gdr=\"") +
            gdr + "\"/></nic></pci>\n</cpu>\n</system>\n";
    return rules_of(machine_facts("topo.xml", text));
  };
  EXPECT_EQ(xml("16", "1"), Ids{});
  EXPECT_EQ(xml("8", "1"), Ids{"T04"});
  EXPECT_EQ(xml("16", "0"), Ids{"T07"});
}

TEST(MachineFacts, OtherTextsAreNoMachines) {
  EXPECT_TRUE(machine_facts("log", "GPU0 is busy\nGPU1 is idle\n").empty());
  EXPECT_TRUE(machine_facts("log", "<html><body>GPU0</body></html>").empty());
}

}  // namespace
}  // namespace weft::doctor
