#include "apps/explore/serve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "apps/explore/ask.h"
#include "apps/explore/json_words.h"
#include "apps/serving/lanes.h"
#include "base/counted.h"
#include "base/text.h"

namespace weft::explore {
namespace {

using nlohmann::json;

// The question in words that can be changed.
constexpr std::string_view kServePhrase =
    "What do users of {model} see, served by {engine} with {precision} weights on {on} by {replicas} engines of tensor "
    "parallel {tp}, pipeline {pp}, {dp} attention replicas and experts over {ep} GPUs, prefill {prefill}, when {load} "
    "{of} send {isl} tokens each and read {osl}; and what does a million tokens cost at {price} a GPU-hour?";

template <class W>  // serving::Words, const or not
auto texts(W& w) {
  return std::array{std::pair{"model", &w.model}, std::pair{"on", &w.on}, std::pair{"engine", &w.engine},
                    std::pair{"precision", &w.plan.precision}, std::pair{"prefill", &w.prefill}};
}
template <class W>
auto sizes(W& w) {
  return std::array{std::pair{"tp", &w.plan.tp}, std::pair{"pp", &w.plan.pp},        std::pair{"ep", &w.plan.ep},
                    std::pair{"dp", &w.plan.dp}, std::pair{"replicas", &w.replicas}, std::pair{"decodes", &w.decodes}};
}
template <class W>
auto numbers(W& w) {
  return std::array{std::pair{"isl", &w.load.input}, std::pair{"osl", &w.load.output},
                    std::pair{"concurrency", &w.load.concurrency}, std::pair{"batch_tokens", &w.batch_tokens},
                    std::pair{"percentile", &w.percentile}};
}
template <class W>
auto reals(W& w) {
  return std::array{std::pair{"rate", &w.load.rate}, std::pair{"price", &w.price}, std::pair{"ttft", &w.ttft},
                    std::pair{"tpot", &w.tpot}};
}

json serve_words_json(const serving::Words& w) {
  json all = {{"faults", w.faults}};
  for (const auto& [key, value] : texts(w)) all[key] = *value;
  for (const auto& [key, value] : sizes(w)) all[key] = *value;
  for (const auto& [key, value] : numbers(w)) all[key] = *value;
  for (const auto& [key, value] : reals(w)) all[key] = *value;
  return all;
}

// The part of the words that asks weft serve for plans and their memory, engine and lengths.
std::string serve_command_of(const serving::Words& w) {
  std::string command = fmt::format("weft serve {} --on {} --engine {}", w.model, w.on, w.engine);
  if (!w.plan.precision.empty()) command += fmt::format(" --precision {}", w.plan.precision);
  command += fmt::format(" --isl {} --osl {}", w.load.input, w.load.output);
  if (w.price > 0) command += fmt::format(" --price {:.6g}", w.price);
  if (w.ttft > 0) command += fmt::format(" --ttft {:.6g}", w.ttft);
  if (w.tpot > 0) command += fmt::format(" --tpot {:.6g}", w.tpot);
  return command;
}

std::string command_of_plan(const serving::Words& w) {
  std::string command = serve_command_of(w);
  for (const auto& [option, value, usual] : {std::tuple{"tp", std::int64_t{w.plan.tp}, std::int64_t{1}},
                                             {"pp", w.plan.pp, 1},
                                             {"ep", w.plan.ep, 1},
                                             {"dp-attention", w.plan.dp, 1},
                                             {"replicas", w.replicas, 1},
                                             {"decode-engines", w.decodes, 1},
                                             {"max-num-batched-tokens", w.batch_tokens, 0},
                                             {"concurrency", w.load.concurrency, 0}})
    if (value != usual) command += fmt::format(" --{} {}", option, value);
  if (w.load.rate > 0) command += fmt::format(" --rate {:.6g}", w.load.rate);
  if (!w.prefill.empty()) command += fmt::format(" --prefill {}", w.prefill);
  for (const std::string& fault : w.faults) command += fmt::format(" --fault {}", fault);
  return command;
}

std::string serve_question_of(const serving::Words& w) {
  std::string text = fmt::format("What do users of {} by {} on {} see, {} with {} input and {} output tokens", w.model,
                                 w.engine, w.on, serving::describe(w.load), w.load.input, w.load.output);
  if (!w.faults.empty()) text += fmt::format(", with {}", fmt::join(w.faults, ", "));
  return text + "?";
}

// Four digits, as a picture needs them.
json rounded(const std::vector<double>& values) {
  json all = json::array();
  for (const double v : values) all.push_back(std::round(v * 1e4) / 1e4);
  return all;
}

json run_json(const serving::Run& run, bool apart) {
  const serving::Lanes lanes = serving::lanes_of(run, apart, kColumns, kMostEngines);
  json engines = json::array();
  for (const auto& e : lanes.engines)
    engines.push_back({{"name", e.name}, {"reads", rounded(e.reads)}, {"decodes", rounded(e.decodes)}});
  return {{"seconds", lanes.seconds},          {"engines", engines},
          {"left_out", lanes.left_out},        {"waiting", rounded(lanes.waiting)},
          {"running", rounded(lanes.running)}, {"used", rounded(lanes.used)}};
}

// The words with a row's options in them.
json words_with(serving::Words w, const report::ServeRow& row) {
  w.plan.tp = w.plan.pp = w.plan.ep = w.plan.dp = 1;
  w.replicas = w.decodes = 1;
  w.prefill.clear();
  w.load.rate = 0, w.load.concurrency = 0, w.batch_tokens = 0;
  json all = serve_words_json(w);
  for (const auto& [option, value] : row.options) {
    const std::string key = option == "dp-attention"             ? "dp"
                            : option == "decode-engines"         ? "decodes"
                            : option == "max-num-batched-tokens" ? "batch_tokens"
                                                                 : option;
    if (all.at(key).is_string())
      all[key] = value;
    else
      all[key] = json::parse(value);
  }
  return all;
}

}  // namespace

Result<serving::Words> serve_words_of(const json& question) {
  serving::Words w{.model = "llama-3.1-70b", .on = "dgx-h100"};
  w.plan.tp = 4, w.replicas = 2, w.plan.precision = "fp8", w.price = 2;
  json known = serve_words_json(w);
  for (const auto& [key, value] : question.items())
    if (key != "ask" && !known.contains(key)) return bad_input("'{}' is no word of a question about serving", key);
  for (const auto& [key, value] : texts(w)) {
    WEFT_TRY(*value, word(question, key, *value));
  }
  for (const auto& [key, value] : sizes(w)) {
    WEFT_TRY(const std::int64_t given, number(question, key, *value));
    if (given < 1 || given > 4096) return bad_input("{}: {} is not from 1 to 4096", key, given);
    *value = static_cast<Rank>(given);
  }
  for (const auto& [key, value] : numbers(w)) {
    WEFT_TRY(*value, number(question, key, *value));
  }
  for (const auto& [key, value] : reals(w)) {
    WEFT_TRY(*value, real(question, key, *value));
  }
  WEFT_TRY(w.faults, faults_of(question));
  if (w.load.rate == 0 && w.load.concurrency == 0) w.load.rate = 4;
  return w;
}

Result<json> serve(const serving::Words& words) {
  WEFT_TRY(const cost::MachineView machine, modelled_machine(words.on));
  std::shared_ptr<const serving::Run> run;
  WEFT_TRY(const report::ServeReport report, serving::serve_words(machine, words, &run));
  const std::string answer = in_a_sentence(report);
  return json{
      {"schema", "weft.explorer.serve/1"},
      {"words", serve_words_json(words)},
      {"phrase", phrase_of(kServePhrase)},
      {"question", serve_question_of(words)},
      {"answer", answer},
      {"lanes_said", fmt::format("{} Lanes of the engines over time; the tables below have the numbers.", answer)},
      {"command", command_of_plan(words)},
      {"report", to_json(report)},
      {"lanes", run ? run_json(*run, !words.prefill.empty()) : json()}};
}

Result<json> frontier(const serving::Words& asked) {
  serving::Words words = asked;
  words.load.rate = 0, words.load.concurrency = 0, words.replicas = words.decodes = 1,
  words.plan.tp = words.plan.pp = 1;
  words.plan.ep = words.plan.dp = 1, words.batch_tokens = 0;
  words.prefill.clear(), words.faults.clear();
  WEFT_TRY(const cost::MachineView machine, modelled_machine(words.on));
  WEFT_TRY(const report::ServeReport report, serving::best_words(machine, words, {}));
  json rows = json::array(), line = json::array();
  for (const auto& row : report.rows) rows.push_back(words_with(words, row));
  for (const auto& row : report.frontier) line.push_back(words_with(words, row));
  const auto holds = std::ranges::count_if(report.rows, [](const auto& r) { return r.fits; });
  return json{{"schema", "weft.explorer.frontier/1"},
              {"answer",
               fmt::format("{} of {} were tried; {} hold the goal. The line joins points that no other beats in output "
                           "tokens/s per GPU and per user.{}",
                           counted(report.tried, "point"), counted(report.rows.size(), "plan"), counted(holds, "plan"),
                           asked.faults.empty() ? "" : " All are of the machine without its faults.")},
              {"command", serve_command_of(words) + " --best"},
              {"report", to_json(report)},
              {"row_words", rows},
              {"frontier_words", line}};
}

}  // namespace weft::explore
