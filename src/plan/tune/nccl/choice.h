#pragma once

#include <optional>
#include <span>

#include "plan/tune/nccl/model.h"
#include "plan/tune/tune.h"

namespace weft::tune::nccl {

// The question with NCCL's answer forced: weft's algorithm that does what NCCL's does, its protocol and slices, its
// channels (as far as the fabric has connections for them).
Question forced(const Question& question, const Row& row);

// The release that a tuner's name means, as System::release: "nccl" is the newest that is known, "nccl-2.27" the last
// of 2.27, "nccl-2.29.2" that one, each also with ":symmetric". Errors (bad input): no release of NCCL, or one whose
// rules are not known, naming those that are.
Result<int> release_of(std::string_view tuner);
// Whether a tuner's name ends with ":symmetric": the buffers of all calls are registered as symmetric windows.
bool with_windows(std::string_view tuner);
// The last of every one from 2.19 on.
std::span<const int> releases();
// "2.30.7"; of patches that are not given, "2.30".
std::string release_name(int release);
// The release whose rules stand for a version of NCCL, as logs and tables print it ("2.27.5"): of older and newer ones
// than are known the nearest. Nothing: no version.
std::optional<int> nearest_release(std::string_view version);

// Releases that choose alike, in their order: algorithm, protocol and channels.
struct SameChoice {
  int first = 0, last = 0;  // releases
  Row row;                  // chosen; of the last
};
std::vector<SameChoice> choices_by_release(const System& system, Collective collective, Bytes bytes);

// What NCCL picks. Null if it does not model the collective or nothing is possible.
const Row* choice(const std::vector<Row>& rows);

// NCCL's choice, timed by weft's cost model: of the algorithm and protocol that the question names, if any, as with
// NCCL_ALGO and NCCL_PROTO. Errors: kUnsupported (bad input) where NCCL's model knows nothing, or
// weft cannot do what NCCL picks on this machine, with the reason.
Result<Candidate> choose(const cost::MachineView& machine, const System& system, const Question& question);

}  // namespace weft::tune::nccl
