#pragma once

#include "plan/tune/nccl/model.h"
#include "plan/tune/tune.h"

namespace weft::tune::nccl {

// The question with NCCL's answer forced: weft's algorithm that does what NCCL's does, its protocol and slices, its
// channels (as far as the fabric has connections for them).
Question forced(const Question& question, const Row& row);

// The release that a tuner's name means, 27 for 2.27: "nccl" is the newest that is known, "nccl-2.27" one of its own.
// Errors (bad input): none of these, naming all.
Result<int> release_of(std::string_view tuner);

// What NCCL picks. Null if it does not model the collective or nothing is possible.
const Row* choice(const std::vector<Row>& rows);

// NCCL's choice, timed by weft's cost model: of the algorithm and protocol that the question names, if any, as with
// NCCL_ALGO and NCCL_PROTO. Errors: kUnsupported (bad input) where NCCL's model knows nothing, or
// weft cannot do what NCCL picks on this machine, with the reason.
Result<Candidate> choose(const cost::MachineView& machine, const System& system, const Question& question);

}  // namespace weft::tune::nccl
