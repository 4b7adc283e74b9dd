#include "base/embedded.h"
#include "base/text.h"
#include "cli/commands.h"
#include "topology/catalog/catalog.h"
#include "topology/import/nccl_xml_write.h"
#include "topology/machine.h"
#include "topology/render/matrix.h"
#include "topology/render/svg.h"
#include "topology/topology_json.h"

namespace weft::cli {
namespace {

struct Spec {
  std::string on, svg, xml, json;
  bool matrix = false;
};

constexpr const char* kExamples = R"(
Without an option: a summary. The machine is a preset (weft catalog lists them), a preset with options, an NCCL topology
XML file, or, without --on, the one at hand.

Examples:
  weft topo                                                this machine
  weft topo --on dgx-h100 --matrix                         who reaches whom, as nvidia-smi topo -m prints it
  weft topo --on dgx-h100:nodes=16,net=ib-ndr --svg h100.svg
  weft topo --on node.xml --json -                         an NCCL dump as weft.topology/1
)";

void summarise(const topology::Topology& t) {
  std::map<std::string_view, int> devices, links;
  for (const auto& d : t.devices()) ++devices[topology::name(d.kind)];
  for (const auto& l : t.links()) ++links[topology::name(l.kind)];
  fmt::print("{}: {} node{}, {} ranks\n", t.title, t.nodes(), t.nodes() == 1 ? "" : "s", t.endpoints().size());
  for (const auto& [kind, n] : devices) fmt::print("  {:>7} {}\n", n, kind);
  for (const auto& [kind, n] : links) fmt::print("  {:>7} {} links\n", n, kind);
}

Result<int> run(const Spec& spec) {
  WEFT_TRY(const Machine machine, load_machine(spec.on));
  const topology::Topology& t = machine.view->topology();
  if (spec.matrix) fmt::print("{}", topology::matrix_text(t));
  if (!spec.svg.empty()) WEFT_CHECK(write_text(spec.svg, topology::svg(t)));
  if (!spec.xml.empty()) {
    WEFT_TRY(const auto catalog, topology::Catalog::load(embedded::files()));
    WEFT_TRY(const std::string xml, topology::to_nccl_xml(catalog, t, 0));
    WEFT_CHECK(write_text(spec.xml, xml));
  }
  if (!spec.json.empty()) WEFT_CHECK(write_text(spec.json, topology::to_json(t) + "\n"));
  if (!spec.matrix && spec.svg.empty() && spec.xml.empty() && spec.json.empty()) summarise(t);
  return 0;
}

Result<int> list_catalog(const std::string& json) {
  const auto presets = topology::presets();
  if (!json.empty()) {
    nlohmann::json entries = nlohmann::json::array();
    for (const auto& p : presets) entries.push_back({{"name", p.name}, {"summary", p.summary}, {"source", p.source}});
    WEFT_CHECK(write_json(json, {{"schema", "weft.catalog/1"}, {"presets", entries}}));
    if (json == "-") return 0;
  }
  fmt::print("this           the machine at hand\n");
  for (const auto& p : presets) fmt::print("{:<14} {}\n{:<14}   source: {}\n", p.name, p.summary, "", p.source);
  return 0;
}

}  // namespace

Command add_topo(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("topo", "Show a machine: summary, matrix, picture, or file");
  sub->add_option("--on", spec->on, "a preset, a preset with options, or a file (default: this machine)");
  sub->add_flag("--matrix", spec->matrix, "print the matrix of path types");
  sub->add_option("--svg", spec->svg, "draw it into this file");
  sub->add_option("--xml", spec->xml, "write NCCL topology XML of its first node");
  sub->add_option("--json", spec->json, "write weft.topology/1 to this file; - is stdout");
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }};
}

Command add_catalog(CLI::App& app) {
  auto json = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("catalog", "List the machines that --on knows, with their sources");
  sub->add_option("--json", *json, "write weft.catalog/1 to this file; - is stdout");
  sub->footer("\nExample:\n  weft catalog\n");
  return {sub, [json] { return list_catalog(*json); }};
}

}  // namespace weft::cli
