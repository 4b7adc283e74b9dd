#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/doctor/probes.h"
#include "base/report/watch.h"
#include "exec/recorder/snapshot.h"

// A running job beside the counters of its machine: what its calls must move, and what NICs, GPUs, cores and memory
// say.
namespace weft::doctor {

struct NicCounters {
  std::string name;  // "mlx5_0", "eth0"
  bool rdma = false;
  double line_rate = 0;  // bytes per second; 0: not known
  double sent = 0, received = 0;
  std::map<std::string, double> troubles;  // counters that ought to stand still
};

struct GpuCounters {
  report::WatchReport::Gpu now;
  double nvlink_sent = 0, nvlink_received = 0;  // bytes so far
};

// One look at everything.
struct Sample {
  double at = 0;                  // seconds of any steady clock
  std::vector<NicCounters> nics;  // that are up
  double loopback = 0;            // bytes so far
  std::vector<GpuCounters> gpus;
  double cpu_busy = 0, cpu_all = 0;  // in the kernel's ticks
  int cores = 0;
  double memory_used = 0;  // share
  std::vector<recorder::Snapshot> ranks;
};

Sample sample(const Probes& probes, std::vector<recorder::Snapshot> ranks, double at);

// What two looks say of the time between them. Requires: the second one is the later.
report::WatchReport compare(const Sample& before, const Sample& after);

}  // namespace weft::doctor
