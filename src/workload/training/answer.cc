#include "workload/training/answer.h"

namespace weft::training {

report::TrainRow row_of(const Plan& plan, const Step& step, const Card& card) {
  report::TrainRow row{.plan = describe(plan),
                       .seconds = step.seconds,
                       .tokens_per_gpu = step.tokens_per_gpu,
                       .tflops = step.tflops,
                       .mfu = step.mfu};
  const auto& p = step.parts;
  row.parts = {{"gemm", p.gemm},
               {"attention", p.attention},
               {"memory_bound", p.memory_bound},
               {"tensor_exposed", p.tensor},
               {"context_exposed", p.context},
               {"expert_exposed", p.expert},
               {"bubble", p.bubble},
               {"data_exposed", p.data},
               {"optimizer", p.optimizer}};
  const auto& m = step.peak;
  row.memory = {{"parameters", m.parameters},   {"gradients", m.gradients}, {"optimizer", m.optimizer},
                {"activations", m.activations}, {"logits", m.logits},       {"other", m.other}};
  for (const auto& stage : step.stages) row.stage_memory.push_back(stage.total());
  row.capacity = card.memory;
  row.fits = step.fits;
  row.limit = step.limit();
  return row;
}

report::TrainReport report_of(const Model& model, const Words& words, const Question& question, std::int64_t gpus) {
  return {.model = model.name,
          .machine = words.on,
          .card = question.card.name,
          .precision = words.precision,
          .flops_formula = kFlopsFormula,
          .gpus = gpus,
          .software = question.plan.software,
          .not_modelled = model.not_modelled,
          .rows = {}};
}

Result<Question> understand(const Model& model, const cost::MachineView& machine, const Words& words) {
  if (!machine.costs().gpu()) return bad_input("--on {}: it has no GPUs", words.on);
  Question question{words.plan, {}};
  WEFT_TRY(question.card, load_card(machine.topology().device(machine.device(0)).model, words.precision));
  Plan& plan = question.plan;
  plan.precision = words.precision;
  WEFT_TRY(plan.recompute, parse_recompute(words.recompute));
  WEFT_TRY(plan.schedule, parse_schedule(words.schedule));
  if (plan.seq == 0) plan.seq = model.seq;
  return question;
}

Result<Answer> answer(const Model& model, const cost::MachineView& machine, const Words& words) {
  WEFT_TRY(Question question, understand(model, machine, words));
  Traffic traffic(machine);
  Plan& plan = question.plan;
  const std::int64_t others = plan.tp * plan.pp * plan.cp;
  if (others <= 0) return bad_input("--tp, --pp and --cp are at least 1");
  if (words.dp == 0 && others > traffic.gpus())
    return bad_input("the plan needs {} GPUs (tp {} x pp {} x cp {}), {} has {}", others, plan.tp, plan.pp, plan.cp,
                     words.on, traffic.gpus());
  if (words.dp == 0 && traffic.gpus() % others != 0)
    return bad_input("{} GPUs of {} do not divide by tp {} x pp {} x cp {}", traffic.gpus(), words.on, plan.tp, plan.pp,
                     plan.cp);
  plan.dp = words.dp > 0 ? words.dp : traffic.gpus() / others;
  WEFT_CHECK(check_plan(model, plan));
  Answer answer{report_of(model, words, question, plan.ranks()), {}};
  WEFT_TRY(answer.step, simulate_step(model, plan, question.card, traffic));
  report::TrainRow row = row_of(plan, answer.step, question.card);
  if (!answer.step.fits) row.remedy = what_would_fit(model, plan, question.card);
  answer.report.rows.push_back(std::move(row));
  return answer;
}

}  // namespace weft::training
