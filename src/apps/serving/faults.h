#pragma once

#include <span>
#include <string>
#include <vector>

#include "apps/serving/point.h"

namespace weft::serving {

// What users see with something broken, beside the same engines whole. GPUs that are gone take their engine with them,
// and its share of the load goes to the others; slow links, NICs and GPUs slow the engines on their nodes.
struct Faulted {
  int engines = 1, lost = 0, slowed = 0;
  Point whole;
  Point left;            // of the engines that work as before, under their new share of the load
  Point slow;            // of those that are slowed
  Quantiles ttft, tpot;  // over all requests
  double tokens = 0;     // output tokens/s of all engines, of those that whole ones make (1: as many)
  // Where engines are lost under a rate: requests that wait when they are back, and s from the fault until the queue is
  // empty again; below 0: never.
  double waiting = 0, empty_again = 0;
};

// `restart`: s until lost engines are back. Errors (bad input): those of simulate::apply_faults and answer; prefill and
// decode apart; no engine is left.
Result<Faulted> answer_with_faults(const cost::MachineView& machine, const Question& question,
                                   std::span<const std::string> faults, double restart);

}  // namespace weft::serving
