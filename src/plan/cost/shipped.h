#pragma once

#include "plan/cost/machine_view.h"

namespace weft::cost {

// A calibration's text with the name of its file; empty: none.
struct CalibrationText {
  std::string file, text;
};

// The file's text; with an empty name, none. Errors (bad input): of read_text_file.
Result<CalibrationText> read_calibration(const std::string& file);

// How many ranks a job of `asked` has on a modelled machine; below 0: one for each GPU or core. Errors (bad input):
// none, or more than there are, with the option --ranks and the machine's name.
Result<Rank> ranks_on(const MachineView& machine, std::string_view name, std::int64_t asked);

// What cost entries may be for: "sm90" or "gcn942" of the GPUs, the network's name. See HopCosts::parse.
Result<std::vector<std::string>> conditions_of(const topology::Topology& topology);

// A modelled machine with the shipped costs for its kind, and a calibration's on top. Errors (bad input): the
// calibration is none, see HopCosts::parse.
Result<MachineView> shipped_view(topology::Topology topology, const CalibrationText& calibration = {});

// The machine's costs where NCCL's kernels for symmetric windows run: entries under "windows" and, of Blackwell,
// "windows-sm100" on top. Errors: as shipped_view.
Result<protocol::HopCosts> costs_with_windows(const MachineView& machine, const CalibrationText& calibration = {});

}  // namespace weft::cost
