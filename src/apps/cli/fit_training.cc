#include "apps/cli/fit_training.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "apps/training/answer.h"
#include "apps/training/best.h"
#include "apps/training/largest.h"
#include "apps/training/model.h"
#include "base/counted.h"

namespace weft::cli {
namespace {

constexpr double kGiB = 1073741824.0;
constexpr std::int64_t kSequencesPerGpu = 8, kMostGpus = 1024, kAdapterRank = 16;
// Nine of ten published steps are within this of the model's by levels of other sources (bench/training-accuracy.md).
constexpr double kDenseError = 0.176, kExpertsError = 0.435;

struct Found {
  training::Plan plan;
  training::Step step;
  training::Card card;
  training::StageMemory memory;
  training::Largest largest;
  training::Fit fit = training::Fit::kNo;
};

struct Answer {
  training::Model model;
  std::int64_t seq = 0;
  std::optional<Found> found;
  std::string why;                 // it does not fit
  std::vector<std::string> would;  // what makes it fit
};

Result<training::Words> words_of(const TrainingFit& asked, std::int64_t gpus, std::int64_t lora) {
  WEFT_TRY(const Machine one, load_machine(asked.preset));
  const std::int64_t per_node = one.view->endpoints();
  if (gpus > per_node && gpus % per_node != 0)
    return bad_input("--gpus {}: {} are in a node: whole nodes are needed", gpus, per_node);
  training::Words words;
  words.model = asked.model;
  words.on = gpus < per_node ? fmt::format("{}:gpus={}", asked.preset, gpus)
                             : fmt::format("{}:nodes={}", asked.preset, gpus / per_node);
  words.precision = asked.precision;
  words.plan.global_batch = kSequencesPerGpu * gpus;
  words.plan.seq = asked.context;
  words.plan.lora = lora;
  return words;
}

Result<Found> best_of(const training::Model& model, const TrainingFit& asked, std::int64_t gpus, std::int64_t lora) {
  WEFT_TRY(const training::Words words, words_of(asked, gpus, lora));
  WEFT_TRY(const Machine machine, load_machine(words.on));
  WEFT_TRY(const training::Question question, training::understand(model, *machine.view, words));
  training::Traffic traffic(*machine.view);
  WEFT_TRY(const training::Plans plans,
           training::best_plans(model, question.plan, question.card, traffic, training::kSimulatedPlans));
  const auto memory_of = [&](const training::Ranked& r) { return training::peak_memory(model, r.plan, question.card); };
  const auto certain = std::ranges::find_if(plans.ranked, [&](const training::Ranked& r) {
    return training::fit(memory_of(r), question.card) == training::Fit::kCertain;
  });
  const training::Ranked& best = certain == plans.ranked.end() ? plans.ranked.front() : *certain;
  const training::StageMemory memory = memory_of(best);
  return Found{.plan = best.plan,
               .step = best.step,
               .card = question.card,
               .memory = memory,
               .largest = training::largest(model, best.plan, question.card),
               .fit = training::fit(memory, question.card)};
}

Result<Answer> ask(const TrainingFit& asked) {
  if (asked.lora < 0 || asked.lora > 65536) return bad_input("--lora {}: 0 to 65536", asked.lora);
  WEFT_TRY(training::Model model, training::load_model(asked.model));
  // What the machine, the card and the precision are not is an error; what no plan of them fits is an answer.
  WEFT_TRY(const training::Words words, words_of(asked, asked.gpus, asked.lora));
  WEFT_TRY(const Machine machine, load_machine(words.on));
  WEFT_TRY(const training::Question question, training::understand(model, *machine.view, words));
  Answer answer{.model = std::move(model), .seq = question.plan.seq};
  auto found = best_of(answer.model, asked, asked.gpus, asked.lora);
  if (found) {
    answer.found = std::move(*found);
    return answer;
  }
  answer.why = found.error().message;
  if (asked.lora == 0 && best_of(answer.model, asked, asked.gpus, kAdapterRank))
    answer.would.push_back(fmt::format("--lora {}", kAdapterRank));
  for (std::int64_t gpus = 2 * asked.gpus; gpus <= kMostGpus; gpus *= 2)
    if (const auto more = best_of(answer.model, asked, gpus, asked.lora)) {
      answer.would.push_back(fmt::format("--gpus {} ({})", gpus, describe(more->plan)));
      break;
    }
  return answer;
}

double error_of(const Answer& a) { return a.model.moe() ? kExpertsError : kDenseError; }

double rate_of(const Answer& a, const TrainingFit& asked) {
  const Found& f = *a.found;
  return static_cast<double>(f.plan.global_batch * a.seq) / f.step.seconds / static_cast<double>(asked.gpus);
}

void print(const Answer& a, const TrainingFit& asked) {
  if (!a.found) {
    fmt::print("{}{}.\n", a.why,
               a.would.empty() ? "; nothing that was tried makes it fit"
                               : fmt::format("; it fits with {}", fmt::join(a.would, ", or ")));
    return;
  }
  const Found& f = *a.found;
  const double rate = rate_of(a, asked), error = error_of(a);
  fmt::print("{} trains on {} {}{}: {:.0f} to {:.0f} tokens/s per GPU by {}; {:.1f} of {:.0f} GiB{}.\n\n", a.model.name,
             asked.gpus, f.card.name, asked.lora > 0 ? fmt::format(" with adapters of rank {}", asked.lora) : "",
             rate * (1 - error), rate * (1 + error), describe(f.plan), f.memory.total() / kGiB, f.card.memory / kGiB,
             f.fit == training::Fit::kTight ? " (fits tightly: published memory lies within 15 %)" : "");
  fmt::print("{:<34} {:>10}\n", "memory of a GPU", "GiB");
  for (const auto& [name, bytes] : {std::pair{"the card's", f.card.memory},
                                    {"parameters", f.memory.parameters},
                                    {"gradients", f.memory.gradients},
                                    {"optimizer", f.memory.optimizer},
                                    {"activations", f.memory.activations},
                                    {"logits", f.memory.logits},
                                    {"other", f.memory.other}})
    fmt::print("{:<34} {:>10.2f}\n", name, bytes / kGiB);
  const auto most = [](std::int64_t certain, std::int64_t tight) {
    return tight > certain ? fmt::format("{} ({} tightly)", certain, tight) : fmt::format("{}", certain);
  };
  fmt::print("\n{:<34} {:>10}\n", "tokens of a sequence", a.seq);
  fmt::print("{:<34} {:>10}\n", "largest micro-batch of this plan",
             most(f.largest.micro_batch, f.largest.micro_batch_tight));
  fmt::print("{:<34} {:>10}\n", "longest sequence of this plan", most(f.largest.seq, f.largest.seq_tight));
}

nlohmann::json to_json(const Answer& a, const TrainingFit& asked) {
  nlohmann::json report{{"schema", "weft.fit/1"},  {"train", true},       {"model", a.model.name},
                        {"machine", asked.preset}, {"gpus", asked.gpus},  {"precision", asked.precision},
                        {"lora", asked.lora},      {"sequence", a.seq},   {"fits", a.found.has_value()},
                        {"why_not", a.why},        {"would_fit", a.would}};
  if (!a.found) return report;
  const Found& f = *a.found;
  report["card"] = f.card.name;
  report["tightly"] = f.fit == training::Fit::kTight;
  report["plan"] = describe(f.plan);
  report["global_batch"] = f.plan.global_batch;
  report["step_s"] = f.step.seconds;
  report["tokens_per_s_per_gpu"] = rate_of(a, asked);
  report["interval"] = error_of(a);
  report["capacity_bytes"] = f.card.memory;
  for (const auto& [name, bytes] : {std::pair{"parameters_bytes", f.memory.parameters},
                                    {"gradients_bytes", f.memory.gradients},
                                    {"optimizer_bytes", f.memory.optimizer},
                                    {"activations_bytes", f.memory.activations},
                                    {"logits_bytes", f.memory.logits},
                                    {"other_bytes", f.memory.other}})
    report[name] = bytes;
  report["largest_micro_batch"] = f.largest.micro_batch;
  report["longest_sequence"] = f.largest.seq;
  return report;
}

}  // namespace

Result<int> fit_training(const TrainingFit& asked) {
  WEFT_TRY(const Answer a, ask(asked));
  if (asked.json != "-") print(a, asked);
  if (!asked.json.empty()) WEFT_CHECK(write_json(asked.json, to_json(a, asked)));
  return a.found ? 0 : kBadAnswer;
}

Result<nlohmann::json> training_fit_json(const TrainingFit& asked) {
  WEFT_TRY(const Answer a, ask(asked));
  return to_json(a, asked);
}

}  // namespace weft::cli
