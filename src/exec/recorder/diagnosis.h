#pragma once

#include <string>
#include <vector>

#include "exec/recorder/snapshot.h"

namespace weft::recorder {

// What a rank does, as its record and the system say.
enum class Doing { kUnrecorded, kEnded, kStopped, kIdle, kRunning, kWaiting };

// A rank that keeps others waiting without waiting itself.
struct Late {
  Rank rank = -1;
  int behind = 0;   // ranks that wait for it, directly or through others
  std::string why;  // "stopped by a signal, in all_reduce #12"
};

// One communicator, seen from outside.
struct Standing {
  std::string job, group, transport;
  std::vector<const Snapshot*> ranks;  // by rank; null: no record
  std::vector<Doing> doing;
  std::vector<Late> late;    // most ranks behind first
  std::vector<Rank> circle;  // ranks that wait for each other
  std::string disagreement;  // of ranks in a circle: calls that differ; empty: none seen
};

// The communicators among `snapshots`, which must outlive the answer and be in order (see read_folder).
std::vector<Standing> standings(const std::vector<Snapshot>& snapshots);

}  // namespace weft::recorder
