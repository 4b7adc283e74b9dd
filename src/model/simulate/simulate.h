#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "exec/virtual_run.h"
#include "model/sim/flow/background.h"
#include "model/sim/flow/computing.h"
#include "model/sim/flow/critical_path.h"
#include "model/sim/flow/disturbances.h"
#include "model/sim/flow/timeline.h"
#include "model/sim/packet/options.h"
#include "model/sim/packet/statistics.h"
#include "plan/cost/machine_view.h"
#include "plan/schedule/lower/lower.h"

namespace weft::simulate {

struct Options {
  bool fold = true;          // of ranks that do the same, one is simulated
  bool extrapolate = true;   // from fewer nodes, where all would take long: only where all nodes are of one class
  int calls = 1;             // one after the other on every rank, whatever the others do
  bool fast_forward = true;  // what repeats at the same pace is simulated a few times
  // Extrapolates from few nodes where all would take more operations than this. Below 0: never.
  double affordable = 1e6;
  double most_operations = 2e6;  // of one such size, while sizes do not agree: some seconds
  // A collective whose growth is not known is approximated where all ranks would take more operations than this.
  double too_many = 5e6;
  // Machines whose nodes differ are simulated in full up to this many steps: some minutes. Beyond, the cost of the odd
  // nodes is found on few nodes, with them and without.
  double most_in_full = 3e7;
  // Runs that would take more steps than this are refused before they begin (kNoResources), …
  double most_steps = std::numeric_limits<double>::infinity();
  // … and those with which all runs together would.
  double most_steps_in_all = std::numeric_limits<double>::infinity();
  std::int64_t* spent = nullptr;  // grows by the steps of all runs, where these are refused or fail, too
  std::int64_t max_events = std::int64_t{1} << 40;
  sim::Disturbances disturbances = {};  // with any, every rank is simulated; but for slow ranks, every step, too
  // A kernel that runs beside the calls of the first job; then no steps are left out.
  sim::Computing computing = {};
  sim::Background background = {};                 // with any, every rank is simulated
  std::optional<sim::PacketOptions> packets = {};  // instead of flows; then every step is simulated
  // Jobs that other ranks repeat meanwhile, with the same protocol; then every step is simulated.
  // Requires: no rank has two jobs; classes that the packets have (flows have none).
  std::vector<exec::VirtualJob> beside = {};
  // Called before every run with the number of operations, about, that it has. There may be several runs, of parts.
  std::function<void(double operations)> before_run = {};
  bool why = false;                   // also find what the time was spent on
  sim::Timeline* timeline = nullptr;  // gets the times of all operations; then every step is simulated
  std::string* trace =
      nullptr;  // gets the timeline as text, see model/sim/flow/timeline.h; then every step is simulated, …
  bool trace_folded = false;  // … but for ranks that do the same: rank r is as rank r modulo those of the timeline
};

// The method by which a time was found.
enum class Method : std::uint8_t {
  kFull,         // every rank was simulated
  kSymmetric,    // one rank for several that provably do the same at the same times
  kExtrapolated  // from a part of the machine
};
std::string_view name(Method method);  // "full", "symmetric", "extrapolated"

struct Outcome {
  Duration time;      // of all calls
  Duration computed;  // when the last rank had computed what it should
  Method method = Method::kFull;
  Duration low, high;  // it is between these; both are the time where uncertainty is 0
  Rank folded = 1;     // ranks that each simulated rank stands for
  bool fast_forwarded = false;
  Rank extrapolated_from = 0;   // 0, or the ranks of the largest part of the machine that was simulated, …
  double uncertainty = 0;       // … and what such parts, or shorter runs, disagreed by, as a part of the time; …
  bool approximate = false;     // … the cost model gave the growth with the nodes
  std::int64_t operations = 0;  // steps that were simulated in the last run, from which the time is, …
  std::int64_t steps_in_all_runs = 0;  // … in all runs, …
  double represented = 0;    // … and those of all ranks that these stand for (counted; where extrapolated, about)
  Bytes enlarged = 0;        // the message was simulated this much larger, so that all ranks' chunks are equal
  std::string busiest_link;  // what carried most, e.g. "gpu3 -> nvswitch0" …
  double busiest_share = 0;  // … and how much of its capacity it used
  // The critical path's time by cause, with `why`: the largest first; adds up to the time. Where a shorter run stands
  // for the whole, its shares are scaled. Empty: too many steps to be kept.
  std::vector<sim::PathShare> why = {};
  std::int64_t path_steps = 0;  // of that path
  sim::PacketStatistics packets = {};
  std::string longest_queue = {};  // of packets: the link that it waited for
};

// Checks that packets can be simulated there. Errors (bad input): the ranks are CPU cores; links flap; an option that
// was given changes nothing there.
Status check_packets(const cost::MachineView& machine, const sim::PacketOptions& packets,
                     const sim::Disturbances& disturbances);

// Simulates how long a collective takes on a machine: at flow level, or at packet level if asked for.
//   Folded: the algorithm claims a rotation of ranks that leaves its schedule the same; the least multiple of it under
//   which the machine looks the same is found by trying. Exact, but for messages that do not divide into equal chunks:
//   they are enlarged, by at most 0.1 %, or else not folded. Extrapolated: the first nodes do the same collective with
//   chunks of the same size; three such sizes show what more nodes add (Algorithm::growth). Only where the machine
//   beyond is as these nodes are: the least size reaches as far. Approximate: where a collective's growth is not known
//   and all of it would take too long, the cost model's time is multiplied by its error on the largest part of the
//   machine that is quickly simulated. The change of this error from part to part is the uncertainty. Fast forward: the
//   same with fewer repeated steps, and with fewer rounds. Once three runs of growing length differ by the same time,
//   further ones only add more of it. Otherwise every step is simulated.
// Errors: the fabric's (see FlowFabric); kInternal if the schedule gets stuck; of check_packets.
Result<Outcome> simulate(const cost::MachineView& machine, const schedule::Task& task, const schedule::Plan& plan,
                         const Options& options = {});

}  // namespace weft::simulate
