#pragma once

#include "apps/cli/commands.h"
#include "apps/cli/common.h"
#include "apps/cli/experts.h"
#include "base/env.h"
#include "base/report/bench.h"
#include "model/sim/packet/options.h"

namespace weft::cli {

// What is timed, and how often.
struct Sweep {
  std::string collective_name;
  Collective collective = Collective::kAllReduce;
  std::string ranks_text;   // a number; for `all` a list
  std::int64_t ranks = -1;  // -1: 2 here, all GPUs of a simulated machine
  std::int64_t root = 0;
  std::string smallest = "8", largest;  // largest: 64M, for `all` 64K
  std::string only;                     // one size, instead of those two
  ExpertsSpec experts = {};             // of dispatch and combine, instead of sizes
  std::int64_t factor = 2;
  std::string type_name, op_name = "sum";  // type: empty is usual_type
  bool op_given = false;                   // --op stands on the command line
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::int64_t iterations = 0;  // 0: as many as fill a tenth of a second
  bool check = false, in_place = false, unregistered = false;
};

// What is not left to weft's choice.
struct Forced {
  std::string tuner = "weft";  // or "nccl", "nccl-2.27", …: NCCL's choice
  std::string algorithm, protocol;
  std::int64_t channels = 0;
  bool reproducible = false;
  env::Settings nccl = {};  // simulated: what NCCL_* variables ask for
};

// How a machine is simulated, and what else happens there.
struct Conditions {
  std::vector<std::string> faults;
  std::vector<std::string> beside;                 // other jobs
  std::vector<std::string> loads;                  // background traffic
  std::string compute;                             // a kernel beside
  std::string post;                                // who posts messages across the network; empty: as the costs say
  std::string level = "flow";                      // or "packet", "packet:KEY=VALUE,..."
  std::optional<sim::PacketOptions> packets = {};  // what that means
  std::int64_t max_events = 0;                     // 0: as many as the level is good for
  bool no_fold = false;
  std::string timeline;  // a file
};

// What `weft bench` was asked to do.
struct BenchSpec {
  std::string on, calibration;
  std::string transport;  // empty: WEFT_TRANSPORT, or where the ranks are
  Sweep sweep = {};
  Forced forced = {};
  Conditions conditions = {};
  bool verbose = false;
  std::string json;
};

// The sizes to measure, in bytes of the message; of dispatch and combine tokens of a rank. Errors (bad input).
Result<std::vector<Bytes>> sizes_of(const Sweep& sweep);
// What is timed for one of them. Errors (bad input): names the option.
Result<schedule::Task> task_of(const BenchSpec& spec, Rank ranks, Rank ranks_per_node, Bytes size);
// The row's size, elements and factor of bus bandwidth. Of dispatch and combine: one rank's tokens, and what it sends
// of them to other ranks.
void describe_size(report::BenchRow& row, const schedule::Task& task);

// Runs the sweep between processes (or threads) of this machine; rank 0 prints. Returns the exit code.
Result<int> bench_here(const BenchSpec& spec, const Machine& machine);
// Every collective with every algorithm and protocol that serves it, on each of these numbers of ranks here.
Result<int> bench_all(const BenchSpec& spec, const Machine& machine, const std::vector<Rank>& ranks);
// Simulates it. `before`: called before each size; `after`: called when the last row of the report has been added.
struct BenchProgress {
  std::function<void(Bytes bytes, Rank ranks)> before = {};
  std::function<void(const report::BenchReport&)> after = {};
};
Result<report::BenchReport> simulate_bench(const BenchSpec& spec, const Machine& machine,
                                           const BenchProgress& progress = {});
// The same with a table on stdout. Returns the exit code.
Result<int> bench_simulated(const BenchSpec& spec, const Machine& machine);

// The nccl-tests table, as wide as the terminal allows.
class BenchTable {
 public:
  // `verbose`: after each row, how it was simulated.
  BenchTable(const report::BenchReport& report, int width, bool verbose = false);
  void header() const;
  void row(const report::BenchRow& row) const;
  void footer(const report::BenchReport& report) const;

 private:
  const report::BenchReport& report_;
  bool wide_, verbose_;
  bool measured_;  // where measurements would lie stands in the place of wrong elements
};

// Prints the footer, writes the JSON, and gives the exit code: 1 if results were wrong.
Result<int> finish_bench(const BenchSpec& spec, const report::BenchReport& report, const BenchTable& table);

}  // namespace weft::cli
