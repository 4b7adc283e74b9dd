#include "apps/explore/train.h"

#include <algorithm>

#include "apps/explore/ask.h"
#include "apps/explore/json_words.h"
#include "apps/training/best.h"
#include "base/counted.h"
#include "base/text.h"

namespace weft::explore {
namespace {

using nlohmann::json;

std::string command_of(const training::Model& model, const training::Words& words, const training::Plan& plan) {
  std::string command = fmt::format(
      "weft train {} --on {} --tp {} --pp {} --vp {} --ep {} --cp {} --zero {} --micro-batch {} --global-batch {} "
      "--seq {} --recompute {} --schedule {} --precision {}",
      model.name, words.on, plan.tp, plan.pp, plan.vp, plan.ep, plan.cp, plan.zero, plan.micro_batch, plan.global_batch,
      plan.seq, words.recompute, words.schedule, words.precision);
  if (plan.bucket > 0) command += fmt::format(" --bucket {}", plan.bucket);
  if (plan.overlap == 0) command += " --overlap 0";
  if (words.run.tokens > 0) command += fmt::format(" --tokens {:.6g}", words.run.tokens);
  if (words.run.tokens > 0 && words.run.price > 0) command += fmt::format(" --price {:.6g}", words.run.price);
  for (const std::string& fault : words.faults) command += fmt::format(" --fault {}", fault);
  return command;
}

std::string question_of(const training::Model& model, const training::Words& words, const training::Plan& plan) {
  std::string text = fmt::format("How long is a training step of {} on {}, {} of {} tokens", model.name, words.on,
                                 counted(plan.global_batch, "sequence"), plan.seq);
  if (!words.faults.empty()) text += fmt::format(", with {}", fmt::join(words.faults, ", "));
  return text + "?";
}

// The question in words that can be changed.
constexpr std::string_view kTrainPhrase =
    "How long is a training step of {model} on {on}, {global_batch} sequences of {seq} tokens in micro-batches of "
    "{micro_batch}, with tensor parallel {tp}, pipeline {pp} of {vp} chunks a stage by {schedule}, context {cp}, "
    "experts over {ep}, ZeRO {zero}, recomputing {recompute}, in {precision}; and what do {tokens} tokens cost at "
    "{price} a GPU-hour?";

json lanes_of(const training::Step& step) {
  json lanes = json::array();
  for (std::size_t s = 0; s < step.data_begin.size(); ++s)
    lanes.push_back({{"passes", json::array()},
                     {"gradients", {step.data_begin[s], step.data_end[s]}},
                     {"optimizer", {step.data_end[s], step.data_end[s] + step.parts.optimizer}}});
  if (step.pipeline.pieces.size() > kMostPieces) return lanes;
  for (const auto& p : step.pipeline.pieces)
    lanes[static_cast<std::size_t>(p.stage)]["passes"].push_back({{"pass", std::string(1, p.pass)},
                                                                  {"micro_batch", p.micro_batch},
                                                                  {"chunk", p.chunk},
                                                                  {"s", {p.begin, p.end}}});
  return lanes;
}

json words_json(const training::Words& w) {
  return {{"model", w.model},
          {"on", w.on},
          {"tp", w.plan.tp},
          {"pp", w.plan.pp},
          {"vp", w.plan.vp},
          {"ep", w.plan.ep},
          {"cp", w.plan.cp},
          {"zero", w.plan.zero},
          {"micro_batch", w.plan.micro_batch},
          {"global_batch", w.plan.global_batch},
          {"seq", w.plan.seq},
          {"bucket", w.plan.bucket},
          {"overlap", w.plan.overlap},
          {"recompute", w.recompute},
          {"schedule", w.schedule},
          {"precision", w.precision},
          {"tokens", w.run.tokens},
          {"price", w.run.price},
          {"faults", w.faults}};
}

}  // namespace

Result<training::Words> train_words_of(const json& question) {
  training::Words w;
  w.plan.zero = 3;
  w.plan.global_batch = 64;
  WEFT_TRY(w.model, word(question, "model", w.model));
  WEFT_TRY(w.on, word(question, "on", w.on));
  WEFT_TRY(w.recompute, word(question, "recompute", w.recompute));
  WEFT_TRY(w.schedule, word(question, "schedule", w.schedule));
  WEFT_TRY(w.precision, word(question, "precision", w.precision));
  WEFT_TRY(w.faults, faults_of(question));
  WEFT_TRY(w.run.tokens, real(question, "tokens", 1e12));
  WEFT_TRY(w.run.price, real(question, "price", 2));
  if (!(w.run.tokens >= 0) || !(w.run.price >= 0)) return bad_input("tokens and price: numbers not below 0");
  static constexpr std::string_view kTexts[] = {"ask",       "model",  "on",     "recompute", "schedule",
                                                "precision", "faults", "tokens", "price"};
  for (const auto& [key, value] : question.items()) {
    if (value.is_null() || std::ranges::find(kTexts, key) != std::end(kTexts)) continue;
    if (!training::set_number(w, key, 0)) return bad_input("'{}' is no word of a question about training", key);
    WEFT_TRY(const std::int64_t given, number(question, key.c_str(), 0));
    training::set_number(w, key, given);
  }
  return w;
}

Result<json> train(const training::Words& words) {
  WEFT_TRY(const training::Model model, training::load_model(words.model));
  WEFT_TRY(const cost::MachineView machine, modelled_machine(words.on));
  WEFT_TRY(const training::Answer answer, training::answer(model, machine, words));
  double until = answer.step.seconds;  // stages that do not wait for each other end one after the other
  for (const double end : answer.step.data_end) until = std::max(until, end + answer.step.parts.optimizer);
  const bool too_many = answer.step.pipeline.pieces.size() > kMostPieces;
  return json{
      {"schema", "weft.explorer.train/1"},
      {"words", words_json(words)},
      {"phrase", phrase_of(kTrainPhrase)},
      {"question", question_of(model, words, answer.question.plan)},
      {"answer", in_a_sentence(answer.report)},
      {"lanes_said", fmt::format("{} Lanes of {}; the tables below have the numbers.", in_a_sentence(answer.report),
                                 counted(answer.step.data_begin.size(), "stage"))},
      {"command", command_of(model, words, answer.question.plan)},
      {"report", to_json(answer.report)},
      {"lanes", lanes_of(answer.step)},
      {"seq", answer.question.plan.seq},
      {"until_s", until},
      {"left_out", too_many ? fmt::format("The step has {} passes; lanes show at most {}.",
                                          answer.step.pipeline.pieces.size(), kMostPieces)
                            : std::string()}};
}

Result<json> plans(const training::Words& words) {
  constexpr std::size_t kShown = 12;
  WEFT_TRY(const training::Model model, training::load_model(words.model));
  WEFT_TRY(const cost::MachineView machine, modelled_machine(words.on));
  WEFT_TRY(const training::Question question, training::understand(model, machine, words));
  training::Traffic traffic(machine);
  WEFT_TRY(const training::Plans found,
           training::best_plans(model, question.plan, question.card, traffic, training::kSimulatedPlans));
  json rows = json::array();
  for (const training::Ranked& r : found.ranked) {
    if (rows.size() == kShown) break;
    training::Words own = words;
    own.plan = r.plan;
    own.recompute = name(r.plan.recompute);
    own.schedule = name(r.plan.schedule);
    rows.push_back({{"plan", describe(r.plan)},
                    {"step_s", r.step.seconds},
                    {"mfu", r.step.mfu},
                    {"memory_bytes", r.step.peak.total()},
                    {"reason", r.reason},
                    {"words", words_json(own)}});
  }
  return json{
      {"schema", "weft.explorer.plans/1"},
      {"answer",
       fmt::format(
           "{} were tried: {} fit, {} need too much memory. The first {} are simulated, the others estimated.{}",
           counted(found.tried, "plan"), found.ranked.size(), found.refused.size(),
           std::min<std::size_t>(training::kSimulatedPlans, found.ranked.size()),
           words.faults.empty() ? "" : " All are plans of the machine without its faults.")},
      {"rows", rows}};
}

}  // namespace weft::explore
