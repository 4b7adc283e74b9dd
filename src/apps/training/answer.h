#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/training/budget.h"
#include "apps/training/step.h"
#include "base/report/train.h"
#include "plan/cost/machine_view.h"

namespace weft::training {

// A question about training as it is typed.
struct Words {
  std::string model = "llama3-8b", on = "dgx-h100", recompute = "none", schedule = "1f1b", precision = "bf16",
              compress = "none", layout = "", freeze = "none", optimizer = "adam", cp_by = "ring",
              dispatcher = "alltoall", software = "2025", allocator = "default",
              launch = "";            // empty: as the software's release does it
  Plan plan = {.global_batch = 256};  // seq 0: the model's
  std::int64_t dp = 0;                // 0: what is left of the machine
  std::vector<std::string> faults = {};
  report::TrainRun run = {};
  OwnCards cards = {};   // of the user
  bool largest = false;  // what else fits is asked for
};

// Models can read far longer sequences than they are trained with; longer ones have to be asked for.
inline constexpr std::int64_t kLongestUnasked = 8192;

// Sets one number of the words by its name: tp, pp, vp, dp, ep, cp, zero, micro-batch, global-batch, seq ('_' for '-'
// is the same). False: there is no such number.
bool set_number(Words& words, std::string_view name, std::int64_t value);

// "llama3-70b:tp=8,pp=2,global-batch=512": a model and what of its plan is not as usual. Errors (bad input): names the
// key or its value.
Result<Words> parse_words(std::string_view text);

// The words, understood: the plan as far as it was given, and the machine's card.
struct Question {
  Plan plan;
  Card card;
};
// Errors (bad input): the machine has no GPUs; no such card, precision, recomputation or schedule.
Result<Question> understand(const Model& model, const cost::MachineView& machine, const Words& words);

struct Answer {
  Question question;           // with what the machine leaves to the plan
  report::TrainReport report;  // one row
  Step step;
  std::shared_ptr<KnownParts> parts;  // for the same step on other versions of the machine
};
// One step by one plan; with faults beside the step without them, and the run that the words ask for. Errors (bad
// input): those of understand, check_plan, simulate_step, trouble_of and budget_of; the plan needs more GPUs than there
// are, or does not divide them.
Result<Answer> answer(const Model& model, const cost::MachineView& machine, const Words& words);

// The same step on machines that differ in one thing: links 10 % faster, a NIC less, a slow GPU, …; changes are
// relative to the answer's step, and have its faults, too.
std::vector<report::TrainReport::WhatIf> sensitivity(const Model& model, const cost::MachineView& machine,
                                                     const Words& words, const Answer& answer);

// A report on this question without its rows.
report::TrainReport report_of(const Model& model, const Words& words, const Question& question, std::int64_t gpus);
report::TrainRow row_of(const Plan& plan, const Step& step, const Card& card);

}  // namespace weft::training
