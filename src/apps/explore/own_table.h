#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/explore/explore.h"

namespace weft::explore {

// A table of nccl-tests, OSU or weft bench as it was pasted, beside what the model says of NCCL on the question's
// machine, as `weft check` predicts it.
struct OwnTable {
  struct Row {
    Bytes bytes = 0;
    double busbw_GBps = 0, predicted_GBps = 0;
  };
  std::vector<Row> rows;
  std::string answer;  // in a sentence
};

// The question's collective and ranks are the table's, faults are not on its machine. Errors (bad input): the text has
// no row, its collective is another one, it has more ranks than the machine.
Result<OwnTable> own_table(const cost::MachineView& machine, const Question& question, std::string_view text);

}  // namespace weft::explore
