#pragma once

#include "cost/machine_view.h"

namespace weft::cost {

// A calibration's text with the name of its file; empty: none.
struct CalibrationText {
  std::string file, text;
};

// What cost entries may be for: "sm90" or "gcn942" of the GPUs, the network's name. See HopCosts::parse.
Result<std::vector<std::string>> conditions_of(const topology::Topology& topology);

// A modelled machine with the shipped costs for its kind, and a calibration's on top. Errors (bad input): the
// calibration is none, see HopCosts::parse.
Result<MachineView> shipped_view(topology::Topology topology, const CalibrationText& calibration = {});

}  // namespace weft::cost
