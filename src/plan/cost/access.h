#pragma once

#include <optional>
#include <string>

#include "plan/cost/machine_view.h"
#include "plan/cost/reload.h"

namespace weft::cost {

// How a rank uses an array that a peer owns: `reuse` times it reads `fraction` of the array's cache lines.
struct Access {
  Bytes bytes = 0;
  double fraction = 1;  // above 0, at most 1
  std::int64_t reuse = 1;
  // What the reader's cache keeps of a peer's memory. Between GPUs nothing: their links are not coherent, so the home
  // of a line is its owner's cache.
  Bytes cache = 0;
  // The computation of each use. Loads by pointer stall it; a copy in a stream, block by block, runs beside the first.
  Duration work = {};
};

// By pointer: every use loads from the peer, but for the uses that the reader's cache serves: of lines that all fit
// there, every use after the first. By get: the whole array is copied once, and every use loads the copy.
struct AccessAdvice {
  bool pointer_possible = false;
  std::string path;  // between the two, or why there is no pointer: "NVL, 371 GB/s", "NET: no loads across a network"
  Duration pointer, get;  // all uses; pointer means nothing without pointer_possible
  // One use by pointer, the copy, one use of the copy; each without the work.
  Duration use_there, copy, use_here;
  bool cached = false;  // uses by pointer after the first are served by the reader's cache
  Duration hidden;      // the part of the copy that the work of the first use hides
  bool get_wins = false;
  // Get wins from this many uses on, at these bytes; from this many bytes on, at this reuse (a power of two); empty:
  // never.
  std::optional<std::int64_t> from_uses;
  std::optional<Bytes> from_bytes;
};

// Why `reader` cannot load and store the memory of `owner`; empty: it can.
std::string no_pointer(const MachineView& machine, Rank reader, Rank owner);

// Counted from the path's rate and latency, the memory's rate and the costs of data/protocol/access_costs.json.
// Requires: two different ranks. Errors (bad input): the ranks have no path; accelerators whose memory's rate the
// catalogue does not have.
Result<AccessAdvice> advise(const MachineView& machine, Rank reader, Rank owner, const Access& access);

// A GPU uses an array that the host manages (CUDA's unified memory, AMD's and Intel's SVM), which lies in a tier below
// its processors. Loads: every use reads it where it is; over a coherent link (NVLink-C2C, Infinity Fabric to the CPU)
// the GPU's cache keeps its lines. Faults: the pages that the first use touches migrate, then uses are local. Prefetch:
// the array is copied before (cudaMemPrefetchAsync), then uses are local.
enum class UnifiedWay : std::uint8_t { kLoads, kFaults, kPrefetch };
struct UnifiedAdvice {
  std::string path;                              // "PHB, 50 GB/s, PCIe link pcie-switch0-cpu0"
  bool coherent = false, loads_possible = true;  // drives are not loaded from
  Duration first, again;                         // a use by loads; a later one
  Duration faulting, prefetch;                   // before uses are local
  Duration local;                                // a use then
  Duration hidden;                               // the part of a prefetch that the work of the first use hides
  // What is used fits in the GPU's memory of `card` bytes; else pages go and come with every use, and loads are best.
  bool fits = true;
  Bytes card = 0;     // 0: the catalogue does not say
  Duration total[3];  // all uses, by UnifiedWay
  UnifiedWay best = UnifiedWay::kLoads;
  std::optional<std::int64_t> prefetch_from_uses,
      faults_from_uses;  // cheaper than loads from this many on; empty: never
};
// Errors (bad input): a machine without GPUs; see reload() and advise().
Result<UnifiedAdvice> advise_unified(const MachineView& machine, Rank reader, const Access& access, const Tier& tier);

// What it costs two ranks to agree by memory. Where links are coherent a look at a flag is served by the reader's own
// cache until the flag is written; elsewhere every look crosses the link.
struct FlagCosts {
  bool coherent = false;
  Duration look;   // one poll
  Duration seen;   // from the write to the poll that sees it, on average
  Duration fence;  // of the writer, that orders its data before the flag
};
// `with`: another rank's memory, or below 0 the memory of the host.
FlagCosts flag_costs(const MachineView& machine, Rank reader, Rank with);

}  // namespace weft::cost
