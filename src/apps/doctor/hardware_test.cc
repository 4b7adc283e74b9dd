#include <gtest/gtest.h>

#include <map>
#include <set>

#include "apps/doctor/probes.h"

// Recorded machines: files of /proc and /sys and what tools print, written after real ones.
namespace weft::doctor {
namespace {

using Files = std::map<std::string, std::string>;

Probes machine(Files files, Files commands = {}) {
  Probes probes;
  probes.read = [files](const std::string& path) -> std::optional<std::string> {
    const auto at = files.find(path);
    return at == files.end() ? std::nullopt : std::optional(at->second);
  };
  probes.list = [files](const std::string& folder) {
    std::set<std::string> names;
    for (const auto& [path, text] : files)
      if (path.starts_with(folder + "/")) {
        const std::string rest = path.substr(folder.size() + 1);
        names.insert(rest.substr(0, rest.find('/')));
      }
    return std::vector<std::string>(names.begin(), names.end());
  };
  probes.file_system_size = [](const std::string&) { return std::optional(1e12); };
  probes.run = [commands](const std::string& command) -> std::optional<std::string> {
    for (const auto& [name, text] : commands)
      if (command.starts_with(name)) return text;
    return std::nullopt;
  };
  return probes;
}

// A node with one H100 and one ConnectX-7, in order.
Files healthy() {
  Files files;
  const auto pci = [&](const std::string& device, const char* kind, const char* vendor, const char* width,
                       const char* speed) {
    const std::string folder = "/sys/bus/pci/devices/" + device + "/";
    files[folder + "class"] = kind, files[folder + "vendor"] = vendor;
    files[folder + "current_link_width"] = files[folder + "max_link_width"] = width;
    files[folder + "current_link_speed"] = files[folder + "max_link_speed"] = speed;
  };
  pci("0000:1b:00.0", "0x030200\n", "0x10de\n", "16\n", "32.0 GT/s PCIe\n");
  pci("0000:18:00.0", "0x020700\n", "0x15b3\n", "16\n", "32.0 GT/s PCIe\n");
  const std::string nic = "/sys/class/infiniband/mlx5_0/";
  files[nic + "ports/1/state"] = "4: ACTIVE\n", files[nic + "ports/1/rate"] = "400 Gb/sec (4X NDR)\n";
  files[nic + "board_id"] = "MT_0000000838\n", files[nic + "fw_ver"] = "28.39.2048\n";
  files[nic + "device/numa_node"] = "0\n", files[nic + "device/msi_irqs/100"] = "";
  files["/proc/irq/100/effective_affinity_list"] = "3\n";
  files["/sys/devices/system/node/node0/cpulist"] = "0-47,96-143\n";
  files["/sys/devices/system/node/node1/cpulist"] = "48-95,144-191\n";
  files["/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31\n";
  files["/sys/module/nvidia_peermem/refcnt"] = "0";
  files["/dev/infiniband/uverbs0"] = "", files["/dev/nvidia0"] = "";
  files["/sys/kernel/iommu_groups/7/type"] = "identity\n";
  return files;
}

const Files kHealthyTools = {
    {"nvidia-smi --query", "0, NVIDIA H100 80GB HBM3, 550.90.07, Enabled, 0x0000000000000004, 0\n"},
    {"lspci", "ACSCtl:\tSrcValid- TransBlk-\n"},
    {"dmesg", "[Mon Nov 24 06:00:15 2025] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07\n"}};

std::set<std::string> ids(const report::DoctorReport& report) {
  std::set<std::string> found;
  for (const auto* list : {&report.roots, &report.slow})
    for (const auto& f : *list) found.insert(f.id);
  return found;
}

TEST(Hardware, AMachineInOrderHasNoFinding) {
  const auto report = examine(machine(healthy(), kHealthyTools));
  EXPECT_EQ(ids(report), std::set<std::string>{}) << report.verdict;
}

TEST(Hardware, EachFaultIsFoundAndNothingElse) {
  struct Case {
    const char* id;
    bool root;
    Files changed;  // files that differ from the healthy ones; "-": there is no such file
    Files tools = {};
  };
  const std::string gpu = "/sys/bus/pci/devices/0000:1b:00.0/", nic = "/sys/bus/pci/devices/0000:18:00.0/",
                    ib = "/sys/class/infiniband/";
  const Case cases[] = {
      {"F032", true, {{gpu + "current_link_width", "8\n"}}},
      {"F032", false, {{nic + "current_link_speed", "16.0 GT/s PCIe\n"}}},
      {"F036", false, {{"/proc/irq/100/effective_affinity_list", "60\n"}}},
      {"F148", false, {{"/sys/kernel/iommu_groups/7/type", "DMA-FQ\n"}}},
      {"F140", false, {{"/sys/module/nvidia_peermem/refcnt", "-"}}},
      {"F009", true, {{"/dev/infiniband/uverbs0", "-"}}},
      {"W15", true, {{"/dev/nvidia0", "-"}}},
      {"F034",
       false,
       {{ib + "mlx5_1/board_id", "MT_0000000838\n"},
        {ib + "mlx5_1/fw_ver", "28.36.1010\n"},
        {ib + "mlx5_1/ports/1/state", "4: ACTIVE\n"},
        {ib + "mlx5_1/ports/1/rate", "400 Gb/sec (4X NDR)\n"}}},
      {"F062",
       false,
       {{ib + "mlx5_1/board_id", "MT_0000000838\n"},
        {ib + "mlx5_1/fw_ver", "28.39.2048\n"},
        {ib + "mlx5_1/ports/1/state", "4: ACTIVE\n"},
        {ib + "mlx5_1/ports/1/rate", "200 Gb/sec (4X HDR)\n"}}},
      {"F062",
       false,
       {{ib + "mlx5_4/board_id", "MT_0000000838\n"},
        {ib + "mlx5_4/fw_ver", "28.39.2048\n"},
        {ib + "mlx5_4/ports/1/state", "1: DOWN\n"},
        {ib + "mlx5_4/ports/1/phys_state", "2: Polling\n"}}},
      {"T14",
       false,
       {{ib + "mlx5_4/board_id", "MT_0000000838\n"},
        {ib + "mlx5_4/fw_ver", "28.39.2048\n"},
        {ib + "mlx5_4/ports/1/state", "1: DOWN\n"},
        {ib + "mlx5_4/ports/1/phys_state", "3: Disabled\n"}}},
      {"W16", false, {{"/usr/lib64/libnccl.so.2.21.5", ""}, {"/usr/local/lib/libnccl.so.2.18.3", ""}}},
      {"F030", false, {}, {{"lspci", "ACSCtl:\tSrcValid+ TransBlk-\n"}}},
      {"F124",
       false,
       {},
       {{"nvidia-smi --query", "0, NVIDIA H100 80GB HBM3, 550.90.07, Enabled, 0x0000000000000040, 0\n"}}},
      {"W13",
       true,
       {},
       {{"nvidia-smi --query", "0, NVIDIA H100 80GB HBM3, 550.90.07, Enabled, 0x0000000000000000, 2\n"}}},
      {"W15",
       true,
       {},
       {{"nvidia-smi --query", "0, NVIDIA H100 80GB HBM3, 535.10.01, Enabled, 0x0000000000000000, 0\n"}}},
      {"F106",
       true,
       {},
       {{"dmesg", "[Mon Nov 24 06:00:15 2025] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n"}}},
      {"F010", false, {{"/proc/self/environ", std::string("NCCL_IB_HCA=mlx5_4") + '\0'}}},
  };
  for (const Case& c : cases) {
    Files files = healthy(), tools = kHealthyTools;
    for (const auto& [path, text] : c.changed) {
      if (text == "-")
        files.erase(path);
      else
        files[path] = text;
    }
    for (const auto& [name, text] : c.tools) tools[name] = text;
    const auto report = examine(machine(files, tools));
    EXPECT_EQ(ids(report), std::set<std::string>{c.id}) << c.id << ": " << report.verdict;
    EXPECT_EQ(!report.roots.empty(), c.root) << c.id;
  }
}

// A virtual machine's links and ACS are its hypervisor's.
TEST(Hardware, AVirtualMachineIsNotBlamedForItsHypervisor) {
  Files files = healthy();
  files["/proc/cpuinfo"] = "flags\t\t: fpu hypervisor lahf_lm\n";
  files["/sys/kernel/iommu_groups/7/type"] = "DMA-FQ\n";
  Files tools = kHealthyTools;
  tools["lspci"] = "ACSCtl:\tSrcValid+\n";
  EXPECT_EQ(ids(examine(machine(files, tools))), std::set<std::string>{});
}

TEST(Hardware, WithoutRootItSaysWhatRootWouldAdd) {
  Probes probes = machine(healthy(), kHealthyTools);
  probes.root = false;
  const auto report = examine(probes);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("as root it would also read"), std::string::npos);
}

bool names(const report::DoctorReport& report, const char* id) {
  for (const auto* list : {&report.roots, &report.slow})
    for (const auto& f : *list)
      if (f.id == id) return true;
  return false;
}

TEST(Hardware, AProcessOnTheOtherNumaNodeThanItsGpuIsNamed) {
  Files files = healthy();
  files["/sys/bus/pci/devices/0000:1b:00.0/local_cpulist"] = "0-47,96-143\n";
  files["/proc/4711/status"] = "Name:\tpython\nCpus_allowed_list:\t48-95\nMems_allowed_list:\t0-1\n";
  const Files tools = {{"nvidia-smi --query-compute-apps", "4711, 00000000:1B:00.0\n"}};
  EXPECT_TRUE(names(examine(machine(files, tools)), "P05"));
  files["/proc/4711/status"] = "Cpus_allowed_list:\t8-15\n";
  EXPECT_FALSE(names(examine(machine(files, tools)), "P05"));
}

TEST(Hardware, RdmaDevicesThatThisUserMayNotOpenAreNamed) {
  const Files there = {{"test -e", ""}}, both = {{"test -e", ""}, {"test -w", ""}};
  EXPECT_TRUE(names(examine(machine(healthy(), there)), "P06"));
  EXPECT_FALSE(names(examine(machine(healthy(), both)), "P06"));
}

TEST(Hardware, AContainerWithoutSharedMemoryAndAnOldCongestionControlAreNamed) {
  Files files = healthy();
  files["/dev/null"] = "";
  EXPECT_TRUE(names(examine(machine(files)), "F012"));
  files["/dev/shm/x"] = "";
  files["/proc/sys/net/ipv4/tcp_congestion_control"] = "reno\n";
  EXPECT_FALSE(names(examine(machine(files)), "F012"));
  EXPECT_TRUE(names(examine(machine(files)), "P07"));
  files["/proc/sys/net/ipv4/tcp_congestion_control"] = "bbr\n";
  EXPECT_FALSE(names(examine(machine(files)), "P07"));
}

}  // namespace
}  // namespace weft::doctor
