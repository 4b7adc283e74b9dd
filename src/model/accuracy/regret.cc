#include "model/accuracy/regret.h"

#include "base/text.h"
#include "model/predict/predict.h"
#include "model/sim/flow/flow_fabric.h"

namespace weft::accuracy {
namespace {

std::string text_of(const schedule::Plan& plan) {
  return fmt::format("{} {} x{}", plan.algorithm->name, protocol::traits(plan.protocol).name, plan.channels);
}

}  // namespace

Result<std::vector<Regret>> regrets(const cost::MachineView& machine, std::span<const Collective> collectives,
                                    std::span<const Bytes> sizes, double steps) {
  std::vector<Regret> all;
  const Rank ranks = machine.endpoints();
  for (const Collective collective : collectives)
    for (const Bytes bytes : sizes) {
      const schedule::Task task =
          schedule::task_of(collective, ranks, machine.ranks_per_node(ranks), bytes, DataType::kFloat32);
      const tune::Question question{.task = task, .can = sim::flow_capabilities(machine.topology())};
      const auto answer = predict::predict(machine, {.question = question});
      if (!answer && answer.error().code == Code::kUnsupported) continue;
      if (!answer) return tl::make_unexpected(answer.error());
      Regret regret{.collective = collective,
                    .bytes = task.elements * task.element_bytes,
                    .ranks = ranks,
                    .chosen = text_of(answer->choice.plan),
                    .best = text_of(answer->choice.plan),
                    .chosen_time = answer->outcome.time,
                    .best_time = answer->outcome.time};
      WEFT_TRY(const auto plans, tune::plans(machine, question, kRegretSlack));
      for (const tune::Candidate& c : plans) {
        const auto outcome = simulate::simulate(machine, task, c.plan, {.most_steps = steps});
        if (!outcome && outcome.error().code == Code::kNoResources) {
          ++regret.skipped;
          continue;
        }
        if (!outcome) return tl::make_unexpected(outcome.error());
        ++regret.plans;
        if (outcome->time >= regret.best_time) continue;
        regret.best_time = outcome->time;
        regret.best = text_of(c.plan);
      }
      all.push_back(std::move(regret));
    }
  return all;
}

}  // namespace weft::accuracy
