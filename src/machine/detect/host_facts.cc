#include "machine/detect/host_facts.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

namespace weft::topology {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kSchema = "weft.host_facts/1";

std::string read(const fs::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  std::string found = text.str();
  while (!found.empty() && static_cast<unsigned char>(found.back()) <= ' ') found.pop_back();
  return found;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

// "device" of a class entry is a link to the PCI device, named by its bus id.
std::string bus_of(const fs::path& entry) {
  std::error_code error;
  const fs::path device = fs::canonical(entry / "device", error);
  const std::string name = device.filename().string();
  return !error && name.size() == 12 && name[4] == ':' ? name : std::string();
}

std::string read_iommu(const fs::path& root) {
  const fs::path groups = root / "sys/kernel/iommu_groups";
  std::error_code ignored;
  if (!fs::is_directory(groups, ignored)) return {};
  if (entries(groups).empty()) return "off";
  const std::string command = read(root / "proc/cmdline");
  const bool passthrough =
      command.find("iommu=pt") != std::string::npos || command.find("iommu.passthrough=1") != std::string::npos;
  return passthrough ? "pt" : "on";
}

}  // namespace

HostFacts read_sysfs(const fs::path& root) {
  std::map<std::string, HostFacts::Nic> nics;
  for (const fs::path& entry : entries(root / "sys/class/net")) {
    const std::string bus = bus_of(entry);
    if (bus.empty()) continue;  // loopback, bridges, virtual pairs
    HostFacts::Nic& nic = nics[bus];
    nic.bus_id = bus;
    nic.interface = entry.filename().string();
    nic.megabits = std::max(0.0, std::atof(read(entry / "speed").c_str()));  // -1 while it is down
  }
  for (const fs::path& entry : entries(root / "sys/class/infiniband")) {
    const std::string bus = bus_of(entry);
    if (bus.empty()) continue;
    HostFacts::Nic& nic = nics[bus];
    nic.bus_id = bus;
    nic.verbs = entry.filename().string();
    double gigabits = 0;  // "400 Gb/sec (4X NDR)" of every port
    for (const fs::path& port : entries(entry / "ports")) gigabits += std::atof(read(port / "rate").c_str());
    if (gigabits > 0) nic.megabits = gigabits * 1e3;
  }
  HostFacts facts;
  for (auto& [bus, nic] : nics) facts.nics.push_back(std::move(nic));
  facts.iommu = read_iommu(root);
  std::error_code ignored;
  if (fs::exists(root / "sys/module/nvidia", ignored))
    facts.peermem = fs::exists(root / "sys/module/nvidia_peermem", ignored) ? "on" : "off";
  return facts;
}

std::string to_json(const HostFacts& facts) {
  json nics = json::array(), gpus = json::array();
  for (const HostFacts::Nic& n : facts.nics)
    nics.push_back({{"bus_id", n.bus_id}, {"verbs", n.verbs}, {"interface", n.interface}, {"megabits", n.megabits}});
  for (const HostFacts::Gpu& g : facts.gpus)
    gpus.push_back({{"bus_id", g.bus_id}, {"sm", g.sm}, {"switch_links", g.switch_links}, {"peers", g.peers}});
  const json root = {
      {"schema", kSchema}, {"nics", nics}, {"gpus", gpus}, {"iommu", facts.iommu}, {"peermem", facts.peermem}};
  return root.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<HostFacts> host_facts_from_json(std::string_view name, std::string_view text) {
  const json root = json::parse(text, nullptr, false);
  if (!root.is_object() || root.value("schema", json()) != kSchema)
    return bad_input("{}:1: not a JSON object of schema {}", name, kSchema);
  HostFacts facts;
  try {  // nlohmann-json reports a wrong type by throwing; nothing thrown leaves this function
    for (const json& n : root.value("nics", json::array()))
      facts.nics.push_back({n.at("bus_id"), n.at("verbs"), n.at("interface"), n.at("megabits")});
    for (const json& g : root.value("gpus", json::array()))
      facts.gpus.push_back({g.at("bus_id"), g.at("sm"), g.at("switch_links"),
                            g.at("peers").get<std::vector<std::pair<std::string, std::int32_t>>>()});
    facts.iommu = root.value("iommu", "");
    facts.peermem = root.value("peermem", "");
  } catch (const json::exception& problem) {
    return bad_input("{}:1: {}", name, problem.what());
  }
  for (const HostFacts::Nic& n : facts.nics)
    if (!(n.megabits >= 0 && n.megabits < 1e8)) return bad_input("{}:1: {} Mb/s of {}", name, n.megabits, n.bus_id);
  return facts;
}

}  // namespace weft::topology
