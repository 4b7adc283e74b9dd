#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/job_text.h"

namespace weft::doctor {

using Line = JobLine;

// When a line was printed. Understands ISO 8601, dmesg -T, syslog and glog (PyTorch); seconds since 1970, UTC where the
// line names no zone. Syslog and glog print no year.
struct Moment {
  double seconds = 0;
  bool has_year = true;
  std::string shown;  // "2025-01-06 10:00:00", sortable
};
std::optional<Moment> moment_of(std::string_view line);
Moment with_year(const Moment& moment, int year);  // one without a year

// "host:pid:tid [dev] NCCL": host, and host, pid and device, which name a rank for as long as a job runs.
struct Process {
  std::string_view host;
  std::string key;  // empty: no line of NCCL
};
Process process_of(std::string_view line);
// "Jan  6 10:00:00 node7 kernel: …": node7.
std::string_view syslog_host(std::string_view line);

// The program that printed the line: nccl, dmesg, pytorch, or tool.
std::string_view source_of(std::string_view line);

}  // namespace weft::doctor
