#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

// Which processors the ranks of one host run on.
namespace weft::launch {

// The facts about the host that bindings depend on.
struct HostProcessors {
  std::vector<int> usable;              // by this process: cgroups and Slurm's masks leave others out
  std::vector<std::string> interfaces;  // that WEFT_IFACE names
  std::string sys = "/sys";
};

struct Binding {
  std::vector<int> cpus;  // empty: all that this process may use
  std::string reason;     // "core", "NUMA node 1, as eth0"
};

// One binding per rank. `wanted`: WEFT_BIND or --bind:
//   empty           a processor each where there are enough, else none
//   none            all that this process may use
//   core            a processor each
//   numa            a NUMA node each, in turn; its usable processors are shared by its ranks
//   nic, gpu        the NUMA node of an interface of WEFT_IFACE, or of an NVIDIA GPU, in turn
//   0-3:4-7, 0:1:2  the processors of rank 0, rank 1, …, as a list each; in turn where there are fewer
// Errors (bad input): too few processors for `core`, no such processor, one that this process may not use, no NIC or
// GPU to be beside; each names the culprit.
Result<std::vector<Binding>> bindings_of(const std::string& wanted, Rank ranks, const HostProcessors& host);

// For --report-bindings: "rank 3 runs on processors 4-7 (numa node 1)".
std::string report_of(Rank rank, const Binding& binding, const HostProcessors& host);

// "0-3,8": ascending processors as the kernel writes them; and back. Errors (bad input): `what` and the text.
std::string text_of_cpus(const std::vector<int>& cpus);
Result<std::vector<int>> parse_cpus(const std::string& what, const std::string& text);

// What WEFT_BIND says for the ranks of this host, with a line on stderr each where WEFT_REPORT_BINDINGS is 1. `first`:
// the number of the host's first rank. Errors: of bindings_of.
Result<std::vector<Binding>> bind_as_asked(Rank first, Rank ranks);

// This host: with the interfaces of WEFT_IFACE, where it is set.
Result<HostProcessors> host_processors();

}  // namespace weft::launch
