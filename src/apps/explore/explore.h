#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/report/explorer.h"
#include "plan/cost/machine_view.h"
#include "plan/protocol/capabilities.h"
#include "plan/schedule/lower/lower.h"

namespace weft::explore {

struct Question {
  std::string machine;  // as given on the command line
  schedule::Task task;
  std::string algorithm, protocol;  // empty: weft's choice
  // What is broken, as simulate::apply_faults reads it. The machine is the whole one.
  std::vector<std::string> faults = {};
  schedule::ChunkId chunk = -1;  // that the stepper follows where it cannot show all; -1: the first
  bool curves = true;            // false: the answer comes without them, see curves_of()
};

// Answers one question for the explorer's page: draws the machine, runs the schedule of the chosen algorithm in the
// simulator and in the verifier, and asks the cost model for the candidates' curves from 1 KiB to 1 GiB.
// The stepper shows at most kMostRanks ranks and kMostMoves moves on one channel; with more, it follows one chunk
// (apps/explore/follow.h) up to kMostFollowedRanks, otherwise `played` is false. The answer's time is that of the
// chosen plan. Errors: bad input of the choice; the chunk does not exist.
inline constexpr Rank kMostRanks = 64;
inline constexpr std::size_t kMostMoves = 40'000;
inline constexpr Rank kMostFollowedRanks = 1024;
Result<report::Explorer> answer(const cost::MachineView& machine, const Question& question);

// What the cost model says at once, in a sentence that stands until the simulation's answer is there. Errors: bad input
// of the choice.
struct Estimated {
  Duration time;
  std::string sentence;
};
Result<Estimated> estimate(const cost::MachineView& machine, const Question& question);

// The candidates' curves and the published measurements of such a question, for a page that has its answer without
// them. `algorithm` and `protocol` are the answer's. Without points the candidates are only named, and curve_of() gives
// the bus bandwidth in GB/s by size of one after the other, for a page that shows how far it is. Errors: as answer().
Result<report::Explorer> curves_of(const cost::MachineView& machine, const Question& question,
                                   std::string_view algorithm, std::string_view protocol, bool with_points = true);
Result<std::vector<std::pair<Bytes, double>>> curve_of(const cost::MachineView& machine, const Question& question,
                                                       std::string_view algorithm, std::string_view protocol);

// The question's algorithm is a schedule's file that is not proved: the machine, and the moves up to the
// counterexample. Errors (bad input): of the reader; the schedule is proved.
Result<report::Explorer> wrong_answer(const cost::MachineView& machine, const Question& question);

// How far a drawn curve is from that of the best candidate at each size, in a sentence. Errors (bad input): there is no
// guess, or it has no size or no bandwidth.
struct Guess {
  Bytes bytes = 0;
  double busbw_GBps = 0;
};
Result<std::string> judge(const cost::MachineView& machine, const Question& question, std::span<const Guess> guesses);

// What the page may do, as the value of Content-Security-Policy: run its own script and the core in a worker made of
// its own text, and nothing else. It stands in the page and in the server's answer.
inline constexpr std::string_view kContentPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; "
    "worker-src blob:; img-src data:; base-uri 'none'; form-action 'none'";

// The page that shows `report`, one file that needs no server and no network.
std::string page(const report::Explorer& report);

}  // namespace weft::explore
