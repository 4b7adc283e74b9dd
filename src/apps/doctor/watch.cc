#include "apps/doctor/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace weft::doctor {
namespace {

constexpr const char* kNet = "/sys/class/net/";
constexpr const char* kRdma = "/sys/class/infiniband/";

double number_in(const Probes& probes, const std::string& path) {
  const auto text = probes.read(path);
  return text ? std::atof(text->c_str()) : 0;
}

// Of an RDMA port: counters of its link, of what the switch makes it wait for, and of what is sent again.
constexpr const char* kRdmaTroubles[] = {"counters/symbol_error",         "counters/link_downed",
                                         "counters/port_rcv_errors",      "counters/port_xmit_discards",
                                         "counters/port_xmit_wait",       "hw_counters/out_of_sequence",
                                         "hw_counters/packet_seq_err",    "hw_counters/local_ack_timeout_err",
                                         "hw_counters/rnr_nak_retry_err", "hw_counters/rp_cnp_handled"};
constexpr const char* kNetTroubles[] = {"rx_errors", "tx_errors", "rx_dropped", "tx_dropped"};

void add_rdma(const Probes& probes, std::vector<NicCounters>& nics, std::set<std::string>& carriers) {
  for (const std::string& device : probes.list(kRdma)) {
    for (const std::string& name : probes.list(kRdma + device + "/device/net")) carriers.insert(name);
    for (const std::string& port : probes.list(kRdma + device + "/ports")) {
      const std::string folder = kRdma + device + "/ports/" + port + "/";
      const auto state = probes.read(folder + "state");
      if (!state || state->find("ACTIVE") == std::string::npos) continue;
      NicCounters nic{.name = port == "1" ? device : device + " port " + port,
                      .rdma = true,
                      .line_rate = number_in(probes, folder + "rate") * 1e9 / 8,
                      .sent = number_in(probes, folder + "counters/port_xmit_data") * 4,  // words of four bytes
                      .received = number_in(probes, folder + "counters/port_rcv_data") * 4};
      for (const std::string file : kRdmaTroubles)
        nic.troubles[file.substr(file.find('/') + 1)] = number_in(probes, folder + file);
      nics.push_back(std::move(nic));
    }
  }
}

void add_interfaces(const Probes& probes, Sample& s, const std::set<std::string>& carriers) {
  for (const std::string& name : probes.list(kNet)) {
    const std::string folder = kNet + name + "/";
    const double sent = number_in(probes, folder + "statistics/tx_bytes");
    if (name == "lo") s.loopback = sent;
    // What an RDMA port carries is in that port's counters; bridges and tunnels have no device.
    const auto state = probes.read(folder + "operstate");
    const double megabits = number_in(probes, folder + "speed");
    const bool up = state && (state->starts_with("up") || (state->starts_with("unknown") && megabits > 0));
    if (name == "lo" || carriers.contains(name) || !up) continue;
    NicCounters nic{.name = name,
                    .line_rate = std::max(0.0, megabits) * 1e6 / 8,
                    .sent = sent,
                    .received = number_in(probes, folder + "statistics/rx_bytes")};
    for (const std::string file : kNetTroubles) nic.troubles[file] = number_in(probes, folder + "statistics/" + file);
    s.nics.push_back(std::move(nic));
  }
}

void add_processor(const Probes& probes, Sample& s) {
  std::istringstream lines(probes.read("/proc/stat").value_or(""));
  for (std::string line; std::getline(lines, line) && line.starts_with("cpu");) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name != "cpu") {
      ++s.cores;
      continue;
    }
    double ticks = 0;  // user nice system idle iowait irq softirq steal
    for (int field = 0; field < 8 && words >> ticks; ++field) {
      s.cpu_all += ticks;
      if (field != 3 && field != 4) s.cpu_busy += ticks;
    }
  }
  std::istringstream memory(probes.read("/proc/meminfo").value_or(""));
  double total = 0, available = 0, value = 0;
  for (std::string line; std::getline(memory, line);) {
    if (std::sscanf(line.c_str(), "MemTotal: %lf", &value) == 1) total = value;
    if (std::sscanf(line.c_str(), "MemAvailable: %lf", &value) == 1) available = value;
  }
  if (total > 0) s.memory_used = 1 - available / total;
}

constexpr const char* kAskGpus =
    "nvidia-smi --query-gpu=index,utilization.gpu,memory.used,memory.total,clocks.sm,power.draw "
    "--format=csv,noheader,nounits";

// "GPU 0: …" and below it "Link 3: Data Tx: 1234 KiB": bytes so far.
void add_nvlinks(const std::string& text, std::vector<GpuCounters>& gpus) {
  std::istringstream lines(text);
  GpuCounters* gpu = nullptr;
  for (std::string line; std::getline(lines, line);) {
    int index = 0;
    double kib = 0;
    if (std::sscanf(line.c_str(), "GPU %d:", &index) == 1) {
      const auto at = std::ranges::find(gpus, index, [](const GpuCounters& g) { return g.now.index; });
      gpu = at == gpus.end() ? nullptr : &*at;
    } else if (gpu != nullptr && std::sscanf(line.c_str(), " Link %d: Data Tx: %lf KiB", &index, &kib) == 2) {
      gpu->nvlink_sent += kib * 1024;
    } else if (gpu != nullptr && std::sscanf(line.c_str(), " Link %d: Data Rx: %lf KiB", &index, &kib) == 2) {
      gpu->nvlink_received += kib * 1024;
    }
  }
}

void add_gpus(const Probes& probes, Sample& s) {
  if (!probes.run || !probes.read("/proc/driver/nvidia/version")) return;
  std::istringstream lines(probes.run(kAskGpus).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    GpuCounters g;
    double busy = 0, used = 0, total = 0;
    if (std::sscanf(line.c_str(), "%d, %lf, %lf, %lf, %lf, %lf", &g.now.index, &busy, &used, &total, &g.now.clock_mhz,
                    &g.now.watts) < 4)
      continue;
    g.now.busy = busy / 100;
    g.now.memory = total > 0 ? used / total : 0;
    s.gpus.push_back(g);
  }
  if (!s.gpus.empty()) add_nvlinks(probes.run("nvidia-smi nvlink -gt d").value_or(""), s.gpus);
}

}  // namespace

Sample sample(const Probes& probes, std::vector<recorder::Snapshot> ranks, double at) {
  Sample s{.at = at, .ranks = std::move(ranks)};
  std::set<std::string> carriers;  // interfaces of RDMA devices
  add_rdma(probes, s.nics, carriers);
  add_interfaces(probes, s, carriers);
  add_processor(probes, s);
  add_gpus(probes, s);
  return s;
}

}  // namespace weft::doctor
