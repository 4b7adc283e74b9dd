#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/embedded.h"
#include "machine/findings.h"
#include "machine/import/iblinkinfo.h"
#include "machine/import/lstopo.h"
#include "machine/import/machine_file.h"
#include "machine/import/nccl_graph.h"
#include "machine/import/nccl_log.h"
#include "machine/import/nvidia_smi.h"
#include "machine/import/rocm_smi.h"
#include "machine/routes.h"

namespace weft::topology {
namespace {

const Catalog& catalog() {
  static const Catalog loaded = *Catalog::load(embedded::files());
  return loaded;
}

std::int64_t count(const Topology& t, DeviceKind kind) { return std::ranges::count(t.devices(), kind, &Device::kind); }

DeviceId named(const Topology& t, std::string_view name) {
  for (DeviceId id = 0; id < static_cast<DeviceId>(t.devices().size()); ++id)
    if (t.name_of(id) == name) return id;
  ADD_FAILURE() << "no " << name;
  return 0;
}

PathType type(const Topology& t, std::string_view a, std::string_view b) {
  return Routes(t).path(named(t, a), named(t, b)).type;
}

std::string smi_error(std::string_view text) {
  const auto t = parse_nvidia_smi(catalog(), "m.txt", text);
  return t ? "no error" : t.error().message;
}

// Two bridged GPUs with a NIC at one's switch, a third GPU at the other socket.
constexpr std::string_view kThree =
    "\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV4\tSYS\tPIX\t0-47\t0\n"
    "GPU1\tNV4\t X \tSYS\tNODE\t0-47\t0\n"
    "GPU2\tSYS\tSYS\t X \tSYS\t48-95\t1\n"
    "NIC0\tPIX\tNODE\tSYS\t X \n"
    "\n"
    "NIC Legend:\n\n  NIC0: mlx5_7\n";

std::string with(std::string_view from, std::string_view to) {
  std::string text(kThree);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(NvidiaSmi, ClassesBecomeTheMachineThatHasThem) {
  const auto t = parse_nvidia_smi(catalog(), "m.txt", kThree);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(count(*t, DeviceKind::kCpu), 2);
  EXPECT_EQ(count(*t, DeviceKind::kPcieSwitch), 1);
  EXPECT_EQ(count(*t, DeviceKind::kNvSwitch), 0);
  EXPECT_EQ(type(*t, "gpu0", "gpu1"), PathType::kNvl);
  EXPECT_EQ(type(*t, "gpu0", "gpu2"), PathType::kSys);
  EXPECT_EQ(type(*t, "gpu0", "nic0"), PathType::kPix);
  EXPECT_EQ(type(*t, "gpu1", "nic0"), PathType::kPhb);  // NODE: two host bridges of one socket
  EXPECT_EQ(t->device(named(*t, "nic0")).model, "mlx5_7");
  EXPECT_DOUBLE_EQ(Routes(*t).path(named(*t, "gpu0"), named(*t, "gpu1")).rate.gb(), 100);  // 4 · 25
}

TEST(NvidiaSmi, MoreLinksThanAGpuHasAreAnNvSwitch) {
  // 3 · 18 links of one GPU are more than the 18 that NVLink 4 has.
  const auto t = parse_nvidia_smi(catalog(), "m.txt",
                                  "GPU0 GPU1 GPU2 GPU3\nGPU0 X NV18 NV18 NV16\nGPU1 NV18 X NV18 NV16\n"
                                  "GPU2 NV18 NV18 X NV16\nGPU3 NV16 NV16 NV16 X\n");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(count(*t, DeviceKind::kNvSwitch), 1);
  const Routes routes(*t);
  EXPECT_DOUBLE_EQ(routes.path(named(*t, "gpu0"), named(*t, "gpu1")).rate.gb(), 450);
  EXPECT_DOUBLE_EQ(routes.path(named(*t, "gpu0"), named(*t, "gpu3")).rate.gb(), 400);  // two links are off
}

TEST(NvidiaSmi, ErrorsNameLineAndValue) {
  EXPECT_EQ(smi_error(""), "m.txt:1: no table of nvidia-smi topo: no line of columns starts with GPU0");
  EXPECT_EQ(smi_error(with("SYS\tPIX", "SYS\tPIG")), "m.txt:2: 'PIG' is no path class");
  EXPECT_EQ(smi_error(with("NV4\t X ", "NV6\t X ")),
            "m.txt:3: GPU1 to GPU0 is 'NV6', the other way round it is not: the matrix is not symmetric");
  EXPECT_EQ(smi_error(with("GPU2\t", "GPU1\t")), "m.txt:1: GPU1 is there twice");
  EXPECT_EQ(smi_error(with("GPU2\tSYS\tSYS\t X \tSYS\t48-95\t1\n", "")), "m.txt:1: GPU2 has a column but no row");
  EXPECT_EQ(smi_error(with("GPU1\tNV4\t X \tSYS\tNODE\t0-47\t0", "GPU1\tNV4\t X ")),
            "m.txt:3: 2 entries for 4 columns");
  EXPECT_EQ(smi_error(with(" X \tNV4", "NV4\tNV4")), "m.txt:2: 'NV4' between GPU0 and GPU0");
  EXPECT_EQ(smi_error("GPU0 GPU1 GPU2\nGPU0 X PIX SYS\nGPU1 PIX X PIX\nGPU2 SYS PIX X\n"),
            "m.txt:2: SYS between two devices that other entries put at one CPU");
}

TEST(NvidiaSmi, ATableOfPeerAccessIsRefusedByName) {
  for (const char* status : {"OK", "CNS", "TNS"}) {
    const auto t = parse_nvidia_smi(catalog(), "m.txt", fmt::format(" GPU0 GPU1\n GPU0 X {0}\n GPU1 {0} X\n", status));
    ASSERT_FALSE(t);
    EXPECT_NE(t.error().message.find("is an entry of nvidia-smi topo -p2p"), std::string::npos) << t.error().message;
  }
}

TEST(NvidiaSmi, ATableWithoutNvlinkSaysSo) {
  const auto t =
      parse_nvidia_smi(catalog(), "m.txt", "$ nvidia-smi topo -mp\n GPU0 GPU1\n GPU0 X NODE\n GPU1 NODE X\n");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_TRUE(std::ranges::any_of(findings(*t), [](const auto& f) { return f.find("topo -mp") != std::string::npos; }));
}

TEST(RocmSmi, AmdSmisTablesByBusIdAreRead) {
  const std::string columns = "             0000:21:00.0 0000:26:00.0 0000:a9:00.0\n";
  const std::string text =
      "ACCESS TABLE:\n" + columns + "0000:21:00.0 ENABLED ENABLED ENABLED\n\nHOPS TABLE:\n" + columns +
      "0000:21:00.0 0 1 2\n0000:26:00.0 1 0 2\n0000:a9:00.0 2 2 0\n\nLINK TYPE TABLE:\n" + columns +
      "0000:21:00.0 SELF XGMI PCIE\n0000:26:00.0 XGMI SELF PCIE\n0000:a9:00.0 PCIE PCIE SELF\n\nNUMA BW TABLE:\n" +
      columns + "0000:21:00.0 N/A 50000-50000 N/A\n";
  ASSERT_TRUE(is_rocm_smi(text));
  const auto t = parse_rocm_smi(catalog(), "a.txt", text);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->devices_of(DeviceKind::kGpu).size(), 3u);
  EXPECT_EQ(type(*t, "gpu0", "gpu1"), PathType::kNvl);
  EXPECT_EQ(type(*t, "gpu0", "gpu2"), PathType::kPhb);
  EXPECT_TRUE(std::ranges::any_of(findings(*t), [](const auto& f) { return f.find("NUMA") != std::string::npos; }));
}

TEST(RocmSmi, BandwidthsOfAmdSmiTellPairsWithoutALinkAndPairsOfSeveral) {
  const std::string columns = "             0000:21:00.0 0000:26:00.0 0000:a9:00.0\n";
  const std::string types = "LINK TYPE TABLE:\n" + columns +
                            "0000:21:00.0 SELF XGMI XGMI\n0000:26:00.0 XGMI SELF XGMI\n0000:a9:00.0 XGMI XGMI SELF\n\n";
  const auto t = parse_rocm_smi(catalog(), "a.txt",
                                types + "NUMA BW TABLE:\n" + columns +
                                    "0000:21:00.0 N/A 40000-160000 0-0\n0000:26:00.0 40000-160000 N/A 40000-40000\n"
                                    "0000:a9:00.0 0-0 40000-40000 N/A\n");
  ASSERT_TRUE(t) << t.error().message;
  std::vector<std::int32_t> links;
  for (const Link& link : t->links())
    if (link.kind == LinkKind::kXgmi) links.push_back(link.count);
  std::ranges::sort(links);
  EXPECT_EQ(links, (std::vector<std::int32_t>{1, 4}));
  EXPECT_TRUE(parse_rocm_smi(catalog(), "a.txt", types));
}

TEST(RocmSmi, TwoHivesAndWhatIsWrong) {
  const std::string text =
      "=== Link Type between two GPUs ===\n GPU0 GPU1 GPU2\nGPU0 0 XGMI PCIE\nGPU1 XGMI 0 PCIE\nGPU2 PCIE PCIE 0\n"
      "=== Numa Nodes ===\nGPU[0] : (Topology) Numa Node: 0\nGPU[1] : (Topology) Numa Node: 0\n"
      "GPU[2] : (Topology) Numa Node: 1\n";
  const auto t = parse_rocm_smi(catalog(), "r.txt", text);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(type(*t, "gpu0", "gpu1"), PathType::kNvl);
  EXPECT_EQ(type(*t, "gpu0", "gpu2"), PathType::kSys);
  std::string bad = text;
  bad.replace(bad.find("GPU1 XGMI"), 9, "GPU1 PCIE");
  EXPECT_EQ(parse_rocm_smi(catalog(), "r.txt", bad).error().message,
            "r.txt:3: GPU0 to GPU1 is 'XGMI', the other way round 'PCIE': the matrix is not symmetric");
}

TEST(NcclGraph, ChannelsAndWhatTheySayOfTheMachine) {
  constexpr std::string_view kText =
      "<graphs version=\"1\">\n<graph id=\"0\" pattern=\"4\" nchannels=\"2\" speedintra=\"12\" speedinter=\"12\" "
      "typeintra=\"SYS\" typeinter=\"PIX\">\n<channel><gpu dev=\"0\"/><gpu dev=\"1\"/></channel>\n"
      "<channel><gpu dev=\"1\"/><gpu dev=\"0\"/></channel>\n</graph></graphs>";
  const auto graphs = parse_nccl_graphs("g.xml", kText);
  ASSERT_TRUE(graphs) << graphs.error().message;
  EXPECT_EQ(graphs->front().pattern, "ring");
  EXPECT_EQ(graphs->front().channels, (std::vector<std::vector<std::int32_t>>{{0, 1}, {1, 0}}));
  EXPECT_DOUBLE_EQ(graphs->front().speed_intra.gb(), 12);
  const auto t = machine_of_graphs(catalog(), "g.xml", kText);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(type(*t, "gpu0", "gpu1"), PathType::kSys);
  std::string twice(kText);
  twice.replace(twice.find("dev=\"1\""), 7, "dev=\"0\"");
  EXPECT_EQ(parse_nccl_graphs("g.xml", twice).error().message, "g.xml:3: GPU 0 is twice in one channel");
}

TEST(Tables, EveryTableOfARealMachineImports) {
  const std::filesystem::path folder = std::filesystem::path(WEFT_TOPO_DUMPS).parent_path() / "smi";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no tables at " << folder;
  const std::map<std::string, std::size_t> gpus = {{"a800_8gpu_nv8_4nic.txt", 8},
                                                   {"aws_2gpu_pix.txt", 2},
                                                   {"h200nvl_2pairs_2rails_nccl2345.txt", 4},
                                                   {"dgxh100_talos_12nic_TRUNCATED.txt", 8},
                                                   {"rocm_showtopo_9gpu_changelog.txt", 12}};
  int imported = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    const std::string name = entry.path().filename().string();
    const auto t = read_machine_file(catalog(), entry.path());
    if (name.starts_with("p2p")) {  // peer access without links
      EXPECT_FALSE(t) << name;
      continue;
    }
    ASSERT_TRUE(t) << t.error().message;
    ASSERT_TRUE(t->machine) << name;
    if (const auto at = gpus.find(name); at != gpus.end()) {
      EXPECT_EQ(t->machine->endpoints().size(), at->second) << name;
    }
    ++imported;
  }
  EXPECT_GT(imported, 12);
}

// What was printed comes out of the machine again, class by class (NODE as PHB, SOC as SYS).
TEST(Tables, TheDellTableComesBackClassByClass) {
  const std::filesystem::path file =
      std::filesystem::path(WEFT_TOPO_DUMPS).parent_path() / "smi" / "dell_8gpu_topo_mp_12nic_deepep.txt";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  const auto read = read_machine_file(catalog(), file);
  ASSERT_TRUE(read) << read.error().message;
  const Topology& t = *read->machine;
  EXPECT_EQ(type(t, "gpu0", "nic2"), PathType::kPix);
  EXPECT_EQ(type(t, "gpu0", "nic3"), PathType::kPhb);
  EXPECT_EQ(type(t, "gpu0", "nic6"), PathType::kSys);
  EXPECT_EQ(type(t, "nic6", "nic8"), PathType::kPix);
  EXPECT_EQ(type(t, "gpu7", "nic11"), PathType::kPix);
}

TEST(MachineFile, FormsAreToldApartByWhatIsInThem) {
  EXPECT_TRUE(parse_machine_file(catalog(), "f", kThree)->machine);
  EXPECT_TRUE(parse_machine_file(catalog(), "f", "SwitchName=s0 Nodes=n[0-3]\n")->tree);
  const std::string unknown = parse_machine_file(catalog(), "f", "hello\n").error().message;
  EXPECT_TRUE(unknown.starts_with("f:1: none of the forms weft reads")) << unknown;
}

constexpr std::string_view kLstopo =
    "Machine (1008GB total)\n"
    "  Package L#0\n"
    "    NUMANode L#0 (P#0 504GB)\n"
    "    L3 L#0 (105MB) + Core L#0 + PU L#0 (P#0)\n"
    "    HostBridge\n"
    "      PCIBridge\n"
    "        PCIBridge\n"
    "          PCI 19:00.0 (3D)\n"
    "            CoProc(CUDA) \"cuda0\"\n"
    "        PCIBridge\n"
    "          PCI 18:00.0 (InfiniBand)\n"
    "            Net \"ib0\"\n"
    "            OpenFabrics \"mlx5_0\"\n"
    "    HostBridge\n"
    "      PCIBridge\n"
    "        PCI 3b:00.0 (3D)\n"
    "      PCIBridge\n"
    "        PCI 02:00.0 (Ethernet)\n"
    "          Net \"eno1\"\n"
    "  Package L#1\n"
    "    NUMANode L#1 (P#1 504GB)\n"
    "    HostBridge\n"
    "      PCIBridge\n"
    "        PCI 9b:00.0 (3D)\n"
    "          CoProc(CUDA) \"cuda2\"\n";

TEST(Lstopo, DevicesAreAsFarAsTheirCommonBridge) {
  ASSERT_TRUE(is_lstopo(kLstopo));
  const auto t = parse_lstopo(*Catalog::shipped(), "lstopo.txt", kLstopo);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->devices_of(DeviceKind::kGpu).size(), 3u);
  ASSERT_EQ(t->devices_of(DeviceKind::kNic).size(), 1u);  // eno1 is no RDMA device, and another one is
  const Routes routes(*t);
  const auto gpus = t->devices_of(DeviceKind::kGpu);
  const DeviceId nic = t->devices_of(DeviceKind::kNic)[0];
  EXPECT_EQ(routes.wire_path(gpus[0], nic).type, PathType::kPix);
  EXPECT_EQ(routes.wire_path(gpus[1], nic).type, PathType::kPhb);
  EXPECT_EQ(routes.wire_path(gpus[2], nic).type, PathType::kSys);
  EXPECT_EQ(t->device(nic).model, "mlx5_0");
}

