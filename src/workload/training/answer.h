#pragma once

#include <string>

#include "cost/machine_view.h"
#include "report/train.h"
#include "workload/training/step.h"

namespace weft::training {

// A question about training as it is typed.
struct Words {
  std::string model = "llama3-8b", on = "dgx-h100", recompute = "none", schedule = "1f1b", precision = "bf16";
  Plan plan = {.global_batch = 256};  // seq 0: the model's
  std::int64_t dp = 0;                // 0: what is left of the machine
};

// The words, understood: the plan as far as it was given, and the machine's card.
struct Question {
  Plan plan;
  Card card;
};
// Errors (bad input): the machine has no GPUs; no such card, precision, recomputation or schedule.
Result<Question> understand(const Model& model, const cost::MachineView& machine, const Words& words);

struct Answer {
  report::TrainReport report;  // one row
  Step step;
};
// One step by one plan. Errors (bad input): those of understand, check_plan and simulate_step; the plan needs more GPUs
// than there are, or does not divide them.
Result<Answer> answer(const Model& model, const cost::MachineView& machine, const Words& words);

// Of a report on this question: everything but its rows.
report::TrainReport report_of(const Model& model, const Words& words, const Question& question, std::int64_t gpus);
report::TrainRow row_of(const Plan& plan, const Step& step, const Card& card);

}  // namespace weft::training
