#pragma once

#include <memory>
#include <string>

#include "base/env.h"
#include "cost/machine_view.h"
#include "tune/tune.h"
#include "weft/communicator.h"

namespace weft::api {

// The question that a request on this machine's cores poses to the tuner.
tune::Question question_of(const schedule::Task& task, const Request& request, const protocol::Capabilities& can,
                           bool registered);

// A forced name that nothing has is a mistake, not a wish that some calls cannot serve. Errors (bad input): WEFT_ALGO
// or WEFT_PROTO with its value.
Status check_forced(const env::Settings& settings);

// Joins a job of processes on this machine. `machine` is shared by everything that chooses; it must be made from the
// same rates on all ranks. Errors: see net::shm::attach.
Result<Communicator> join(const env::Settings& settings, std::shared_ptr<const cost::MachineView> machine);

// All ranks of a job of threads.
Result<std::vector<Communicator>> open_threads(Rank ranks, const env::Settings& settings,
                                               std::shared_ptr<const cost::MachineView> machine);

}  // namespace weft::api
