#include "apps/doctor/hardware.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <vector>

namespace weft::doctor {
namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\0')) text.pop_back();
  return text;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) {
    const auto begin = part.find_first_not_of(' ');
    parts.push_back(begin == std::string::npos ? "" : trimmed(part.substr(begin)));
  }
  return parts;
}

// "0-3,8": 0 1 2 3 8.
std::set<int> cpus_of(const std::string& list) {
  constexpr int kMostCpus = 8192;
  std::set<int> cpus;
  for (const std::string& part : split(trimmed(list), ',')) {
    int first = 0, last = 0;
    const int read = std::sscanf(part.c_str(), "%d-%d", &first, &last);
    if (read == 1) last = first;
    for (int cpu = first; read >= 1 && cpu >= 0 && cpu <= std::min(last, kMostCpus); ++cpu) cpus.insert(cpu);
  }
  return cpus;
}

class Hardware {
 public:
  Hardware(const Probes& probes, const Reader& read, const MachineFinder& found)
      : probes_(probes), read_(read), found_(found) {}

  void examine() {
    const std::string info = read_("/proc/cpuinfo").value_or("");
    virtual_ = info.find(" hypervisor") != std::string::npos;
    pci();
    rdma();
    iommu();
    modules_and_files();
    nvidia_smi();
    bindings();
    bridges();
    versions();
  }

 private:
  static constexpr const char* kPci = "/sys/bus/pci/devices/";
  static constexpr const char* kRdma = "/sys/class/infiniband/";

  std::vector<std::string> list(const std::string& folder) const {
    return probes_.list ? probes_.list(folder) : std::vector<std::string>();
  }
  std::string text(const std::string& path) const { return trimmed(read_(path).value_or("")); }

  // Links that have trained below what both ends can do. GPUs that idle lower their speed, never their width.
  void pci() {
    for (const std::string& device : list("/sys/bus/pci/devices")) {
      const std::string folder = kPci + device + "/", kind = text(folder + "class"), vendor = text(folder + "vendor");
      const bool gpu = (kind.starts_with("0x0302") || kind.starts_with("0x0300") || kind.starts_with("0x1200")) &&
                       (vendor == "0x10de" || vendor == "0x1002");
      const bool nic = kind.starts_with("0x0207") || (kind.starts_with("0x0200") && vendor == "0x15b3");
      if (!gpu && !nic) continue;
      gpus_ += gpu ? 1 : 0;
      nvidia_ += gpu && vendor == "0x10de" ? 1 : 0;
      const int width = std::atoi(text(folder + "current_link_width").c_str()),
                most = std::atoi(text(folder + "max_link_width").c_str());
      if (width > 0 && width < most && most <= 32)
        found_({!virtual_, "F032", fmt::format("PCIe link of a {} has fewer lanes than it can", gpu ? "GPU" : "NIC"),
                folder + "current_link_width", fmt::format("{}: x{} of x{}", device, width, most),
                "reseat the card; another slot if this one has fewer lanes; firmware; drain",
                "lspci -vvv -s " + device + " | grep Lnk"});
      const double speed = std::atof(text(folder + "current_link_speed").c_str()),
                   fastest = std::atof(text(folder + "max_link_speed").c_str());
      if (nic && speed > 0 && speed < fastest)
        found_({false, "F032", "PCIe link of a NIC is slower than it can", folder + "current_link_speed",
                fmt::format("{}: {:.1f} of {:.1f} GT/s", device, speed, fastest),
                "BIOS setting of the slot; firmware; a slot of the card's generation",
                "lspci -vvv -s " + device + " | grep Lnk"});
    }
  }