TEST(Lstopo, AMachineWithoutGpusIsRefused) {
  EXPECT_EQ(parse_lstopo(*Catalog::shipped(), "l.txt", "Machine (8GB)\n  HostBridge\n    PCI 00:02.0 (VGA)\n")
                .error()
                .message,
            "l.txt:1: lstopo lists no GPU: no PCI device is (3D) or has a CoProc");
}

TEST(Iblinkinfo, HostsAreAtTheSwitchesThatNameThem) {
  const std::string text =
      "CA: n1 HCA-1:\n      0x1      6    1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       3    3[  ] "
      "\"leaf1\" ( )\n"
      "Switch: 0xa leaf1:\n"
      "           3    1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       1    1[  ] \"n1 HCA-1\" ( )\n"
      "           3    2[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       2    1[  ] \"n1 HCA-2\" ( )\n"
      "           3    4[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       7    1[  ] \"leaf2\" ( )\n"
      "           3    5[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )\n"
      "           3   41[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       9    1[  ] \"Mellanox Technologies "
      "Aggregation Node\" ( )\n"
      "Switch: 0xb leaf2:\n"
      "           7    1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       3    4[  ] \"leaf1\" ( )\n"
      "           7    2[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       5    1[  ] \"n2 mlx5_0\" ( )\n";
  ASSERT_TRUE(is_iblinkinfo(text));
  const auto fabric = parse_iblinkinfo("f.txt", text);
  ASSERT_TRUE(fabric) << fabric.error().message;
  EXPECT_EQ(fabric->network, "ib-ndr");
  ASSERT_EQ(fabric->tree.hosts.size(), 2u);
  EXPECT_EQ(fabric->tree.hosts[0].name, "n1");
  EXPECT_EQ(fabric->tree.hosts[0].ports, (std::vector<std::int32_t>{0, 0}));
  ASSERT_EQ(fabric->tree.trunks.size(), 1u);  // each cable once, though both ends list it
  EXPECT_EQ(fabric->tree.trunks[0].count, 1);
}

