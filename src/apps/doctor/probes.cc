#include "apps/doctor/probes.h"

#include <fmt/ranges.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "apps/doctor/diagnosis.h"
#include "apps/doctor/hardware.h"
#include "base/counted.h"

namespace weft::doctor {
namespace {

using report::DoctorFinding;
using report::DoctorReport;

constexpr double kLeastShm = 1 << 30;           // bytes; NCCL needs some 10 MiB per pair of ranks on a node
constexpr long long kLeastDescriptors = 32768;  // NCCL at 100 ranks and more
constexpr double kLeastLocked = 1e9;            // bytes
constexpr long long kLeastBuffer = 4 << 20;     // bytes; 100 Gb/s at 0.3 ms of round trip
constexpr double kFastNic = 25000;              // Mb/s, from which an MTU of 1500 costs

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\0')) text.pop_back();
  return text;
}

// "Max locked memory   8388608   8388608   bytes": the soft limit; negative: unlimited. None: no such line.
std::optional<long long> limit_of(const std::string& limits, const std::string& name) {
  const auto at = limits.find(name);
  if (at == std::string::npos) return std::nullopt;
  std::istringstream words(limits.substr(at + name.size(), 64));
  std::string word;
  words >> word;
  if (word == "unlimited") return -1;
  long long value = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  return problem == std::errc() && end == word.data() + word.size() ? std::optional(value) : std::nullopt;
}

class Examination {
 public:
  explicit Examination(const Probes& probes) : probes_(probes) {}

  DoctorReport report() {
    memory_and_limits();
    interfaces();
    kernel();
    variables();
    hidden_devices();
    examine_hardware(
        probes_, [this](const std::string& path) { return read(path); },
        [this](MachineFinding f) { add(f.root, f.id.c_str(), f.finding, f.where, f.text, f.remedy, f.verify); });
    tools();
    if (!probes_.root)
      report_.notes.push_back(
          "as root it would also read: ACS of bridges (lspci -vvv), the kernel log where dmesg is restricted, and "
          "links "
          "of PCI devices in containers");
    DoctorReport& r = report_;
    if (!r.roots.empty())
      r.verdict = fmt::format("{} on this machine will stop jobs",
                              r.roots.size() == 1 ? r.roots[0].finding : fmt::format("{} settings", r.roots.size()));
    else if (!r.slow.empty())
      r.verdict = fmt::format("This machine works; {} may slow jobs down", counted(r.slow.size(), "setting"));
    else
      r.verdict = fmt::format("Nothing found on this machine in {} probes", r.lines);
    return std::move(r);
  }

 private:
  std::optional<std::string> read(const std::string& path) {
    auto text = probes_.read(path);
    if (text)
      ++report_.lines;
    else
      ++report_.not_understood;
    return text;
  }
  void add(bool root, const char* id, std::string finding, const std::string& where, std::string text,
           std::string remedy, std::string verify) {
    DoctorFinding f{.id = id,
                    .finding = std::move(finding),
                    .role = root ? "ROOT" : "PERF",
                    .confidence = "confirmed",
                    .facts = 1,
                    .remedy = std::move(remedy),
                    .verify = std::move(verify)};
    f.evidence.push_back({.file = where, .text = std::move(text)});
    (root && report_.roots.size() < 3 ? report_.roots : root ? report_.folded : report_.slow).push_back(std::move(f));
  }

