#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "machine/topology.h"

namespace weft::doctor {

// What may make a table slow, and how a replay changes the machine for it; a row of data/doctor/causes.tsv.
struct Cause {
  std::string id, words, verify;
  double network = 1;               // part of the bandwidth that large messages reach; see rate_for
  double links = 1, nvlink = 1;     // factors of rates of the network's links and of NVLink
  std::optional<double> node_cap;   // GB/s that the NICs of a node carry together
  double late = 0;                  // us more per way through the network
  std::string protocol;             // that all sizes use; empty: as NCCL chooses
  std::vector<std::string> faults;  // as for weft bench --fault
  double spread = 0.1;
  double alone = 0.1, several = 0.1;  // how often it is the cause, of a table of one node and of several
};
// Errors (bad input): names file, line and column.
Result<std::vector<Cause>> parse_causes(std::string_view file, std::string_view text);
Result<std::vector<Cause>> shipped_causes();
// "network=36% late=3", "nic:0/2=down": only the change. Errors (bad input): names the word.
Result<Cause> parse_change(std::string_view text);

// The machine with the rates and latencies of the cause; its faults are not in it. Nothing: the machine has no part
// that the cause changes.
std::optional<topology::Topology> changed(const topology::Topology& machine, const Cause& cause);

// What large messages lose where the network's links have a part of their rate.
struct Slowdown {
  double rate = 1;   // of the links, as a part of the healthy one
  double times = 1;  // of the healthy time
};
// The rate of links at which large messages reach `part` of the healthy bandwidth, between simulated ones: severities
// are published as parts of the bandwidth that was reached, and other links may be the limit of the healthy machine.
// Requires: slowdowns from the whole rate downwards, at least one.
double rate_for(std::span<const Slowdown> slowdowns, double part);

// One row of a table under one cause.
struct Residual {
  double ln = 0;       // of measured / predicted
  bool large = false;  // from 16 MiB on, where the model is surer
};
// Logarithm of the likelihood of a table's rows. Rows err together, by the cause's spread and the model's error, and
// each on its own.
double log_likelihood(std::span<const Residual> rows, double spread);
// Mean of |ln| over the rows from which bandwidth counts.
double distance(std::span<const Residual> rows);

// That the model is wrong about a healthy machine: standard deviation of its error in ln, of its parts, and how often.
inline constexpr double kModelSpread = 0.20, kModelPrior = 0.10;

}  // namespace weft::doctor