TEST(NcclLog, TheTableOfPathsIsTheNodeOfTheFirstHost) {
  const std::string text =
      "hostA:1:2 [0] NCCL INFO GPU/1000 :GPU/0-1000 (0/5000.0/LOC) GPU/0-2000 (1/60.0/NVL) GPU/0-8000 (4/12.0/SYS) "
      "NET/0 (3/24.0/PIX)\n"
      "hostA:1:2 [0] NCCL INFO GPU/2000 :GPU/0-1000 (1/60.0/NVL) GPU/0-2000 (0/5000.0/LOC) GPU/0-8000 (4/12.0/SYS) "
      "NET/0 (3/24.0/PIX)\n"
      "hostA:1:2 [0] NCCL INFO GPU/8000 :GPU/0-1000 (4/12.0/SYS) GPU/0-2000 (4/12.0/SYS) GPU/0-8000 (0/5000.0/LOC) "
      "NET/0 (6/12.0/SYS)\n"
      "hostB:1:2 [0] NCCL INFO GPU/1000 :GPU/0-1000 (0/5000.0/LOC) GPU/0-9000 (1/60.0/NVL)\n";
  ASSERT_TRUE(is_nccl_log(text));
  const auto t = parse_nccl_log(catalog(), "nccl.log", text);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(count(*t, DeviceKind::kGpu), 3);
  EXPECT_EQ(count(*t, DeviceKind::kNic), 1);
  EXPECT_EQ(type(*t, "gpu0", "gpu1"), PathType::kNvl);
  EXPECT_EQ(type(*t, "gpu0", "gpu2"), PathType::kSys);
  EXPECT_EQ(type(*t, "gpu0", "nic0"), PathType::kPix);
  EXPECT_FALSE(is_nccl_log("hostA:1:2 [0] NCCL INFO Channel 00/02 : 0 1\n"));
}

}  // namespace
}  // namespace weft::topology