  // NICs of one kind whose firmware or rate differs, and interrupts on the other socket.
  void rdma() {
    std::map<std::string, std::map<std::string, std::vector<std::string>>> firmware;  // by board, by version
    std::map<std::string, std::map<double, std::vector<std::string>>> rates;          // by board, Gb/s
    for (const std::string& device : list("/sys/class/infiniband")) {
      ++rdma_;
      const std::string folder = kRdma + device + "/", board = text(folder + "board_id");
      if (!board.empty()) firmware[board][text(folder + "fw_ver")].push_back(device);
      for (const std::string& port : list(folder + "ports")) {
        const std::string ports = folder + "ports/" + port + "/";
        if (text(ports + "state").find("ACTIVE") == std::string::npos) continue;
        active_.push_back(device);
        rates[board][std::atof(text(ports + "rate").c_str())].push_back(device);
      }
      interrupts(device, folder);
    }
    for (const auto& [board, versions] : firmware)
      if (versions.size() > 1) {
        std::string seen;
        for (const auto& [version, devices] : versions)
          seen += fmt::format("{}{}: {}", seen.empty() ? "" : "; ", version, fmt::join(devices, " "));
        found_({false, "F034", "Firmware differs between NICs of one kind", std::string(kRdma) + "*/fw_ver", seen,
                "one firmware on all", "cat /sys/class/infiniband/*/fw_ver"});
      }
    for (const auto& [board, by_rate] : rates)
      if (by_rate.size() > 1)
        found_({false, "F062", "A NIC runs below the rate of its siblings", std::string(kRdma) + "*/ports/*/rate",
                fmt::format("{}: {:.0f} Gb/s, others {:.0f}", fmt::join(by_rate.begin()->second, " "),
                            by_rate.begin()->first, by_rate.rbegin()->first),
                "cable, switch port, FEC", "ibstat"});
  }

  void interrupts(const std::string& device, const std::string& folder) {
    const std::string node = text(folder + "device/numa_node");
    if (node.empty() || node == "-1") return;
    const auto cpus = cpus_of(text("/sys/devices/system/node/node" + node + "/cpulist"));
    if (cpus.empty()) return;
    int far = 0, all = 0;
    for (const std::string& irq : list(folder + "device/msi_irqs")) {
      const auto where = cpus_of(text("/proc/irq/" + irq + "/effective_affinity_list"));
      if (where.empty()) continue;
      ++all;
      far += cpus.contains(*where.begin()) ? 0 : 1;
    }
    if (all > 0 && 2 * far > all)
      found_({false, "F036", "Interrupts of a NIC go to CPUs of another NUMA node",
              "/proc/irq/*/effective_affinity_list",
              fmt::format("{} of node {}: {} of {} interrupts are elsewhere", device, node, far, all),
              "irqbalance off or with hints; set_irq_affinity_bynode.sh " + node + " " + device,
              "cat /proc/irq/*/effective_affinity_list"});
  }

  void iommu() {
    if (virtual_ || (gpus_ == 0 && rdma_ == 0)) return;
    for (const std::string& group : list("/sys/kernel/iommu_groups")) {
      const std::string file = "/sys/kernel/iommu_groups/" + group + "/type", type = text(file);
      if (!type.starts_with("DMA")) continue;
      found_({false, "F148", "The IOMMU translates DMA", file, type, "iommu=pt on the kernel's command line, or off",
              "cat /proc/cmdline; cat /sys/kernel/iommu_groups/*/type"});
      return;
    }
  }

