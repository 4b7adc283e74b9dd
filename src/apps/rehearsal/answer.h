#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/rehearsal/hints.h"
#include "apps/rehearsal/kinds.h"
#include "apps/rehearsal/prices.h"
#include "apps/rehearsal/run.h"

namespace weft::rehearsal {

// The answer of `weft rehearse` for a job on a machine.
struct Answer {
  Outcome outcome;
  std::vector<RankKind> kinds;
  std::vector<Rank> missing;
  std::vector<Note> notes;  // of all ranks, each once
  std::vector<Hint> hints;
  std::vector<Held> held;             // of the rank that needs most, by category; module: its largest one
  Bytes allocated = 0, reserved = 0;  // peaks of the rank that needs most
  Rank largest = -1;                  // that rank
  double capacity = 0;                // bytes of a card that tensors can have
  double peak_flops = 0;              // of a card, 16 bit
  const RankTime* slowest = nullptr;  // by step, or by the whole run where there are no steps
  double mfu = 0;                     // of the slowest rank's step; 0: no step
};

// Errors (bad input): more ranks than the machine has GPUs; those of the simulator.
Result<Answer> answer(const Job& job, Prices& prices);

// weft.rehearsed/1.
nlohmann::json to_json(const Job& job, const Answer& answer, const std::string& machine);

}  // namespace weft::rehearsal
