#include "apps/launch/binding.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "api/calibrate/cpus.h"
#include "base/counted.h"
#include "base/env.h"
#include "base/text.h"
#include "net/link/interfaces.h"

namespace weft::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostCpus = 1 << 16;

std::string first_line(const fs::path& file) {
  std::string line;
  std::getline(std::ifstream(file) >> std::ws, line);
  return line;
}

// The usable processors of every NUMA node that has some; all in node 0 where the system names none.
std::map<int, std::vector<int>> nodes_of(const HostProcessors& host) {
  std::map<int, std::vector<int>> nodes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(host.sys + "/devices/system/node", ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("node") || name.find_first_not_of("0123456789", 4) != std::string::npos) continue;
    const auto cpus = parse_cpus(name, first_line(entry.path() / "cpulist"));
    if (!cpus) continue;
    for (const int cpu : *cpus)
      if (std::binary_search(host.usable.begin(), host.usable.end(), cpu))
        nodes[std::stoi(name.substr(4))].push_back(cpu);
  }
  if (nodes.empty()) nodes[0] = host.usable;
  return nodes;
}

// A device to be beside: its name and the NUMA node that the system reports, -1 where it reports none.
struct Device {
  std::string name;
  int node = -1;
};

int node_at(const fs::path& device) {
  const std::string text = first_line(device / "numa_node");
  const auto node = parse_integer("numa_node", text, -1, kMostCpus);
  return node ? static_cast<int>(*node) : -1;
}

std::vector<Device> nics_of(const HostProcessors& host) {
  std::vector<Device> found;
  for (const std::string& name : host.interfaces)
    if (const fs::path device = fs::path(host.sys) / "class/net" / name / "device"; fs::exists(device))
      found.push_back({name, node_at(device)});
  return found;
}

std::vector<Device> gpus_of(const HostProcessors& host) {
  std::vector<Device> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(host.sys + "/bus/pci/devices", ignored))
    if (first_line(entry.path() / "vendor") == "0x10de" && first_line(entry.path() / "class").starts_with("0x03"))
      found.push_back({entry.path().filename(), node_at(entry.path())});
  std::sort(found.begin(), found.end(), [](const Device& a, const Device& b) { return a.name < b.name; });
  return found;
}

Result<std::vector<Binding>> beside(const std::vector<Device>& devices, Rank ranks, const HostProcessors& host) {
  const auto nodes = nodes_of(host);
  std::vector<Binding> all;
  for (Rank r = 0; r < ranks; ++r) {
    const Device& device = devices[static_cast<std::size_t>(r) % devices.size()];
    if (device.node < 0) {
      all.push_back({{}, fmt::format("the system reports no NUMA node for {}", device.name)});
      continue;
    }
    const auto node = nodes.find(device.node);
    if (node == nodes.end())
      return bad_input("--bind: {} is beside NUMA node {}, of which this process may use no processor; it may use {}",
                       device.name, device.node, text_of_cpus(host.usable));
    all.push_back({node->second, fmt::format("NUMA node {}, as {}", device.node, device.name)});
  }
  return all;
}

Result<std::vector<Binding>> listed(const std::string& wanted, Rank ranks, const HostProcessors& host) {
  std::vector<Binding> sets;
  for (std::size_t at = 0; at <= wanted.size();) {
    const std::size_t colon = std::min(wanted.find(':', at), wanted.size());
    WEFT_TRY(auto cpus, parse_cpus("--bind " + wanted, wanted.substr(at, colon - at)));
    for (const int cpu : cpus)
      if (!std::binary_search(host.usable.begin(), host.usable.end(), cpu))
        return bad_input(
            "--bind {}: this process may not use processor {}; its cgroup or its launcher's mask leaves {}", wanted,
            cpu, text_of_cpus(host.usable));
    sets.push_back({std::move(cpus), "as listed"});
    at = colon + 1;
  }
  if (std::ssize(sets) > ranks)
    return bad_input("--bind {}: {} lists, and {} here", wanted, sets.size(), counted(ranks, "rank"));
  std::vector<Binding> all;
  for (Rank r = 0; r < ranks; ++r) all.push_back(sets[static_cast<std::size_t>(r) % sets.size()]);
  return all;
}

}  // namespace

