#pragma once

#include <optional>
#include <string>

#include "machine/detect/host_facts.h"
#include "machine/detect/host_probe.h"
#include "machine/topology.h"

namespace weft::topology {

// Rates that the operating system does not report and that have to be measured.
struct MeasuredRates {
  BytesPerSecond memory;  // one NUMA node's DRAM
  BytesPerSecond core;    // one core copying to or from the cache it shares with the others
  Duration core_to_core;  // one cache line from a core to another of the same CPU, one way
  std::string source;     // the run that measured them, e.g. "weft calibrate 2026-11-21"
};

// Where the ranks of a job sit: on the GPUs where there are any, or on the cores even so (processes that use no GPU).
enum class Endpoints { kGpusOrCores, kCores };

// The machine a probe describes, titled "this": its NUMA nodes (or sockets, where those are more) as CPUs with their
// memory, PCI bridges, NICs, and the endpoints: GPUs or cores, never both. Links between CPUs are the catalogue's for
// that CPU model; a PCIe link whose speed is not reported counts as PCIe 3.0 x16.
// Errors: those of the probe; bad input: a measured rate of 0, no core.
Result<Topology> detect(const HostProbe& probe, const std::optional<MeasuredRates>& rates,
                        Endpoints endpoints = Endpoints::kGpusOrCores, const HostFacts& facts = {});

}  // namespace weft::topology
