#include "machine/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/counted.h"
#include "base/embedded.h"
#include "machine/catalog/catalog.h"
#include "machine/switch_height.h"

namespace weft::embedded {
std::span<const File> files();
}

namespace weft::topology {
namespace {

bool is_nvlink_part(std::string_view name) { return name.starts_with("nvlink"); }

// The NVLinks of every GPU; 0 of those that have none.
std::map<DeviceId, int> nvlinks(const Topology& machine) {
  std::map<DeviceId, int> links;
  for (const DeviceId gpu : machine.devices_of(DeviceKind::kGpu)) links[gpu] = 0;
  for (const Link& l : machine.links())
    for (const DeviceId end : {l.a, l.b})
      if (l.kind == LinkKind::kNvlink && links.contains(end) &&
          machine.device(l.a == end ? l.b : l.a).kind != DeviceKind::kCpu)
        links[end] += l.count;
  return links;
}

// The first GPU with this number of links.
DeviceId first_with(const std::map<DeviceId, int>& links, int count) {
  return std::ranges::find(links, count, [](const auto& entry) { return entry.second; })->first;
}

void of_nvlinks(const Topology& machine, const Catalog& catalog, std::vector<std::string>& found) {
  const std::map<DeviceId, int> links = nvlinks(machine);
  std::map<int, int> gpus;  // by the number of their links
  for (const auto& [gpu, count] : links) ++gpus[count];
  if (gpus.empty()) return;
  const auto usual = std::ranges::max_element(gpus, {}, [](const auto& entry) { return entry.second; });
  constexpr int kMostNamed = 4;
  const int others = static_cast<int>(links.size()) - usual->second;
  if (others > 0 && others <= kMostNamed && usual->second > others) {
    for (const auto& [gpu, count] : links)
      if (count != usual->first)
        found.push_back(
            fmt::format("{} has {} NVLinks, the others have {}", machine.name_of(gpu), count, usual->first));
  }
  if (usual->first > 0 || links.size() < 2) return;
  const std::string& model = machine.device(links.begin()->first).model;
  if (machine.device(first_with(links, usual->first)).model != model) return;  // nodes of two kinds
  const Part* part = catalog.find(model);
  if (part == nullptr || !part->facts.contains("link") || !is_nvlink_part(part->facts.at("link"))) return;
  if (model.find("PCIE") != std::string::npos) return;
  found.push_back(
      fmt::format("no NVLink is listed, though {} GPUs have it: NCCL adds NVLinks from the driver, this file has none, "
                  "and GPUs are simulated over PCIe",
                  model));
}

// Switches of one height whose links upward carry less than those downward.
void of_oversubscription(const Topology& machine, std::vector<std::string>& found) {
  const std::vector<std::int32_t> heights = switch_heights(machine);
  struct Level {
    int switches = 0, oversubscribed = 0;
    double most = 1;  // times as much downward as upward
  };
  std::map<std::int32_t, Level> levels;
  for (const DeviceId id : machine.devices_of(DeviceKind::kNetworkSwitch)) {
    const std::int32_t height = heights[static_cast<std::size_t>(id)];
    if (height < 0) continue;
    double up = 0, down = 0;
    for (const LinkId l : machine.links_of(id)) {
      const DeviceId to = machine.other_end(l, id);
      const std::int32_t other = heights[static_cast<std::size_t>(to)];
      const double rate = machine.link(l).rate_ab.value();
      if (other == height + 1) up += rate;
      if (machine.device(to).node >= 0 || (other >= 0 && other == height - 1)) down += rate;
    }
    Level& level = levels[height];
    ++level.switches;
    constexpr double kRounded = 1.01;
    if (up <= 0 || down < up * kRounded) continue;
    ++level.oversubscribed;
    level.most = std::max(level.most, down / up);
  }
  for (const auto& [height, level] : levels)
    if (level.oversubscribed > 0)
      found.push_back(
          fmt::format("the fabric is oversubscribed {:.3g} : 1 above {} of {} {} switches: what passes through them to "
                      "others shares that",
                      level.most, level.oversubscribed, level.switches, height == 0 ? "leaf" : "spine"));
}

}  // namespace

std::vector<std::string> findings(const Topology& machine) {
  std::vector<std::string> found;
  const auto& catalog = Catalog::shipped();
  if (!catalog) return found;
  const auto gpus = machine.devices_of(DeviceKind::kGpu);
  const auto unnamed = std::ranges::count_if(gpus, [&](DeviceId gpu) { return machine.device(gpu).model.empty(); });
  if (unnamed > 0)
    found.push_back(
        fmt::format("{} of {} have no model: constants of no vendor are used, and NCCL's tuner needs FILE:gpu=MODEL "
                    "(weft catalog lists models)",
                    unnamed, counted(gpus.size(), "GPU")));
  std::set<std::string_view> models;
  for (const DeviceId gpu : gpus) models.insert(machine.device(gpu).model);
  std::set<std::string> vendors;  // the first word of a part's title
  for (const std::string_view model : models)
    if (const Part* part = catalog->find(model)) vendors.insert(part->title.substr(0, part->title.find(' ')));
  if (vendors.size() > 1)
    found.push_back(
        fmt::format("GPUs of {}: none of these vendors' libraries runs over both; weft's schedules are timed "
                    "as if one did",
                    fmt::join(vendors, " and ")));
  std::set<std::string> assumed;  // what a reader of the machine's file had to guess
  for (const Device& device : machine.devices())
    if (const auto fact = device.facts.get("assumed"); !fact.empty()) assumed.emplace(fact);
  found.insert(found.end(), assumed.begin(), assumed.end());
  of_nvlinks(machine, *catalog, found);
  of_oversubscription(machine, found);
  std::vector<std::string> without_rate;
  for (const DeviceId nic : machine.devices_of(DeviceKind::kNic))
    if (machine.device(nic).port_rate.value() <= 0) without_rate.push_back(machine.name_of(nic));
  constexpr std::size_t kMostNames = 8;
  if (!without_rate.empty()) {
    const std::size_t all = without_rate.size();
    without_rate.resize(std::min(all, kMostNames));
    found.push_back(fmt::format("no rate is listed of {} ({}{})", counted(all, "NIC"), fmt::join(without_rate, ", "),
                                all > kMostNames ? ", …" : ""));
  }
  return found;
}

}  // namespace weft::topology
