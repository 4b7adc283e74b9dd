#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/report/doctor.h"

namespace weft::doctor {

// How this machine is looked at. Reads only; needs no root. Tests bring recorded machines.
struct Probes {
  std::function<std::optional<std::string>(const std::string& path)> read;         // a file of /proc or /sys
  std::function<std::vector<std::string>(const std::string& folder)> list;         // names in it
  std::function<std::optional<double>(const std::string& path)> file_system_size;  // bytes
  // What one of a few commands prints (nvidia-smi, lspci, dmesg, ibstat), all of which only read; none: it is not
  // installed, fails, or takes longer than ten seconds. May be empty.
  std::function<std::optional<std::string>(const std::string& command)> run = {};
  bool root = true;  // may what only root sees be read?
};
Probes real_probes();

// What of the machine would fail or slow a job of several GPUs down; what its kernel log and tools say is judged by the
// rules of logs.
report::DoctorReport examine(const Probes& probes);

}  // namespace weft::doctor
