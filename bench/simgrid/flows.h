#pragma once

#include <string>
#include <vector>

#include "model/sim/flow/max_min.h"

// The same flows over the same links, for weft and for SimGrid.

struct Flow {
  int from, to;  // GPUs
  double start;  // seconds
  double bytes;
  std::size_t way;  // of Job::ways
};

struct Job {
  std::vector<double> capacities;  // bytes per second, of every direction of every link
  std::vector<std::vector<weft::sim::MaxMin::Use>> ways;
  std::vector<Flow> flows;  // by start
  int gpus = 0;
};

struct Answer {
  std::vector<double> ends;  // seconds of simulated time, by flow
  double wall = 0;           // seconds of real time, without building the platform
};

Answer by_simgrid(const Job& job);
