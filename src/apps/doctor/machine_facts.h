#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "machine/topology.h"

namespace weft::doctor {

// What is wrong with a machine that a file describes: the id of a rule, a sentence, a line (0: of the whole file).
struct MachineFact {
  std::string rule, text;
  int line = 0;
};

// What is judged: GPUs with fewer NVLinks than their siblings or none, NICs far from their GPUs, PCIe links narrower or
// slower than those of the same model, ACS and IOMMU, NICs without GPUDirect RDMA, GPUs of two sockets without NVLink.
// Empty: a machine whose devices are alike and near each other.
std::vector<MachineFact> judge(const topology::Topology& machine);

// The same of a text, if it is a topology: NCCL's or hwloc's XML, nvidia-smi topo -m and -p2p, rocm-smi, amd-smi,
// weft's JSON. Empty for every other text, and for one that cannot be read.
// `judged`: gets what was judged, as in devices_of.
std::vector<MachineFact> machine_facts(const std::string& file, std::string_view text, std::string* judged = nullptr);

// "8 GPUs, 4 NICs"
std::string devices_of(const topology::Topology& machine);

}  // namespace weft::doctor
