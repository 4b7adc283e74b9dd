#include "machine/detect/hwloc_nvlinks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>

namespace weft::topology {
namespace {

constexpr std::size_t kMostObjects = 1024;

// Words of all children of this name: hwloc cuts long lists into several elements.
std::vector<std::string> words_of(pugi::xml_node matrix, const char* name) {
  std::vector<std::string> words;
  for (const pugi::xml_node part : matrix.children(name)) {
    std::istringstream text(part.text().get());
    for (std::string word; text >> word && words.size() <= kMostObjects * kMostObjects;) words.push_back(word);
  }
  return words;
}

// PCI devices by hwloc's number of them or of what the operating system makes of them ("nvml0").
std::map<std::string, pugi::xml_node> pci_devices(const XmlFile& file) {
  struct Walker : pugi::xml_tree_walker {
    std::map<std::string, pugi::xml_node> found;
    bool for_each(pugi::xml_node& node) override {
      if (std::strcmp(node.name(), "object") != 0) return true;
      for (pugi::xml_node at = node; at; at = at.parent())
        if (std::strcmp(at.attribute("type").value(), "PCIDev") == 0) {
          found[node.attribute("gp_index").value()] = at;
          break;
        }
      return true;
    }
  } walker;
  file.root().traverse(walker);
  return walker.found;
}

// One object of the matrix.
struct Object {
  std::string bus;
  bool nvswitch = false;
  const Part* gpu = nullptr;
  double link_rate = 0;  // MB/s of one of its NVLinks
};

Object object_of(pugi::xml_node pci, const Catalog& catalog) {
  Object o{.bus = pci.attribute("pci_busid").value()};
  const std::string type = pci.attribute("pci_type").value();  // "0302 [10de:1db8] [10de:131d] a1 00"
  constexpr std::size_t kId = 6, kLength = 9;
  if (type.size() < kId + kLength) return o;
  o.nvswitch = type.starts_with("0680");
  o.gpu = catalog.find("accelerator", "pci", type.substr(kId, kLength));
  if (o.gpu == nullptr || !o.gpu->facts.contains("sm")) return o;
  if (const Part* part = catalog.find("nvlink", "sm", o.gpu->facts.at("sm")))
    if (const auto link = catalog.link(part->name, 1)) o.link_rate = link->rate_ab.value() * 1e-6;
  return o;
}

}  // namespace

std::vector<HostFacts::Gpu> nvlinks_of(const XmlFile& file, const Catalog& catalog) {
  pugi::xml_node matrix;
  for (const pugi::xml_node child : file.root().children())
    if (std::strcmp(child.attribute("name").value(), "NVLinkBandwidth") == 0) matrix = child;
  if (!matrix) return {};
  const std::vector<std::string> indexes = words_of(matrix, "indexes"), values = words_of(matrix, "u64values");
  const std::size_t n = indexes.size();
  if (n > kMostObjects || values.size() != n * n) return {};
  const auto devices = pci_devices(file);
  std::vector<Object> objects(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto colon = indexes[i].find(':');  // "OSDev:802", or "802" where all are of one type
    const auto at = devices.find(colon == std::string::npos ? indexes[i] : indexes[i].substr(colon + 1));
    if (at != devices.end()) objects[i] = object_of(at->second, catalog);
  }
  std::vector<HostFacts::Gpu> gpus;
  for (std::size_t i = 0; i < n; ++i) {
    const Object& own = objects[i];
    if (own.link_rate <= 0) continue;
    HostFacts::Gpu gpu{.bus_id = own.bus, .sm = own.gpu->facts.at("sm"), .peers = {}};
    for (std::size_t j = 0; j < n; ++j) {
      const double rate = std::strtod(values[i * n + j].c_str(), nullptr);
      const auto links = static_cast<std::int32_t>(std::lround(std::min(rate / own.link_rate, 1000.0)));
      if (i == j || links < 1) continue;
      if (objects[j].nvswitch) gpu.switch_links += links;
      if (objects[j].link_rate > 0) gpu.peers.emplace_back(objects[j].bus, links);
    }
    if (gpu.switch_links > 0 || !gpu.peers.empty()) gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace weft::topology