  void memory_and_limits() {
    if (const auto size = probes_.file_system_size("/dev/shm"); size && *size < kLeastShm)
      add(true, "F012", "/dev/shm too small", "/dev/shm", fmt::format("{:.0f} MiB", *size / 1048576),
          "docker --shm-size=1g or --ipc=host; Kubernetes: emptyDir with medium Memory", "df -h /dev/shm");
    const auto devices = probes_.list("/dev");
    const auto there = [&](const char* name) { return std::ranges::find(devices, name) != devices.end(); };
    if (there("null") && !there("shm"))
      add(true, "F012", "There is no /dev/shm", "/dev", "ranks of one host share no memory",
          "docker --ipc=host or --shm-size=1g; Kubernetes: emptyDir with medium Memory at /dev/shm", "df -h /dev/shm");
    const auto limits = read("/proc/self/limits");
    if (!limits) return;
    const bool rdma = !probes_.list("/sys/class/infiniband").empty();
    if (const auto locked = limit_of(*limits, "Max locked memory");
        locked && *locked >= 0 && static_cast<double>(*locked) < kLeastLocked)
      add(rdma, "F011", "Locked-memory limit too small", "/proc/self/limits",
          fmt::format("Max locked memory {} bytes{}", *locked,
                      rdma ? "" : "; no RDMA device here, so nothing fails yet"),
          "docker --ulimit memlock=-1; systemd LimitMEMLOCK=infinity; Slurm PropagateResourceLimitsExcept=MEMLOCK",
          "ulimit -l");
    if (const auto files = limit_of(*limits, "Max open files"); files && *files >= 0 && *files < kLeastDescriptors)
      add(false, "F016", "Few file descriptors", "/proc/self/limits",
          fmt::format("Max open files {}; jobs of hundreds of ranks need more", *files), "ulimit -n 1048576",
          "ulimit -n");
  }

  void interfaces() {
    std::map<std::string, std::vector<std::string>> by_mtu;
    for (const std::string& name : probes_.list("/sys/class/net")) {
      const std::string folder = "/sys/class/net/" + name + "/";
      const auto state = read(folder + "operstate"), mtu = read(folder + "mtu"), speed = read(folder + "speed");
      if (!state || trimmed(*state) != "up" || !mtu) continue;
      const double rate = speed ? std::atof(speed->c_str()) : 0;
      if (rate >= kFastNic) by_mtu[trimmed(*mtu)].push_back(name);
      fast_interface_ = fast_interface_ || rate >= kFastNic;
      if (rate >= kFastNic && std::atoi(mtu->c_str()) <= 1500)
        add(false, "F141", "Small MTU on a fast interface", folder + "mtu",
            fmt::format("{}: {:.0f} Mb/s with MTU {}", name, rate, trimmed(*mtu)),
            "ip link set " + name + " mtu 9000, on every host and switch port", "ip link show " + name);
    }
    if (by_mtu.size() > 1) {
      std::string text;
      for (const auto& [mtu, names] : by_mtu)
        text += fmt::format("{}{}: MTU {}", text.empty() ? "" : "; ", fmt::join(names, " "), mtu);
      add(false, "F141", "MTU differs between fast interfaces", "/sys/class/net", text, "the same MTU everywhere",
          "ip -br link");
    }
    for (const std::string& device : probes_.list("/sys/class/infiniband"))
      for (const std::string& port : probes_.list("/sys/class/infiniband/" + device + "/ports")) {
        const std::string file = "/sys/class/infiniband/" + device + "/ports/" + port + "/state";
        const auto state = read(file);
        if (!state || state->find("ACTIVE") != std::string::npos) continue;
        const auto physical = read("/sys/class/infiniband/" + device + "/ports/" + port + "/phys_state");
        const bool disabled = physical && physical->find("Disabled") != std::string::npos;
        const std::string seen =
            physical ? fmt::format("{}, {}", trimmed(*state), trimmed(*physical)) : trimmed(*state);
        if (disabled)
          add(false, "T14", "RDMA port switched off", file, seen,
              "if it should carry traffic: ip link set DEV up, ibportstate LID PORT enable", "ibstat " + device);
        else
          add(false, "F062", "RDMA port not active", file, seen,
              "cable, subnet manager; or leave the port out with NCCL_IB_HCA", "ibstat " + device);
      }
  }