  void modules_and_files() {
    const std::string driver = text("/proc/driver/nvidia/version");
    if (nvidia_ > 0 && rdma_ > 0 && !driver.empty() && driver.find("Open Kernel Module") == std::string::npos &&
        list("/sys/module/nvidia_peermem").empty())
      found_({false, "F140", "GPU Direct RDMA has no kernel module", "/sys/module/nvidia_peermem",
              "nvidia_peermem is not loaded, and the closed driver has no DMA-BUF", "modprobe nvidia-peermem",
              "lsmod | grep peermem; NCCL_DEBUG=INFO: GDRDMA"});
    if (rdma_ > 0 && list("/dev/infiniband").empty())
      found_({true, "F009", "RDMA devices are not in this container", "/dev/infiniband",
              fmt::format("{} RDMA devices, no /dev/infiniband/uverbs*", rdma_),
              "docker --device /dev/infiniband; Kubernetes: the RDMA device plugin", "ibv_devinfo"});
    const std::string verbs = "/dev/infiniband/uverbs0";
    if (rdma_ > 0 && run("test -e " + verbs) && !run("test -w " + verbs))
      found_({true, "P06", "This user or group may not open the RDMA devices", verbs, "not writable for this process",
              "docker --group-add <gid of the file>, or --user; udev rule of the rdma group",
              "ls -ln /dev/infiniband; id"});
    if (nvidia_ > 0 && !driver.empty()) {
      const auto files = list("/dev");
      const auto there = std::ranges::count_if(files, [](const std::string& name) {
        return name.starts_with("nvidia") && name.size() > 6 && name[6] >= '0' && name[6] <= '9';
      });
      if (there < nvidia_)
        found_({there == 0, "W15", "GPUs are not in this container", "/dev",
                fmt::format("{} NVIDIA GPUs on PCI, {} files /dev/nvidiaN", nvidia_, there),
                "docker --gpus all; Kubernetes: nvidia.com/gpu", "nvidia-smi -L"});
    }
  }

  // What nvidia-smi says of each GPU, where it is installed.
  void nvidia_smi() {
    const auto table =
        run("nvidia-smi --query-gpu=index,name,driver_version,persistence_mode,clocks_throttle_reasons.active,"
            "ecc.errors.uncorrected.volatile.total --format=csv,noheader");
    if (!table) return;
    int listed = 0;
    std::set<std::string> names;
    for (const std::string& line : split(*table, '\n')) {
      const auto cells = split(line, ',');
      if (cells.size() != 6) continue;
      ++listed;
      names.insert(cells[1]);
      driver_ = cells[2];
      const auto seen = [&](std::string what) { return fmt::format("GPU {} ({}): {}", cells[0], cells[1], what); };
      // NVML's reasons: 0x8 hardware slowdown, 0x20 software thermal, 0x40 hardware thermal, 0x80 power brake.
      constexpr unsigned long kBad = 0x8 | 0x20 | 0x40 | 0x80;
      if (const unsigned long reasons = std::strtoul(cells[4].c_str(), nullptr, 16); (reasons & kBad) != 0)
        found_({false, "F124", "A GPU is slowed down by heat or power", "nvidia-smi", seen("reasons " + cells[4]),
                "cooling, power supply, power cap", "nvidia-smi -q -d PERFORMANCE"});
      if (std::atoi(cells[5].c_str()) > 0)
        found_({true, "W13", "Uncorrectable ECC errors", "nvidia-smi", seen(cells[5]), "reset the GPU; RMA on repeat",
                "nvidia-smi -q -d ECC,ROW_REMAPPER"});
      if (cells[3] == "Disabled")
        found_({false, "F126", "Persistence mode is off", "nvidia-smi", seen(cells[3]), "nvidia-persistenced",
                "nvidia-smi -q | grep Persistence"});
    }
    if (listed > 0 && nvidia_ > listed)
      found_({true, "F122", "A GPU is missing", "nvidia-smi",
              fmt::format("{} of {} NVIDIA GPUs on PCI answer", listed, nvidia_), "dmesg: Xid 79 or 143; reboot",
              "nvidia-smi -L"});
    if (names.size() > 1)
      found_({false, "F122", "GPUs of different kinds", "nvidia-smi", fmt::format("{}", fmt::join(names, ", ")),
              "CUDA_VISIBLE_DEVICES with GPUs of one kind", "nvidia-smi -L"});
  }

