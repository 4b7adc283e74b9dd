#include "machine/import/nccl_xml.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "base/embedded.h"
#include "machine/routes.h"

namespace weft::topology {
namespace {

// Two H100 behind one switch with a dual-port NIC, a third at the other socket; four NVLinks between the first two,
// six of each of the three to NVSwitch chips.
constexpr std::string_view kThreeGpus = R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:08:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:0A:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90">
          <nvlink target="0000:0b:00.0" count="4" tclass="0x030200"/>
          <nvlink target="0000:f0:00.0" count="2" tclass="0x068000"/>
          <nvlink target="0000:f1:00.0" count="4" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:0b:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90">
          <nvlink target="0000:0a:00.0" count="4" tclass="0x030200"/>
          <nvlink target="0000:f0:00.0" count="6" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:0c:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="16 GT/s" link_width="8">
        <nic>
          <net name="mlx5_0" dev="0" speed="200000" port="1"/>
          <net name="mlx5_1" dev="1" speed="200000" port="2"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:80:00.0" class="0x030200" link_speed="5.0 GT/s PCIe" link_width="4">
      <gpu dev="2" sm="90"><nvlink target="0000:f0:00.0" count="6" tclass="0x068000"/></gpu>
    </pci>
  </cpu>
</system>
)";

const Catalog& catalog() {
  static const Catalog loaded = *Catalog::load(embedded::files());
  return loaded;
}

Result<Topology> parse(std::string_view text) { return parse_nccl_xml(catalog(), "topo.xml", text); }

std::string error_of(std::string_view text) {
  const auto result = parse(text);
  return result ? "no error" : result.error().message;
}

std::string with(std::string_view from, std::string_view to) {
  std::string text(kThreeGpus);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

const Link& link_between(const Topology& t, DeviceId a, DeviceId b, LinkKind kind) {
  for (const LinkId l : t.links_of(a))
    if (t.other_end(l, a) == b && t.link(l).kind == kind) return t.link(l);
  ADD_FAILURE() << "no " << name(kind) << " between " << t.name_of(a) << " and " << t.name_of(b);
  return t.links()[0];
}

DeviceId first(const Topology& t, DeviceKind kind) {
  return static_cast<DeviceId>(std::ranges::find(t.devices(), kind, &Device::kind) - t.devices().begin());
}

TEST(NcclXml, ReadsDevicesWithTheirRates) {
  const auto t = parse(kThreeGpus);
  ASSERT_TRUE(t) << t.error().message;
  const std::vector<DeviceId> gpus = t->endpoints();
  ASSERT_EQ(gpus.size(), 3u);
  EXPECT_EQ(t->device(gpus[0]).bus_id, "0000:0b:00.0");  // dev="0"
  EXPECT_EQ(t->device(gpus[0]).model, "H100-SXM5");
  // Four NVLinks of 25 GB/s, listed at both ends, are one link.
  const Link& direct = link_between(*t, gpus[0], gpus[1], LinkKind::kNvlink);
  EXPECT_DOUBLE_EQ(direct.rate_ab.gb(), 100);
  EXPECT_EQ(std::ranges::count(t->links(), LinkKind::kNvlink, &Link::kind), 1 + 3);
  // Two chips of 2 and 4 links are one NVSwitch with 6: 150 GB/s.
  EXPECT_DOUBLE_EQ(link_between(*t, gpus[1], first(*t, DeviceKind::kNvSwitch), LinkKind::kNvlink).rate_ab.gb(), 150);
  const DeviceId nic = first(*t, DeviceKind::kNic);
  EXPECT_DOUBLE_EQ(t->device(nic).port_rate.gb(), 50);  // 2 · 200 Gb/s
  // 16 GT/s · 8 lanes · 128/130 / 8 bit = 15.754 GB/s.
  EXPECT_NEAR(link_between(*t, nic, first(*t, DeviceKind::kPcieSwitch), LinkKind::kPcie).rate_ab.gb(), 15.754, 1e-3);
  // 5 GT/s · 4 lanes · 8/10 / 8 bit = 2 GB/s.
  for (const LinkId l : t->links_of(gpus[2]))
    if (t->link(l).kind == LinkKind::kPcie) {
      EXPECT_DOUBLE_EQ(t->link(l).rate_ab.gb(), 2);
    }
}

TEST(NcclXml, ClassAloneMakesAGpuOrANic) {
  const auto t = parse(R"(<system><cpu numaid="0">
    <pci busid="0002:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
    <pci busid="0001:00:00.0" class="0x120000" link_speed="" link_width="0"/>
    <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
  </cpu></system>)");
  ASSERT_TRUE(t) << t.error().message;
  ASSERT_EQ(t->endpoints().size(), 2u);
  EXPECT_EQ(t->device(t->endpoints()[0]).bus_id, "0001:00:00.0");  // no dev: by bus id
  // Unknown speed and width count as PCIe 3.0 x16: 8 · 16 · 128/130 / 8 = 15.754 GB/s.
  EXPECT_NEAR(t->link(t->links_of(t->endpoints()[0])[0]).rate_ab.gb(), 15.754, 1e-3);
}

TEST(NcclXml, ChipToChipLinksJoinGpuAndCpu) {
  const auto t = parse(R"(<system><cpu numaid="0" arch="arm64" vendor="ARM" familyid="0" modelid="0">
    <pci busid="0009:01:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="0" sm="90"><c2c bw="45000" count="10"/></gpu>
    </pci>
  </cpu></system>)");
  ASSERT_TRUE(t) << t.error().message;
  const Path path = Routes(*t).path(t->endpoints()[0], first(*t, DeviceKind::kCpu));
  EXPECT_EQ(path.type, PathType::kNvl);
  EXPECT_DOUBLE_EQ(path.rate.gb(), 450);  // 10 links of 45,000 MB/s
}

TEST(NcclXml, ErrorsNameFileAndLine) {
  EXPECT_EQ(error_of("<system>\n<cpu>\n</system>"), "topo.xml:3: not XML: Start-end tags mismatch");
  EXPECT_TRUE(error_of("").starts_with("topo.xml:1: not XML"));
  EXPECT_EQ(error_of("<graphs version=\"1\"/>"), "topo.xml:1: <graphs> where an NCCL <system> is expected");
  EXPECT_EQ(error_of("\n<html/>"), "topo.xml:2: <html> where an NCCL <system> is expected");
  EXPECT_TRUE(error_of("<system><cpu numaid=\"0\"><pci busid=\"00:1\"/></cpu></system>")
                  .starts_with("topo.xml:1: no GPU is described (1 PCI"));
  EXPECT_EQ(error_of(with("link_width=\"8\"", "link_width=\"99\"")), "topo.xml:17: link_width 99 is outside 0 … 32");
  EXPECT_EQ(error_of(with("link_width=\"8\"", "link_width=\"3\"")), "topo.xml:17: no PCIe link has 3 lanes");
  EXPECT_EQ(error_of(with("link_width=\"8\"", "link_width=\"x8\"")),
            "topo.xml:17: link_width 'x8' is not a whole number");
  EXPECT_EQ(error_of(with("\"16 GT/s\"", "\"17 GT/s\"")), "topo.xml:17: link_speed '17 GT/s' is no PCIe speed");
  EXPECT_EQ(error_of(with("0000:0c:00.0", "0000:0b:00.0")), "topo.xml:17: PCI device 0000:0b:00.0 is there twice");
  EXPECT_EQ(error_of(with("0000:0c:00.0", "0000:08:00.0")), "topo.xml:17: PCI device 0000:08:00.0 is inside itself");
  EXPECT_EQ(error_of(with("busid=\"0000:0c:00.0\"", "")), "topo.xml:17: <pci> has no busid");
  EXPECT_EQ(error_of(with("numaid=\"1\"", "numaid=\"0\"")), "topo.xml:25: numaid 0 is there twice");
  EXPECT_EQ(error_of(with("target=\"0000:0b:00.0\"", "target=\"0000:0e:00.0\"")),
            "topo.xml:6: nvlink to '0000:0e:00.0', which is not in the file");
  EXPECT_EQ(error_of(with("sm=\"90\"", "sm=\"47\"")), "topo.xml:5: the catalogue has no nvlink for sm '47'");
  EXPECT_EQ(error_of(with("count=\"6\"", "count=\"0\"")), "topo.xml:14: count 0 is outside 1 … 1024");
}

TEST(NcclXml, DeepNestingIsRefused) {
  std::string text = "<system><cpu>";
  for (int i = 0; i < 100'000; ++i) text += fmt::format("<pci busid=\"{}\" class=\"0x060400\">", i);
  for (int i = 0; i < 100'000; ++i) text += "</pci>";
  EXPECT_NE(error_of(text + "</cpu></system>").find("nested deeper than 64"), std::string::npos);
}

TEST(NcclXml, FilesThatAreNotThereOrNoFilesSaySo) {
  EXPECT_EQ(import_nccl_xml(catalog(), "/no/such.xml").error().message, "/no/such.xml: no such file");
  EXPECT_EQ(import_nccl_xml(catalog(), "/").error().message, "/: not a regular file");
}

TEST(NcclXml, DamagedTextNeverCrashes) {
  std::mt19937 random(7);  // a fixed seed: a failure can be repeated
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text(kThreeGpus);
    for (int edit = 0; edit < 1 + round % 8; ++edit) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 40);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 60));
          break;
      }
      if (text.empty()) text.push_back('x');
    }
    const auto t = parse(text);
    accepted += t.has_value();
    if (!t) {
      EXPECT_TRUE(t.error().message.starts_with("topo.xml:")) << t.error().message;
    }
  }
  EXPECT_GT(accepted, 0);
}