  void kernel() {
    if (const auto balancing = read("/proc/sys/kernel/numa_balancing");
        balancing && trimmed(*balancing) != "0" && probes_.list("/sys/devices/system/node").size() > 0 && nodes() > 1)
      add(false, "F179", "Automatic NUMA balancing is on", "/proc/sys/kernel/numa_balancing", trimmed(*balancing),
          "sysctl kernel.numa_balancing=0", "sysctl kernel.numa_balancing");
    if (const auto governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        governor && trimmed(*governor) == "powersave" && !read("/sys/devices/system/cpu/intel_pstate/status"))
      add(false, "F146", "CPU governor saves power", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
          trimmed(*governor), "cpupower frequency-set -g performance", "cpupower frequency-info");
    const auto buffers = read("/proc/sys/net/core/rmem_max");
    if (buffers && fast_interface_ && std::atoll(buffers->c_str()) < kLeastBuffer)
      add(false, "F008", "Small TCP buffers beside a fast interface", "/proc/sys/net/core/rmem_max",
          trimmed(*buffers) + " bytes", "sysctl net.core.rmem_max=16777216 net.core.wmem_max=16777216",
          "sysctl net.core.rmem_max net.core.wmem_max");
    static constexpr std::string_view kOld[] = {"reno", "vegas", "westwood", "bic", "hybla", "veno", "illinois"};
    if (const auto control = read("/proc/sys/net/ipv4/tcp_congestion_control");
        control && std::ranges::find(kOld, trimmed(*control)) != std::end(kOld))
      add(false, "P07", "An old congestion control of TCP", "/proc/sys/net/ipv4/tcp_congestion_control",
          trimmed(*control), "sysctl net.ipv4.tcp_congestion_control=cubic", "sysctl net.ipv4.tcp_congestion_control");
    if (const auto range = read("/proc/sys/net/ipv4/ip_local_port_range")) {
      std::istringstream words(*range);
      int low = 0, high = 0;
      words >> low >> high;
      if (high > low && high - low < 4096)
        add(true, "F142", "Few local ports", "/proc/sys/net/ipv4/ip_local_port_range",
            fmt::format("{} to {}", low, high), "sysctl net.ipv4.ip_local_port_range=\"32768 60999\"",
            "sysctl net.ipv4.ip_local_port_range");
    }
  }
  int nodes() {
    return static_cast<int>(std::ranges::count_if(probes_.list("/sys/devices/system/node"),
                                                  [](const std::string& n) { return n.starts_with("node"); }));
  }

  // Text of tools goes through the rules of logs, as files of a user would.
  void tools() {
    if (!probes_.run) return;
    auto rules = shipped_rules();
    if (!rules) return;
    Evidence evidence(std::move(*rules));
    for (const char* command : {"dmesg -T", "nvidia-smi nvlink -s", "nvidia-smi -q -d ROW_REMAPPER", "ibstat"})
      if (const auto text = probes_.run(command)) {
        ++report_.lines;
        evidence.add_text(command, *text);
      }
    evidence.finish();
    const DoctorReport found = diagnose(evidence);
    for (const DoctorFinding& f : found.roots) (report_.roots.size() < 3 ? report_.roots : report_.folded).push_back(f);
    report_.slow.insert(report_.slow.end(), found.slow.begin(), found.slow.end());
    report_.folded.insert(report_.folded.end(), found.folded.begin(), found.folded.end());
  }

  std::string variable(const std::string& name) {
    const auto environment = probes_.read("/proc/self/environ");
    std::istringstream entries(environment.value_or(""));
    for (std::string entry; std::getline(entries, entry, '\0');)
      if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    return "";
  }

