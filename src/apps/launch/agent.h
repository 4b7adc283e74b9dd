#pragma once

#include <string>

#include "base/result.h"

namespace weft::launch {

// The part of `weft run --hosts` that runs on each host, started there through ssh: speaks frames (frames.h) with the
// launcher over stdin and stdout, starts the host's ranks, passes their output, signals and ends on. When the launcher
// goes away, or all ranks have ended, every process that the ranks have started is killed. The first host's agent opens
// the place where ranks meet and is the job's arbiter. Returns the process's exit code.
int run_agent(const std::string& version);

// Looks where execvp would find the program. Errors (bad input): nowhere, or it is not executable.
Status check_program(const std::string& program);

}  // namespace weft::launch
