#include "apps/cli/fit_training.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "apps/training/answer.h"
#include "apps/training/best.h"
#include "apps/training/largest.h"
#include "apps/training/model.h"

namespace weft::cli {
namespace {

constexpr double kGiB = 1073741824.0;
constexpr std::int64_t kSequencesPerGpu = 8, kMostGpus = 1024, kAdapterRank = 16;
// Nine of ten published steps are within this of the model's by levels of other sources (bench/training-accuracy.md).
constexpr double kDenseError = 0.178, kExpertsError = 0.435;

struct Found {
  training::Plan plan;
  std::string card;
  report::TrainRow row;
  training::Largest largest;
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
  const auto certain = std::ranges::find_if(plans.ranked, [&](const training::Ranked& r) {
    return training::fit(r.step.peak, question.card) == training::Fit::kCertain;
  });
  const training::Ranked& best = certain == plans.ranked.end() ? plans.ranked.front() : *certain;
  return Found{.plan = best.plan,
               .card = question.card.name,
               .row = training::row_of(best.plan, best.step, question.card),
               .largest = training::largest(model, best.plan, question.card)};
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

bool fits_tightly(const Found& f) { return f.row.fit == training::name(training::Fit::kTight); }

double error_of(const Answer& a) { return a.model.moe() ? kExpertsError : kDenseError; }

void print(const Answer& a, const TrainingFit& asked) {
  if (!a.found) {
    fmt::print("{}{}.\n", a.why,
               a.would.empty() ? "; nothing that was tried makes it fit"
                               : fmt::format("; it fits with {}", fmt::join(a.would, ", or ")));
    return;
  }
  const Found& f = *a.found;
  const double rate = f.row.tokens_per_gpu, error = error_of(a);
  double total = 0;
  for (const auto& [name, bytes] : f.row.memory) total += bytes;
  fmt::print("{} trains on {} {}{}: {:.0f} to {:.0f} tokens/s per GPU by {}; {:.1f} of {:.0f} GiB{}.\n\n", a.model.name,
             asked.gpus, f.card, asked.lora > 0 ? fmt::format(" with adapters of rank {}", asked.lora) : "",
             rate * (1 - error), rate * (1 + error), f.row.plan, total / kGiB, f.row.capacity / kGiB,
             fits_tightly(f)
                 ? fmt::format(" (fits tightly: published memory lies within {:.0f} %)", 100 * training::kMemoryMargin)
                 : "");
  fmt::print("{:<34} {:>10}\n{:<34} {:>10.2f}\n", "memory of a GPU", "GiB", "the card's", f.row.capacity / kGiB);
  for (const auto& [name, bytes] : f.row.memory) fmt::print("{:<34} {:>10.2f}\n", name, bytes / kGiB);
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
  report["card"] = f.card;
  report["tightly"] = fits_tightly(f);
  report["plan"] = f.row.plan;
  report["global_batch"] = f.plan.global_batch;
  report["step_s"] = f.row.seconds;
  report["tokens_per_s_per_gpu"] = f.row.tokens_per_gpu;
  report["interval"] = error_of(a);
  report["capacity_bytes"] = f.row.capacity;
  for (const auto& [name, bytes] : f.row.memory) report[name + "_bytes"] = bytes;
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
