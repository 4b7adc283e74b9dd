#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace weft::report {

// Where published measurements of machines like the one at hand would lie, by how far others are from predictions.
struct Measured {
  Duration low, high;  // `inside` of them lie between
  double inside = 0;
  int tables = 0;  // that this is from …
  std::string of;  // … and the class of machines and sizes that they are of
};
nlohmann::json to_json(const Measured& measured);

// One line of the bench table. Bandwidths are derived: algbw = bytes / time, busbw = algbw * bus_factor.
struct BenchRow {
  Bytes bytes = 0;
  std::int64_t count = 0;  // elements of the message
  Duration time;
  double bus_factor = 1;
  std::string algorithm, protocol;
  int channels = 0;
  Duration predicted;
  std::string limit_resource;
  Duration limit_time;
  std::int64_t errors = -1;  // wrong elements; -1: not checked
  std::string busiest_link;  // simulated: what carried most, …
  double busiest_share = 0;  // … and how much of its capacity it used
  // Simulated: why `predicted`, the cost model's estimate, is more than a fifth off; empty: it is not, or not asked
  // for.
  std::string estimate_off = {};
  Duration healthy;  // simulated with faults, other jobs or loads: the time without; else 0
  // Simulated: beside the time without faults, jobs and loads, since no table is of a machine with them.
  std::optional<Measured> measured = {};
  // Simulated: how the time was found, "full", "symmetric" (one rank for several that provably do the same) or
  // "extrapolated" from a part of the machine, then between `low` and `high`.
  std::string method = {};
  Duration low, high;
  Rank folded = 1;                     // simulated: ranks that each simulated rank stands for
  bool fast_forwarded = false;         // repetitions at the same pace were left out
  Rank extrapolated_from = 0;          // simulated: ranks of the largest part that was simulated; 0: all, …
  double uncertainty = 0;              // … and how unsure the time is by that, as a part of it; …
  bool approximate = false;            // … the cost model gives the growth with the ranks
  std::int64_t steps = 0;              // simulated: operations of all simulated ranks, in the last of several runs
  std::int64_t steps_in_all_runs = 0;  // simulated: of all runs
  double steps_represented = 0;        // simulated: steps of all ranks that those stand for (folded, extrapolated, …)
  // Simulated, if asked for: what the critical path's time was spent on, the largest first; adds up to the time.
  struct Spent {
    std::string cause, where;  // where: a link or a rank, or empty
    Duration time;
  };
  std::vector<Spent> why = {};
  std::int64_t path_steps = 0;  // of that path
  int plans_simulated = 0;      // before one was chosen; 0: another's choice
  Duration simulating;          // simulated: how long that took here
  // Simulated with packets: what happened to them. Sent counts every link; `longest_queue` in bytes, for link `at`.
  struct Packets {
    std::int64_t sent = 0, retried = 0, lost = 0, discarded = 0, reordered = 0, timeouts = 0, pauses = 0, marked = 0;
    double longest_queue = 0;
    std::string at;
  };
  std::optional<Packets> packets = {};
  // Simulated with a kernel beside: what that takes alone and beside, both from start to end, and how much of the
  // shorter one is hidden behind the other (1: all). The collective is the row itself.
  struct Computing {
    Duration alone, beside, together;
    double overlap = 0;
  };
  std::optional<Computing> computing = {};
  Bytes enlarged = 0;  // bytes added to the message so that all ranks' chunks are equal

  double algbw_gb() const { return time.ps() > 0 ? static_cast<double>(bytes) / time.s() * 1e-9 : 0; }
  bool troubled() const { return healthy.ps() > 0; }
  // What published measurements may stand beside.
  Duration time_without_trouble() const { return troubled() ? healthy : time; }
  double busbw_gb() const { return algbw_gb() * bus_factor; }
  // How near the time is to the least possible: 1 is the limit.
  double of_limit() const { return time.ps() > 0 ? limit_time / time : 0; }
};

struct BenchReport {
  std::string world;    // "real" or "simulated"
  std::string machine;  // as given on the command line, or "this"
  std::string transport;
  std::string collective, type, op;
  Rank ranks = 0;
  std::string rates;                       // where the machine's rates come from
  std::vector<std::string> findings = {};  // of a machine from a file: what is suspicious or assumed
  std::vector<std::string> faults = {};    // simulated: as given on the command line
  std::vector<std::string> beside = {};    // simulated: other jobs, as given
  std::vector<std::string> loads = {};     // simulated: background traffic, as given
  std::string compute = {};                // simulated: the kernel beside, as given
  std::string tokens = {};                 // dispatch and combine: what travels
  std::vector<BenchRow> rows;
};

// weft.bench/3, the stable form.
nlohmann::json to_json(const BenchReport& report);

}  // namespace weft::report
