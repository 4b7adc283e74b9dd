#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/session/session.h"
#include "base/env.h"
#include "net/memory/choices.h"
#include "plan/cost/machine_view.h"
#include "plan/tune/tune.h"

namespace weft::api {

// The question that a request on this machine's cores poses to the tuner.
tune::Question question_of(const schedule::Task& task, const Request& request, const protocol::Capabilities& can,
                           bool registered);

// A forced name that nothing has is a mistake, not a wish that some calls cannot serve. Errors (bad input): WEFT_ALGO
// or WEFT_PROTO with its value.
Status check_forced(const env::Settings& settings);

// Choices that ranks have in common: the segment in which they are kept, and what they depend on besides the call.
struct SharedChoices {
  net::memory::Segment segment;
  std::string depends_on;
};

// Chooses by the machine. What the environment forces holds for the calls that it can serve; a call's own wishes come
// first. The first call of every shape goes into the log, with what was chosen. `shared`: what another rank has chosen
// for the same call is taken over, unless the log asks for the plans that lost.
session::Chooser chooser_of(std::shared_ptr<const cost::MachineView> machine, const env::Settings& settings,
                            std::shared_ptr<const Log> log = std::make_shared<const Log>(),
                            std::optional<SharedChoices> shared = {});

}  // namespace weft::api
