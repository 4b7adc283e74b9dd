#pragma once

#include <string>
#include <vector>

#include "base/name_filter.h"
#include "plan/cost/estimate.h"

namespace weft::tune {

// What a choice is made for.
struct Question {
  schedule::Task task;
  protocol::Capabilities can;  // of the fabric
  bool registered = true;      // peers reach the caller's buffers; otherwise load/store goes through scratch
  bool in_order = false;       // only algorithms whose sums are the same bits on any fabric
  bool nvswitch_combines = true, sharp_combines = true;  // this type by this operation
  // Forced; empty or 0: free.
  std::string algorithm, protocol;
  int channels = 0;
  // Of what is not forced: algorithms and protocols that may be chosen, and bounds of the number of channels, 0: none.
  NameFilter algorithms = {}, protocols = {};
  int least_channels = 0, most_channels = 0;
  Bytes most_slice = 0;  // of data in one message of protocol Simple; 0: what slots hold
  Bytes slice = 0;       // of data in one message, at most
  Duration staging;      // of every plan, see there
};

// One way to do it: an algorithm with a protocol, and the number of channels that suits them best.
struct Candidate {
  schedule::Plan plan;
  cost::Estimate estimate;  // valid if possible, as the next
  Duration back_to_back;    // the time of one of many back-to-back calls; at most that of one alone
  bool possible = false;
  bool chosen = false;
  std::string reason;  // why it was chosen, why it lost, or why it cannot serve; one line
};

// All candidates, the fastest first, the impossible last; the first possible one is chosen.
// Errors (bad input): a forced algorithm, protocol or channel count that does not exist.
Result<std::vector<Candidate>> candidates(const cost::MachineView& machine, const Question& question);

// Every plan, with its algorithm, protocol, number of channels and slices, whose estimate is at most `slack` times the
// least of all; those with the least estimates first. Errors: as choose.
Result<std::vector<Candidate>> plans(const cost::MachineView& machine, const Question& question, double slack);

// The chosen one. Errors: as above; kUnsupported if nothing is possible, with the reason.
Result<Candidate> choose(const cost::MachineView& machine, const Question& question);

}  // namespace weft::tune
