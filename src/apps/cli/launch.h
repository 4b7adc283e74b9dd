#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/launch/rank_processes.h"
#include "base/result.h"
#include "base/units.h"

namespace weft::cli {

// What a rank's process is given: WEFT_RANK, WEFT_SIZE, WEFT_ID, WEFT_RATES; over tcp and ucx also WEFT_TRANSPORT and
// WEFT_JOIN; of several machines WEFT_JOIN and WEFT_NODE.
using launch::Setting;

// Starts `ranks` processes with fork and calls body(settings) in each, whose result is the process's exit code; waits
// for all. With at least as many cores as ranks, rank r runs on the r-th of them alone. If the parent dies, the ranks
// die; SIGINT, SIGTERM and SIGHUP are passed on to them and, unless stdin is a terminal, to what they have started;
// what is left after 5 s, or at a second signal, is killed; the result is 128 + the signal. A rank that fails is named
// on stderr; the others get the time to notice it themselves. Nothing of the job is left in /dev/shm. Returns 0 or the
// first failing rank's exit code (128 + signal if it was killed). With `machines` > 1, consecutive ranks believe to be
// on that many machines: memory is shared within each, TCP or, by transport shm+ucx, UCX joins them. With `labels`,
// what ranks write passes through this process, whose lines begin with their rank. Errors: kSystem; no UCX (bad input).
Result<int> launch(Rank ranks, const std::string& transport, const std::string& rates,
                   const std::function<int(const std::vector<Setting>&)>& body, Rank machines = 1, bool labels = false);

}  // namespace weft::cli
