#include "machine/import/machine_file.h"

#include "base/job_text.h"
#include "machine/import/iblinkinfo.h"
#include "machine/import/ibnetdiscover.h"
#include "machine/import/lstopo.h"
#include "machine/import/nccl_graph.h"
#include "machine/import/nccl_log.h"
#include "machine/import/nccl_xml.h"
#include "machine/import/node_labels.h"
#include "machine/import/nvidia_smi.h"
#include "machine/import/rocm_smi.h"
#include "machine/import/slurm.h"
#include "machine/import/text_lines.h"
#include "machine/topology_json.h"

namespace weft::topology {

Result<MachineFile> parse_machine_file(const Catalog& catalog, std::string_view name, std::string_view text,
                                       std::string_view topology) {
  const auto machine = [](Result<Topology> topology) -> Result<MachineFile> {
    if (!topology) return tl::make_unexpected(topology.error());
    return MachineFile{std::move(*topology), {}, {}};
  };
  if (is_slurm_yaml(text)) {
    WEFT_TRY(NetworkTree tree, parse_slurm_yaml(name, text, topology));
    return MachineFile{{}, std::move(tree), {}};
  }
  if (!topology.empty()) return bad_input("topology={}: only Slurm's topology.yaml has several topologies", topology);
  if (is_node_labels(text)) {
    WEFT_TRY(NetworkTree tree, parse_node_labels(name, text));
    return MachineFile{{}, std::move(tree), {}};
  }
  const std::string_view start = trimmed(text);
  // A log in lines of JSON, as docker's driver writes it, is text by now, whatever its name is.
  const bool xml = start.starts_with('<') || name.ends_with(".xml"),
             json = start.starts_with('{') || start.starts_with('[');
  if (json) return machine(from_json(name, text));
  if (xml)
    return machine(is_nccl_graph(text) ? machine_of_graphs(catalog, name, text) : parse_nccl_xml(catalog, name, text));
  if (is_ibnetdiscover(text)) {
    WEFT_TRY(IbFabric fabric, parse_ibnetdiscover(name, text));
    return MachineFile{{}, std::move(fabric.tree), std::move(fabric.network)};
  }
  if (is_iblinkinfo(text)) {
    WEFT_TRY(IbFabric fabric, parse_iblinkinfo(name, text));
    return MachineFile{{}, std::move(fabric.tree), std::move(fabric.network)};
  }
  if (is_slurm_topology(text)) {
    WEFT_TRY(NetworkTree tree, parse_slurm(name, text));
    return MachineFile{{}, std::move(tree), {}};
  }
  if (is_lstopo(text)) return machine(parse_lstopo(catalog, name, text));
  if (is_rocm_smi(text)) return machine(parse_rocm_smi(catalog, name, text));
  if (is_nvidia_smi(text)) return machine(parse_nvidia_smi(catalog, name, text));
  if (is_nccl_log(text)) return machine(parse_nccl_log(catalog, name, text));
  if (name.ends_with(".json")) return machine(from_json(name, text));
  return bad_input(
      "{}:1: none of the forms weft reads: NCCL topology XML, weft JSON, nvidia-smi topo -m, rocm-smi --showtopo, "
      "hwloc XML and lstopo, Slurm topology.conf and topology.yaml, ibnetdiscover and iblinkinfo, NCCL's log of its "
      "paths "
      "(NCCL_DEBUG_SUBSYS=GRAPH), labels of Kubernetes nodes",
      name);
}

Result<MachineFile> read_machine_file(const Catalog& catalog, const std::filesystem::path& file,
                                      std::string_view topology) {
  WEFT_TRY(const std::string text, read_job_text(file));
  return parse_machine_file(catalog, file.filename().string(), text, topology);
}

}  // namespace weft::topology
