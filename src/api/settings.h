#pragma once

#include "base/env.h"

namespace weft::api {

// Whether the values of the variables that a communicator uses can be used: algorithm, protocol, key, arbiter, ports
// and what a trace holds, also where this job happens not to need them. Errors (bad input): names the variable.
Status check_settings(const env::Settings& settings);

}  // namespace weft::api
