#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft::doctor {

// Digits of `text` from `at` on; -1: none.
int number_at(std::string_view text, std::size_t at);
// The same behind the first `word`.
int number_behind(std::string_view text, std::string_view word);

// A line without what launchers put before it: "12: " (srun -l), "[1,3]<stdout>:" (mpirun --tag-output), "[default3]:"
// (torchrun), "[rank3]: " (PyTorch), "(Worker pid=7, ip=10.0.0.1) " (Ray), colours of terminals.
struct Line {
  std::string_view text;
  int rank = -1;          // that the launcher names; -1: none
  std::string_view host;  // that the launcher names; empty: none
};
Line strip_launcher(std::string_view line);

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
