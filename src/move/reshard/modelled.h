#pragma once

#include "model/replay/run.h"
#include "move/reshard/plan.h"
#include "plan/cost/machine_view.h"

namespace weft::reshard {

// A plan on a modelled machine: receivers get what they want from one sender after the other, all at once.
struct Modelled {
  replay::Outcome outcome;
  struct Nic {
    std::string name;
    std::int64_t out = 0, in = 0;  // bytes that leave the machine through it, and enter
  };
  std::vector<Nic> nics;  // those with traffic
};

// The rank of the machine that rank r of a plan's receiving layout is. Senders are the machine's first ranks; receivers
// follow them, or are the same where the plan says so.
Rank machine_rank_of_receiver(const Plan& plan, Rank receiver);
Rank machine_ranks(const Plan& plan);

// The plan as a one-sided program: one get per pair of ranks that are not one process. `changed` > 0: a version of
// which receivers have all but this share of the bytes: a get of the sender's table, and one of the share.
pgas::Program program_of(const Plan& plan, double changed = 0);

// How long that program takes. Errors: as of model().
Result<Duration> model_changes(const cost::MachineView& machine, const Plan& plan, double changed);

// Errors (bad input): fewer endpoints than the plan has ranks, and those of replay::run_on.
Result<Modelled> model(const cost::MachineView& machine, const Plan& plan);

}  // namespace weft::reshard
