#pragma once

#include <memory>

#include "base/env.h"
#include "cost/machine_view.h"
#include "session/session.h"
#include "tune/tune.h"

namespace weft::api {

// The question that a request on this machine's cores poses to the tuner.
tune::Question question_of(const schedule::Task& task, const Request& request, const protocol::Capabilities& can,
                           bool registered);

// A forced name that nothing has is a mistake, not a wish that some calls cannot serve. Errors (bad input): WEFT_ALGO
// or WEFT_PROTO with its value.
Status check_forced(const env::Settings& settings);

// Chooses by the machine. What the environment forces holds for the calls that it can serve; a call's own wishes come
// first.
// The first call of every shape goes into the log, with what was chosen.
session::Chooser chooser_of(std::shared_ptr<const cost::MachineView> machine, const env::Settings& settings,
                            std::shared_ptr<const Log> log = std::make_shared<const Log>());

}  // namespace weft::api
