#pragma once

#include <optional>
#include <string>

#include "plan/cost/machine_view.h"

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

// Counted from the path's rate and latency, the memory's rate and the costs of data/protocol/access_costs.json.
// Requires: two different ranks. Errors (bad input): the ranks have no path; accelerators whose memory's rate the
// catalogue does not have.
Result<AccessAdvice> advise(const MachineView& machine, Rank reader, Rank owner, const Access& access);

}  // namespace weft::cost