// What the dumps of ../shared/data/topo that cannot become a machine must say.
const std::map<std::string, std::string> kRefused = {
    {"azure_ncv4-graph.xml", "<graphs> where"},
    {"aws_g5.48xl-topo.xml", "no GPU is described"},
    {"aws_p5.48xl-topo_deleted.xml", "no GPU is described"},
};

TEST(NcclXml, EveryDumpOfARealMachineImportsOrSaysWhyNot) {
  const std::filesystem::path folder = WEFT_TOPO_DUMPS;
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no dumps at " << folder;
  int imported = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".xml") continue;
    const std::string name = entry.path().filename().string();
    const auto t = import_nccl_xml(catalog(), entry.path());
    if (const auto refused = kRefused.find(name); refused != kRefused.end()) {
      ASSERT_FALSE(t) << name;
      EXPECT_NE(t.error().message.find(refused->second), std::string::npos) << t.error().message;
      continue;
    }
    ASSERT_TRUE(t) << t.error().message;
    ++imported;
    const Routes routes(*t);
    const std::vector<DeviceId> ends = t->endpoints();
    for (const DeviceId a : ends)
      for (const DeviceId b : ends)
        EXPECT_NE(routes.path(a, b).type, PathType::kDis) << name << ": " << t->name_of(a) << " " << t->name_of(b);
  }
  EXPECT_GT(imported, 35);
}

TEST(NcclXml, TheOracleH100DumpIsAnEightGpuNvswitchNode) {
  const std::filesystem::path file = std::filesystem::path(WEFT_TOPO_DUMPS) / "oci_H100-topology.xml";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  const auto t = import_nccl_xml(catalog(), file);
  ASSERT_TRUE(t) << t.error().message;
  ASSERT_EQ(t->endpoints().size(), 8u);
  const Path path = Routes(*t).path(t->endpoints()[0], t->endpoints()[7]);
  EXPECT_EQ(path.type, PathType::kNvl);
  EXPECT_DOUBLE_EQ(path.rate.gb(), 450);  // 5 + 5 + 4 + 4 = 18 links of 25 GB/s
}

}  // namespace
}  // namespace weft::topology
