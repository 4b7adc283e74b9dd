#pragma once

#include <string>

#include "plan/tune/nccl/choice.h"

namespace weft::tune::nccl {

// Messages of min … max bytes, both included, are best done like this.
struct Range {
  Bytes min = 0, max = 0;
  Algorithm algorithm = Algorithm::kRing;
  protocol::Protocol protocol = protocol::Protocol::kSimple;
  int channels = 0;
};

// The best of what NCCL can do, by weft's cost model, for messages up to `largest`: sizes are tried in powers of two,
// and each answer holds to the next one. Never empty. Errors: see choose(); bad input where weft can time none of it.
Result<std::vector<Range>> tuning_table(const cost::MachineView& machine, const System& system, Question question,
                                        Bytes largest);

// The table in the form that the example tuner plugin of NCCL reads (ext-tuner/example):
// collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff.
std::string to_csv(const std::vector<Range>& table, const System& system, Collective collective);

}  // namespace weft::tune::nccl
