#pragma once

#include <string>
#include <vector>

#include "apps/launch/hosts.h"
#include "apps/launch/rank_processes.h"
#include "base/result.h"

namespace weft::launch {

// A job on several hosts.
struct HostsJob {
  std::vector<HostRanks> hosts;      // each with its number of ranks
  std::vector<std::string> program;  // found on each host
  std::string folder;                // to run it in, on each host
  std::vector<Setting> environment;  // of all ranks
  std::string command;               // path of weft on the hosts; where there is none, `weft` in their PATH is taken
  std::string version;               // of weft, here; the hosts' must be the same
  std::vector<std::string> ssh{"ssh"};
  bool labels = true;               // lines of output begin with their rank
  bool ends_all = true;             // a rank that fails ends the job, unless the others shrink
  std::int64_t timeout_ms = 30000;  // for the hosts to answer
};

// Starts the job and waits for its end. Hosts are reached by ssh without questions (BatchMode); localhost and this
// host's own name are reached without it. SIGINT, SIGTERM and SIGHUP go to all ranks and end the job, SIGUSR1 and
// SIGUSR2 go to all ranks. stdin is read by no rank. When this returns, no process of the job is left on any host that
// can be reached. Returns 0, or the exit code of the first rank that failed (128 + signal if it was killed), or 128 +
// the signal that ended the job. Errors (bad input), before any rank has started: the host, and whether ssh was
// refused, it has no weft or another version of it, the folder, the program or a free port is missing.
Result<int> run_on_hosts(const HostsJob& job);

}  // namespace weft::launch
