#pragma once

#include <string>
#include <vector>

#include "plan/tune/nccl/system.h"
#include "weft/types.h"

namespace weft::tune::nccl {

// One algorithm with one protocol, as NCCL's model sees it for one message.
struct Row {
  Algorithm algorithm = Algorithm::kRing;
  protocol::Protocol protocol = protocol::Protocol::kSimple;
  bool possible = false;
  bool timed = true;    // else NCCL compares nothing: latency, rate and time are nothing
  std::string reason;   // why not, if not possible
  Duration latency;     // whatever the message's size
  BytesPerSecond rate;  // of the message ("algorithm bandwidth")
  Duration time;        // what NCCL compares, corrections included
  int channels = 0;     // it would launch
  int threads = 0;      // per channel
  Bytes slice = 0;      // the most that goes as one message, see chunks.h
  Duration staging;     // what copying through NCCL's buffers, or the start of a group, adds; not in `time`
  bool chosen = false;  // the first with the least time
};

// All but barriers. NCCL's tuner compares algorithms for all_reduce, all_gather, reduce_scatter, broadcast and reduce;
// for the others see grouped.h.
bool models(Collective collective);

// Everything that NCCL compares for a message of `bytes` (of the larger side), in its order. At most one row is chosen;
// none if nothing is possible. Requires: models(collective).
// Source: NCCL 2.30.7, src/graph/tuning.cc and src/enqueue.cc; what releases from 2.19 on do otherwise: constants.h.
std::vector<Row> rows(const System& system, Collective collective, Bytes bytes);

}  // namespace weft::tune::nccl
