#pragma once

#include <string>

#include "plan/cost/machine_view.h"

namespace weft::replay {

// `ranks` GPUs hand a cache over to as many others, rank by rank and all at once: from prefill to decode.
struct HandOver {
  Rank ranks = 1;
  bool within_node = false;  // to the next GPUs of the node; else to those of the next node
  Bytes rank_bytes = 0;
  std::string stack = "weft";  // or a system of access_costs.json, with its time before the first byte
};

struct HandedOver {
  Duration time;
  std::string busiest_link;
};

// In virtual time: one put per rank. Errors (bad input): the machine has not as many GPUs or nodes, no such stack.
Result<HandedOver> hand_over(const cost::MachineView& machine, const HandOver& what);

}  // namespace weft::replay
