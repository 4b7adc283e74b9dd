#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::report {

// What a machine's counters and its ranks' calls said in one interval. Rates are per second.
struct WatchReport {
  struct Nic {
    std::string name;
    double line_rate = 0;              // bytes per second each way; 0: not known
    double sent = 0, received = 0;     // bytes per second
    double share = 0, fair_share = 0;  // of what the NICs of its group moved, and 1 / their number
    std::vector<std::string> rising;   // "symbol_error +3": counters of errors and of waiting for the switch
  };
  struct Gpu {
    int index = 0;
    double busy = 0, memory = 0;  // shares of time, of its memory
    double clock_mhz = 0, watts = 0;
    double nvlink_sent = 0, nvlink_received = 0;  // bytes per second; 0: not readable
  };
  struct Job {
    std::string job, communicator, transport;
    int ranks = 0, here = 0;        // in all, and recorded on this host
    double calls = 0;               // per second and rank
    double message_bytes = 0;       // per second: of the messages of calls, as benchmarks count them
    double leaves = 0;              // bytes per second that these calls must send from this host to others, at least
    double in_calls = 0;            // share of the ranks' time within calls that ended
    std::vector<std::string> late;  // "rank 3 keeps 7 ranks waiting: …"
  };
  struct Finding {
    std::string what, part, text;  // "NIC idle", "mlx5_3", a sentence with both shares
  };
  double seconds = 0;
  std::vector<Job> jobs;
  std::vector<Nic> nics;  // that are up
  std::vector<Gpu> gpus;
  double cpu_busy = 0, memory_used = 0;  // shares
  int cores = 0;
  double leaves = 0, sent = 0, received = 0, loopback = 0;  // of all jobs, of all NICs; bytes per second
  std::vector<Finding> findings;
};

// weft.watch/1, the stable form.
nlohmann::json to_json(const WatchReport& report);

}  // namespace weft::report
