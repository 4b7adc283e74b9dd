#pragma once

#include <string>

#include "plan/cost/machine_view.h"

namespace weft::cost {

// A tier below the GPUs' own memory: the host's DRAM, or `count` parts of the catalogue's kind "memory" per node, below
// the host's processors (CXL expanders, NVMe drives).
struct Tier {
  std::string part;  // empty: the host's DRAM
  int count = 1;
};
// "dram", "nvme-gen5", "cxl2-x8*2". Errors (bad input): no such part, a count below 1.
Result<Tier> parse_tier(const std::string& text);

struct Reload {
  Duration time;
  Duration latency;   // the part of it that does not depend on the bytes
  std::string bound;  // what limits it, e.g. "nvme-gen5*4", "PCIe link of gpu0"
};

// How the bytes go between GPUs and a tier.
struct TierWay {
  bool write = false;
  // Through a buffer in the host's memory, which they enter and leave, instead of from device to device (GPUDirect
  // Storage). Blocks of 1 MiB, the buffer of cuFile (per_buffer_cache_size_kb of its cufile.json): a block leaves when
  // it is complete. Means nothing of the host's memory itself.
  bool bounce = false;
};

// The first `ranks` GPUs of one node read `rank_bytes` each out of a tier, or write them, all at once: the first byte's
// latency, and the bytes over the link or part with most of them for its rate. A part without a rate for writing is
// written as fast as it is read. Rates are those of the topology and the catalogue,
// times the share of a path that is payload (hop_costs.json). Errors (bad input): more ranks than a node has, no host
// memory in the topology.
Result<Reload> reload(const MachineView& machine, const Tier& tier, Rank ranks, Bytes rank_bytes, TierWay way = {});

}  // namespace weft::cost