  // Processes on GPUs whose CPUs are not among those of the GPU's NUMA node.
  void bindings() {
    const auto table = run("nvidia-smi --query-compute-apps=pid,gpu_bus_id --format=csv,noheader");
    for (const std::string& line : split(table.value_or(""), '\n')) {
      const auto cells = split(line, ',');
      if (cells.size() != 2 || cells[1].size() < 12) continue;
      std::string bus = cells[1].substr(cells[1].size() - 12);  // 00000000:19:00.0
      for (char& c : bus) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      const auto near = cpus_of(text(kPci + bus + "/local_cpulist"));
      const std::string status = text("/proc/" + cells[0] + "/status"), word = "Cpus_allowed_list:";
      const auto at = status.find(word);
      if (near.empty() || at == std::string::npos) continue;
      std::string list = status.substr(at + word.size(), status.find('\n', at) - at - word.size());
      list.erase(0, list.find_first_not_of(" \t"));
      const auto allowed = cpus_of(list);
      if (allowed.empty() || std::ranges::any_of(allowed, [&](int cpu) { return near.contains(cpu); })) continue;
      found_(
          {false, "P05", "A process is bound to CPUs of another NUMA node than its GPU's",
           "/proc/" + cells[0] + "/status",
           fmt::format("process {} of GPU {} may run on CPUs {}, the GPU is near others", cells[0], bus, list),
           "numactl --cpunodebind=<the GPU's node> --membind, torchrun --numa-binding=node, Slurm --gpu-bind=closest",
           "taskset -cp " + cells[0] + "; cat " + kPci + bus + "/local_cpulist"});
    }
  }

  // Only root reads the capabilities of bridges.
  void bridges() {
    if (virtual_ || (gpus_ == 0 && rdma_ == 0)) return;
    const auto all = run("lspci -vvv");
    if (!all) return;
    int on = 0;
    for (std::size_t at = 0; (at = all->find("SrcValid+", at)) != std::string::npos; ++at) ++on;
    if (on > 0)
      found_({false, "F030", "ACS is on: peer traffic goes through the root complex", "lspci -vvv",
              fmt::format("SrcValid+ on {} bridges", on),
              "setpci ECAP_ACS+0x6.w=0000 on the bridges, or the BIOS; virtual machines need it",
              "lspci -vvv | grep ACSCtl"});
  }

  // The kernel's module against the library, and libraries of NCCL that differ.
  void versions() {
    const std::string module = text("/proc/driver/nvidia/version");
    if (!driver_.empty() && !module.empty() && module.find(driver_) == std::string::npos)
      found_({true, "W15", "Driver and library have different versions", "/proc/driver/nvidia/version",
              fmt::format("library {}, module: {}", driver_, module.substr(0, module.find('\n'))),
              "reboot, or load the module of the library's version", "nvidia-smi"});
    std::map<std::string, std::string> libraries;  // version to path
    std::vector<std::string> folders = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/lib",
                                        "/usr/local/nccl/lib"};
    for (const std::string& entry : split(read_("/proc/self/environ").value_or(""), '\0'))
      if (entry.starts_with("LD_LIBRARY_PATH="))
        for (const std::string& folder : split(entry.substr(16), ':'))
          if (!folder.empty()) folders.push_back(folder);
    for (const std::string& folder : folders)
      for (const std::string& name : list(folder))
        if (name.starts_with("libnccl.so.2.")) libraries.try_emplace(name.substr(11), folder + "/" + name);
    if (libraries.size() > 1) {
      std::vector<std::string> paths;
      for (const auto& [version, path] : libraries) paths.push_back(path);
      found_({false, "W16", "Several versions of NCCL are installed", paths.front(),
              fmt::format("{}", fmt::join(paths, " ")), "one of them; LD_LIBRARY_PATH says which is loaded",
              "NCCL_DEBUG=VERSION in the job, on every host"});
    }
  }

  std::optional<std::string> run(const std::string& command) const {
    return probes_.run ? probes_.run(command) : std::nullopt;
  }

  const Probes& probes_;
  const Reader& read_;
  const MachineFinder& found_;
  bool virtual_ = false;
  int gpus_ = 0, nvidia_ = 0, rdma_ = 0;
  std::vector<std::string> active_;
  std::string driver_;
};

}  // namespace

void examine_hardware(const Probes& probes, const Reader& read, const MachineFinder& found) {
  Hardware(probes, read, found).examine();
}

}  // namespace weft::doctor