  // NICs and GPUs that variables leave out.
  void hidden_devices() {
    const auto environment = probes_.read("/proc/self/environ");
    if (!environment) return;
    const std::string hca = variable("NCCL_IB_HCA");
    if (!hca.empty() && hca[0] != '^') {
      std::vector<std::string> idle;
      for (const std::string& device : probes_.list("/sys/class/infiniband")) {
        const auto state = probes_.read("/sys/class/infiniband/" + device + "/ports/1/state");
        std::istringstream names(hca[0] == '=' ? hca.substr(1) : hca);
        bool used = false;
        for (std::string name; std::getline(names, name, ',');) {
          name = name.substr(0, name.find(':'));
          used = used || (hca[0] == '=' ? device == name : device.starts_with(name));
        }
        if (!used && state && state->find("ACTIVE") != std::string::npos) idle.push_back(device);
      }
      if (!idle.empty())
        add(false, "F010", "NCCL_IB_HCA leaves active NICs idle", "environment",
            fmt::format("NCCL_IB_HCA={}; idle: {}", hca, fmt::join(idle, " ")), "unset NCCL_IB_HCA, or exclude with ^",
            "NCCL_DEBUG=INFO: NET/IB : Using lists all");
    }
    const std::string entry = "CUDA_VISIBLE_DEVICES=";
    const bool hidden = environment->find(std::string(1, '\0') + entry + '\0') != std::string::npos ||
                        environment->starts_with(entry + '\0');
    if (hidden && probes_.read("/proc/driver/nvidia/version"))
      add(false, "W15", "No GPU is visible: the job would run on the CPU", "environment", entry,
          "unset CUDA_VISIBLE_DEVICES", "python -c \"import torch; print(torch.cuda.device_count())\"");
  }

  void variables() {
    const auto environment = read("/proc/self/environ");
    if (!environment) return;
    struct Left {
      const char *name, *id, *finding;
    };
    static constexpr Left kLeft[] = {
        {"CUDA_LAUNCH_BLOCKING=1", "F085", "CUDA_LAUNCH_BLOCKING is on"},
        {"NCCL_P2P_DISABLE=1", "F029", "Peer access between GPUs is switched off"},
        {"NCCL_SHM_DISABLE=1", "F027", "Shared memory is switched off"},
        {"NCCL_IB_DISABLE=1", "F008", "RDMA is switched off"},
        {"NCCL_DEBUG=TRACE", "F021", "NCCL_DEBUG=TRACE is on"},
        {"TORCH_DISTRIBUTED_DEBUG=DETAIL", "F021", "TORCH_DISTRIBUTED_DEBUG=DETAIL checks every call"},
        {"NCCL_ALGO=", "F021", "NCCL_ALGO is forced"},
        {"NCCL_PROTO=", "F021", "NCCL_PROTO is forced"}};
    std::istringstream entries(*environment);
    for (std::string entry; std::getline(entries, entry, '\0');)
      for (const Left& left : kLeft)
        if (const std::string_view word = left.name; word.ends_with('=') ? entry.starts_with(word) : entry == word)
          add(false, left.id, left.finding, "environment", entry, "unset " + entry.substr(0, entry.find('=')),
              "env | grep " + entry.substr(0, entry.find('=')));
  }

  const Probes& probes_;
  DoctorReport report_;
  bool fast_interface_ = false;
};

}  // namespace

Probes real_probes() {
  Probes probes;
  probes.read = [](const std::string& path) -> std::optional<std::string> {
    std::ifstream file(path);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) return std::nullopt;
    return text.str();
  };
  probes.list = [](const std::string& folder) {
    std::vector<std::string> names;
    std::error_code problem;
    for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem))
      names.push_back(at->path().filename().string());
    std::ranges::sort(names);
    return names;
  };
  probes.file_system_size = [](const std::string& path) -> std::optional<double> {
    struct statvfs size {};
    if (statvfs(path.c_str(), &size) != 0) return std::nullopt;
    return static_cast<double>(size.f_blocks) * static_cast<double>(size.f_frsize);
  };
  probes.run = [](const std::string& command) -> std::optional<std::string> {
    constexpr std::size_t kMost = 16 << 20;
    const std::string line = "timeout 10 " + command + " 2>/dev/null";
    FILE* pipe = popen(line.c_str(), "re");
    if (pipe == nullptr) return std::nullopt;
    std::string text;
    char buffer[4096];
    for (std::size_t n = 0; text.size() < kMost && (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      text.append(buffer, n);
    return pclose(pipe) == 0 ? std::optional(text) : std::nullopt;
  };
  probes.root = geteuid() == 0;
  return probes;
}

DoctorReport examine(const Probes& probes) { return Examination(probes).report(); }

}  // namespace weft::doctor
