#include "api/calibrate/cpus.h"

#include <sched.h>

#include <thread>

namespace weft::calibrate {

std::vector<int> usable_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) cpus.push_back(c);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

void unbind() {
  cpu_set_t all;
  for (int c = 0; c < CPU_SETSIZE; ++c) CPU_SET(c, &all);
  sched_setaffinity(0, sizeof all, &all);  // the kernel leaves out what this process may not have
}

std::vector<int> every_cpu() {
  std::vector<int> cpus;
  std::thread([&] {
    unbind();
    cpus = usable_cpus();
  }).join();
  return cpus;
}

void pin_to(int cpu) { pin_to(std::vector{cpu}); }

void pin_to(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace weft::calibrate
