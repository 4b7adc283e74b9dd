#include "machine/import/nccl_graph.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "base/xml_file.h"
#include "machine/import/matrix_machine.h"

namespace weft::topology {
namespace {

using Way = ClassMatrix::Way;

constexpr std::int64_t kMostGpus = 1024;

std::string pattern_name(std::int64_t pattern) {
  // NCCL_TOPO_PATTERN_* of NCCL's graph.h
  constexpr std::string_view kNames[] = {"?", "balanced tree", "split tree", "tree", "ring", "NVLS", "CollNet"};
  return std::string(pattern >= 0 && pattern < 7 ? kNames[pattern] : "?");
}

Result<BytesPerSecond> speed(const XmlFile& file, pugi::xml_node node, const char* key) {
  const std::string_view text = node.attribute(key).value();
  double value = 0;
  const auto [rest, error] = read_number(text, value);
  if (text.empty() || error != std::errc{} || !(value >= 0) || value > 1e6)
    return bad_input("{}: {} '{}' is no rate in GB/s", file.where(node), key, text);
  return BytesPerSecond::gigabytes(value);
}

Result<NcclGraph> read_graph(const XmlFile& file, pugi::xml_node node) {
  NcclGraph graph;
  WEFT_TRY(const std::int64_t id, file.integer(node, "id", 0, 1'000, 0));
  WEFT_TRY(const std::int64_t pattern, file.integer(node, "pattern", 0, 1'000, 0));
  graph.id = static_cast<std::int32_t>(id);
  graph.pattern = pattern_name(pattern);
  graph.intra = node.attribute("typeintra").value();
  graph.inter = node.attribute("typeinter").value();
  WEFT_TRY(graph.speed_intra, speed(file, node, "speedintra"));
  WEFT_TRY(graph.speed_inter, speed(file, node, "speedinter"));
  std::set<std::int32_t> nics;
  for (const pugi::xml_node channel : node.children("channel")) {
    std::vector<std::int32_t> order;
    for (const pugi::xml_node member : channel.children()) {
      WEFT_TRY(const std::int64_t dev, file.integer(member, "dev", 0, INT32_MAX, 0));
      if (std::string_view(member.name()) == "net") nics.insert(static_cast<std::int32_t>(dev));
      if (std::string_view(member.name()) != "gpu") continue;
      if (dev >= kMostGpus) return bad_input("{}: GPU {} of at most {}", file.where(member), dev, kMostGpus);
      if (std::ranges::find(order, dev) != order.end())
        return bad_input("{}: GPU {} is twice in one channel", file.where(member), dev);
      order.push_back(static_cast<std::int32_t>(dev));
    }
    if (!order.empty()) graph.channels.push_back(std::move(order));
  }
  graph.nics.assign(nics.begin(), nics.end());
  return graph;
}

Way way_of(std::string_view type) {
  if (type == "NVL" || type == "NVB" || type == "C2C" || type == "LOC") return Way::kScaleUp;
  if (type == "PIX") return Way::kPix;
  if (type == "PXB" || type == "PXN" || type == "P2C") return Way::kPxb;
  if (type == "PHB") return Way::kPhb;
  return Way::kSys;
}

}  // namespace

bool is_nccl_graph(std::string_view text) { return text.find("<graphs") != std::string_view::npos; }

Result<std::vector<NcclGraph>> parse_nccl_graphs(std::string_view name, std::string_view text) {
  WEFT_TRY(const XmlFile file, XmlFile::parse(name, text));
  if (std::string_view(file.root().name()) != "graphs")
    return bad_input("{}: <{}> where NCCL's <graphs> are expected", file.where(file.root()), file.root().name());
  std::vector<NcclGraph> graphs;
  for (const pugi::xml_node node : file.root().children("graph")) {
    WEFT_TRY(NcclGraph graph, read_graph(file, node));
    if (!graph.channels.empty()) graphs.push_back(std::move(graph));
  }
  if (graphs.empty()) return bad_input("{}: no graph has a channel with a GPU", file.where(file.root()));
  return graphs;
}

Result<Topology> machine_of_graphs(const Catalog& catalog, std::string_view name, std::string_view text) {
  WEFT_TRY(const std::vector<NcclGraph> graphs, parse_nccl_graphs(name, text));
  const NcclGraph& first = graphs.front();
  std::set<std::int32_t> gpus;
  for (const auto& channel : first.channels) gpus.insert(channel.begin(), channel.end());
  ClassMatrix matrix;
  for ([[maybe_unused]] const std::int32_t gpu : gpus) matrix.entries.emplace_back();
  for (const std::int32_t nic : first.nics) {
    ClassMatrix::Entry entry;
    entry.kind = DeviceKind::kNic;
    entry.facts.set("dev", std::to_string(nic));
    matrix.entries.push_back(std::move(entry));
  }
  matrix.resize();
  // The number of links that the channels' rates need, 25 GB/s each.
  const double rate = first.speed_intra.gb() * static_cast<double>(first.channels.size());
  const auto links = static_cast<std::int32_t>(std::clamp(rate / 25, 1.0, 64.0));
  for (std::size_t i = 0; i < matrix.entries.size(); ++i)
    for (std::size_t j = 0; j < matrix.entries.size(); ++j) {
      if (i == j) continue;
      const bool nic = i >= gpus.size() || j >= gpus.size();
      // A NIC is near to one GPU only; the graph does not name it, so all of them count as far.
      matrix.cells[i][j] = nic ? ClassMatrix::Cell{Way::kNone, 1} : ClassMatrix::Cell{way_of(first.intra), links};
    }
  return machine_of(catalog, name, matrix);
}

}  // namespace weft::topology
