#include "machine/catalog/switches.h"

namespace weft::topology {
namespace {

std::string fact(const Catalog& catalog, std::string_view part_name, const std::string& key) {
  const Part* part = catalog.find(part_name);
  if (part == nullptr) return "";
  const auto at = part->facts.find(key);
  return at != part->facts.end() ? at->second : "";
}

}  // namespace

bool part_reduces(const Catalog& catalog, std::string_view switch_part) {
  return fact(catalog, switch_part, "reduce") == "yes";
}

void describe_scale_up_switches(const Catalog& catalog, Topology& topology) {
  bool sums = false;  // of a domain of two levels the upper ones, which come later, join switches only
  for (DeviceId id = 0; id < static_cast<DeviceId>(topology.devices().size()); ++id) {
    const Device& device = topology.device(id);
    if (device.kind != DeviceKind::kNvSwitch || !device.facts.get("reduces").empty()) continue;
    for (const LinkId link : topology.links_of(id)) {
      const Device& other = topology.device(topology.other_end(link, id));
      if (other.kind != DeviceKind::kGpu) continue;
      sums = part_reduces(catalog, fact(catalog, fact(catalog, other.model, "link"), "switch"));
      break;
    }
    topology.set_fact(id, "reduces", sums ? "yes" : "no");
  }
}

}  // namespace weft::topology
