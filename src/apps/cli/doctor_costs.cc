#include "apps/cli/doctor_costs.h"

#include "apps/doctor/causes.h"
#include "apps/doctor/fault.h"
#include "base/text.h"
#include "model/predict/predict.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/simulate/faults.h"

namespace weft::cli {

Status DoctorCosts::train(const std::string& workload) {
  WEFT_TRY(words_, training::parse_words(workload));
  WEFT_TRY(model_, training::load_model(words_.model));
  words_.on = machine_.name;
  return {};
}

// The time is that of a step, or of the all_reduce as `weft bench` prints it.
Result<Duration> DoctorCosts::time_on(const cost::MachineView& view) {
  if (model_) {
    WEFT_TRY(const training::Answer answer, training::answer(*model_, view, words_));
    return Duration::seconds(answer.step.seconds);
  }
  const Rank ranks = view.endpoints();
  const schedule::Task task =
      task_of(Collective::kAllReduce, ranks, view.ranks_per_node(ranks), bytes_, DataType::kFloat32);
  WEFT_TRY(const predict::Answer found,
           predict::predict(view, {.question = {.task = task, .can = sim::flow_capabilities(view.topology())}}));
  return found.outcome.time;
}

Result<Duration> DoctorCosts::broken(const std::string& fault) {
  WEFT_TRY(const doctor::Cause cause, doctor::parse_change(fault));
  auto machine = doctor::changed(machine_.view->topology(), cause);
  if (!machine) return bad_input("{} has no such part", machine_.name);
  bool slow_rank = false;  // of what happens to ranks and not to the machine
  for (const std::string& one : cause.faults) slow_rank = slow_rank || one.starts_with("rank:");
  if (slow_rank && model_) {
    training::Words words = words_;
    words.faults = cause.faults;
    WEFT_TRY(const training::Answer answer, training::answer(*model_, *machine_.view, words));
    return Duration::seconds(answer.step.seconds);
  }
  if (slow_rank) return bad_input("a slow GPU costs a training step: --workload");
  if (!cause.faults.empty()) {
    WEFT_TRY(auto faulted, simulate::apply_faults(*machine, cause.faults));
    *machine = std::move(faulted.machine);
  }
  return time_on(cost::MachineView(std::move(*machine), machine_.view->costs()));
}

std::string DoctorCosts::of(const doctor::Rule& rule, const report::DoctorFinding& finding) {
  const auto gpus = static_cast<double>(machine_.view->endpoints());
  const std::string standing =
      price_ > 0 && rule.role == doctor::Role::kRoot
          ? fmt::format("while the job stands, {:.4g} an hour for {:.0f} GPUs at {:.4g} per GPU-hour", gpus * price_,
                        gpus, price_)
          : "";
  if (rule.fault.empty()) return standing;
  const std::string fault = doctor::fault_of(rule, finding, machine_.view->topology(),
                                             machine_.view->ranks_per_node(machine_.view->endpoints()));
  const std::pair<std::string, bool> key(fault, !standing.empty());
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  std::string& text = known_[key];
  if (!healthy_) {
    const auto whole = time_on(*machine_.view);
    if (!whole) return text = fmt::format("not known: {}", whole.error().message);
    healthy_ = *whole;
  }
  const auto time = broken(fault);
  if (!time) return text = fmt::format("not known: {}", time.error().message);
  const std::string what = model_ ? "a step of " + model_->name : "all_reduce of " + format_bytes(bytes_);
  text = fmt::format("{} on {}: {} instead of {} ({:+.1f} %), with {}", what, machine_.name, format_duration(*time),
                     format_duration(*healthy_), 100 * (*time / *healthy_ - 1), fault);
  if (!standing.empty()) text += "; " + standing;
  if (price_ > 0 && model_)
    text += fmt::format("; {:.4g} a day at {:.4g} per GPU-hour", 24 * gpus * (1 - *healthy_ / *time) * price_, price_);
  return text;
}

}  // namespace weft::cli