std::string text_of_cpus(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (last > i) text += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

Result<std::vector<int>> parse_cpus(const std::string& what, const std::string& text) {
  std::set<int> cpus;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    const std::size_t dash = part.find('-');
    const auto first = parse_integer(what, part.substr(0, dash), 0, kMostCpus);
    const auto last = dash == std::string::npos ? first : parse_integer(what, part.substr(dash + 1), 0, kMostCpus);
    if (!first || !last || *last < *first)
      return bad_input("{}: '{}' is no processor 0 … {} and no range of them", what, part, kMostCpus);
    for (std::int64_t cpu = *first; cpu <= *last; ++cpu) cpus.insert(static_cast<int>(cpu));
    at = comma + 1;
  }
  return std::vector<int>(cpus.begin(), cpus.end());
}

Result<std::vector<Binding>> bindings_of(const std::string& wanted, Rank ranks, const HostProcessors& host) {
  const bool enough = static_cast<std::size_t>(ranks) <= host.usable.size();
  if (wanted == "none" || (wanted.empty() && !enough))
    return std::vector<Binding>(static_cast<std::size_t>(ranks),
                                {{}, wanted.empty() ? "more ranks than processors" : wanted});
  std::vector<Binding> all;
  if (wanted.empty() || wanted == "core") {
    if (!enough)
      return bad_input("--bind core: {} ranks, and this process may use {} processors: {}", ranks, host.usable.size(),
                       text_of_cpus(host.usable));
    for (Rank r = 0; r < ranks; ++r) all.push_back({{host.usable[static_cast<std::size_t>(r)]}, "one each"});
    return all;
  }
  if (wanted == "numa") {
    const auto nodes = nodes_of(host);
    for (Rank r = 0; r < ranks; ++r) {
      const auto& [node, cpus] =
          *std::next(nodes.begin(), static_cast<std::ptrdiff_t>(r * nodes.size() / static_cast<std::size_t>(ranks)));
      all.push_back({cpus, fmt::format("NUMA node {}", node)});
    }
    return all;
  }
  if (wanted == "nic") {
    const auto nics = nics_of(host);
    if (nics.empty())
      return bad_input("--bind nic: no interface is a device of this machine, or WEFT_IFACE leaves none");
    return beside(nics, ranks, host);
  }
  if (wanted == "gpu") {
    const auto gpus = gpus_of(host);
    if (gpus.empty()) return bad_input("--bind gpu: this machine has no NVIDIA GPU");
    return beside(gpus, ranks, host);
  }
  if (wanted.find_first_not_of("0123456789,-:") != std::string::npos)
    return bad_input("--bind '{}' is none of core, numa, nic, gpu, none and lists of processors such as 0-3:4-7",
                     wanted);
  return listed(wanted, ranks, host);
}

std::string report_of(Rank rank, const Binding& b, const HostProcessors& host) {
  return fmt::format("rank {} runs on processors {} ({})", rank, text_of_cpus(b.cpus.empty() ? host.usable : b.cpus),
                     b.reason);
}

Result<std::vector<Binding>> bind_as_asked(Rank first, Rank ranks) {
  WEFT_TRY(const HostProcessors host, host_processors());
  WEFT_TRY(auto all, bindings_of(env::value_of("WEFT_BIND").value_or(""), ranks, host));
  const std::string reports = env::value_of("WEFT_REPORT_BINDINGS").value_or("0");
  if (reports != "0" && reports != "1") return bad_input("WEFT_REPORT_BINDINGS is '{}': 0 or 1", shown(reports));
  if (reports == "1")
    for (Rank r = 0; r < ranks; ++r)
      fmt::print(stderr, "weft: {}\n", report_of(first + r, all[static_cast<std::size_t>(r)], host));
  return all;
}

Result<HostProcessors> host_processors() {
  HostProcessors host{.usable = calibrate::usable_cpus()};
  WEFT_TRY(const env::Settings settings, env::read());
  if (settings.interface.empty()) return host;
  WEFT_TRY(const auto chosen, net::link::choose_interfaces(settings.interface));
  for (const auto& i : chosen) host.interfaces.push_back(i.name);
  return host;
}

}  // namespace weft::launch
