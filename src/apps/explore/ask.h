#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/report/explorer.h"
#include "base/result.h"
#include "machine/machine.h"
#include "plan/cost/machine_view.h"

namespace weft::explore {

using Words = report::Explorer::Words;

// A machine by its name, or from a file, with the shipped costs or a calibration's. Errors (bad input): it is this
// machine, or none.
Result<cost::MachineView> modelled_machine(const std::string& on, const std::string& calibration = {},
                                           const topology::FileReader& reader = {});

// Answers the question on the machine that `on` names. `calibration`: a file with the constants of modelled machines;
// empty: as shipped. Errors (bad input): names the word that cannot be understood, or why there is no answer.
Result<report::Explorer> answer(const Words& words, const std::string& calibration = {},
                                const topology::FileReader& reader = {});

// The same from JSON to JSON, for the page's worker. {"ask": "answer", "collective": …, "on": …, "bytes": …, "dtype":
// …, "algo": …, "proto": …, "ranks": …, "root": …, "chunk": …}, where all but "ask" may be missing, gives
// weft.explorer/1. "faults" is a list. "curves": false leaves the curves out, which take longest; {"ask": "curves",
// "answered": [algorithm, protocol], …} gives them later, as weft.explorer.curves/1; with "points": false it only names
// the candidates, and {"ask": "curve", "of": [algorithm, protocol], …} gives the points of each, as
// weft.explorer.curve/1, so that a page can show its progress.
// {"ask": "estimate", …} with the words of "answer" gives weft.explorer.estimate/1: estimate()'s sentence and time.
// {"ask": "guess", "points": [[bytes, GB/s], …], …} with the words of "answer" gives weft.explorer.guess/1: how far a
// drawn curve is from the predicted one, in a sentence. {"ask": "table", "text": …, …} gives weft.explorer.table/1: a
// pasted table's rows beside their predictions (apps/explore/own_table.h).
// {"ask": "words"} gives weft.explorer.words/1: the machines, collectives, types, protocols and algorithms that there
// are; {"ask": "generations"} gives weft.explorer.generations/1: PCIe, NVLink, InfiniBand, RoCE and Ethernet from their
// first generation on, with rates and sources. What fails gives {"schema": "weft.error/1", "message": …}.
std::string ask(std::string_view question);

}  // namespace weft::explore
