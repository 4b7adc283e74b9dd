#include "apps/explore/ask.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/explore/explore.h"
#include "apps/explore/generations.h"
#include "apps/explore/json_words.h"
#include "apps/explore/own_table.h"
#include "base/counted.h"
#include "base/text.h"
#include "plan/collectives/registry.h"
#include "plan/cost/shipped.h"
#include "plan/protocol/protocol.h"
#include "plan/schedule/collective.h"
#include "plan/schedule/element.h"
#include "plan/schedule/exchange/written.h"

namespace weft::explore {
namespace {

using nlohmann::json;

Result<Words> words_of(const json& question) {
  static constexpr std::string_view kKeys[] = {"ask",   "collective", "on",   "bytes", "dtype",  "algo",
                                               "proto", "ranks",      "root", "chunk", "faults", "curves"};
  for (const auto& [key, value] : question.items())
    if (std::ranges::find(kKeys, key) == std::end(kKeys)) return bad_input("'{}' is no word of a question", key);
  Words w;
  WEFT_TRY(w.collective, word(question, "collective", w.collective));
  WEFT_TRY(w.on, word(question, "on", w.on));
  WEFT_TRY(w.bytes, word(question, "bytes", w.bytes));
  WEFT_TRY(w.type, word(question, "dtype", w.type));
  WEFT_TRY(w.algorithm, word(question, "algo", ""));
  WEFT_TRY(w.protocol, word(question, "proto", ""));
  WEFT_TRY(w.ranks, number(question, "ranks", w.ranks));
  WEFT_TRY(w.root, number(question, "root", w.root));
  WEFT_TRY(w.chunk, number(question, "chunk", w.chunk));
  WEFT_TRY(w.faults, faults_of(question));
  return w;
}

json words_there_are() {
  json machines = json::array(), collectives = json::array(), types = json::array(), protocols = json::array();
  for (const topology::PresetInfo& preset : topology::presets())
    machines.push_back({{"name", preset.name}, {"summary", preset.summary}});
  for (const Collective collective : schedule::kCollectives) {
    json algorithms = json::array();
    for (const schedule::Algorithm* a : collectives::algorithms_for(collective)) algorithms.push_back(a->name);
    collectives.push_back({{"name", schedule::name(collective)}, {"algorithms", algorithms}});
  }
  for (int type = 0; type < kDataTypes; ++type) types.push_back(schedule::name(static_cast<DataType>(type)));
  for (const protocol::Protocol protocol : protocol::kProtocols) protocols.push_back(protocol::traits(protocol).name);
  return {{"schema", "weft.explorer.words/1"},
          {"machines", machines},
          {"collectives", collectives},
          {"types", types},
          {"protocols", protocols}};
}

json generations_there_are() {
  json all = json::array();
  for (const Generation& g : generations())
    all.push_back({{"family", g.family},
                   {"title", g.title},
                   {"year", g.year},
                   {"of", g.of},
                   {"GBps", g.GBps},
                   {"source", g.source},
                   {"date", g.date}});
  return {{"schema", "weft.explorer.generations/1"}, {"generations", all}};
}

// The question's words, understood.
struct Understood {
  cost::MachineView machine;
  Question question;
};
Result<Understood> understand(const Words& words, const std::string& calibration, const topology::FileReader& reader) {
  WEFT_TRY(const Collective collective, schedule::parse_collective(words.collective));
  WEFT_TRY(const DataType type, schedule::parse_type(words.type));
  WEFT_TRY(const Bytes bytes, parse_message("--bytes", words.bytes));
  WEFT_TRY(cost::MachineView machine, modelled_machine(words.on, calibration, reader));
  WEFT_TRY(const Rank ranks, cost::ranks_on(machine, words.on, words.ranks));
  if (words.root < 0 || words.root >= ranks)
    return bad_input("--root {} is not one of {}", words.root, counted(ranks, "rank"));
  schedule::Task task = schedule::task_of(collective, ranks, machine.ranks_per_node(ranks), bytes, type);
  task.root = static_cast<Rank>(words.root);
  return Understood{std::move(machine),
                    {words.on, task, words.algorithm, words.protocol, words.faults, words.chunk, words.curves}};
}

// The question in words that can be changed.
std::vector<report::Explorer::Piece> phrase() {
  const auto text = [](const char* t) { return report::Explorer::Piece{t, {}}; };
  const auto word = [](const char* w) { return report::Explorer::Piece{{}, w}; };
  return {text("How long does "), word("collective"), text(" of "),        word("bytes"),      text(" of "),
          word("dtype"),          text(" take on "),  word("ranks"),       text(" ranks of "), word("on"),
          text(" by "),           word("algo"),       text(", protocol "), word("proto"),      text("?")};
}

// Does the word name a schedule's file that is not proved?
Result<bool> is_wrong(const std::string& algorithm) {
  if (!schedule::names_file(algorithm)) return false;
  WEFT_TRY(const schedule::Document document, schedule::read_document(algorithm));
  return !schedule::prove(document).ok();
}

// {"points": [[bytes, GB/s], …]} beside the words: see judge().
Result<json> guess_judged(json question) {
  std::vector<Guess> guesses;
  const json points = question.value("points", json::array());
  question.erase("points");
  if (!points.is_array()) return bad_input("points: {} is not a list of sizes and bandwidths", points.dump());
  for (const json& p : points) {
    if (!p.is_array() || p.size() != 2 || !p[0].is_number() || !p[1].is_number())
      return bad_input("points: {} is not a size and a bandwidth", p.dump());
    guesses.push_back({p[0].get<Bytes>(), p[1].get<double>()});
  }
  WEFT_TRY(Words words, words_of(question));
  words.algorithm.clear(), words.protocol.clear();
  WEFT_TRY(const Understood asked, understand(words, {}, {}));
  WEFT_TRY(const std::string answer, judge(asked.machine, asked.question, guesses));
  return json{{"schema", "weft.explorer.guess/1"}, {"answer", answer}};
}

// {"text": …} beside the words: see own_table().
Result<json> table_beside(json question) {
  WEFT_TRY(const std::string text, word(question, "text", ""));
  question.erase("text");
  WEFT_TRY(const Words words, words_of(question));
  WEFT_TRY(const Understood asked, understand(words, {}, {}));
  WEFT_TRY(const OwnTable own, own_table(asked.machine, asked.question, text));
  json rows = json::array();
  for (const OwnTable::Row& row : own.rows)
    rows.push_back({{"bytes", row.bytes}, {"busbw_GBps", row.busbw_GBps}, {"predicted_GBps", row.predicted_GBps}});
  return json{{"schema", "weft.explorer.table/1"}, {"answer", own.answer}, {"rows", rows}};
}

// Takes [algorithm, protocol] out of the question. Errors (bad input): names `key`.
Result<std::pair<std::string, std::string>> take_pair(json& question, const char* key) {
  const json pair = question.value(key, json());
  question.erase(key);
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
    return bad_input("{}: {} is not an algorithm and a protocol", key, pair.dump());
  return std::pair(pair[0].get<std::string>(), pair[1].get<std::string>());
}

// {"answered": [algorithm, protocol], "points": true or false} beside the words: see curves_of().
Result<json> curves_beside(json question) {
  WEFT_TRY(const auto answered, take_pair(question, "answered"));
  const json points = question.value("points", json(true));
  question.erase("points");
  if (!points.is_boolean()) return bad_input("points: {} is neither true nor false", points.dump());
  WEFT_TRY(const Words words, words_of(question));
  WEFT_TRY(const Understood asked, understand(words, {}, {}));
  WEFT_TRY(const report::Explorer e,
           curves_of(asked.machine, asked.question, answered.first, answered.second, points.get<bool>()));
  return json{{"schema", "weft.explorer.curves/1"}, {"curves", curves_to_json(e)}};
}

// {"of": [algorithm, protocol]} beside the words: see curve_of().
Result<json> curve_beside(json question) {
  WEFT_TRY(const auto of, take_pair(question, "of"));
  WEFT_TRY(const Words words, words_of(question));
  WEFT_TRY(const Understood asked, understand(words, {}, {}));
  WEFT_TRY(const auto points, curve_of(asked.machine, asked.question, of.first, of.second));
  return json{{"schema", "weft.explorer.curve/1"}, {"busbw_GBps", points}};
}

Result<json> estimate_of(const json& question) {
  WEFT_TRY(const Words words, words_of(question));
  WEFT_TRY(const bool wrong, is_wrong(words.algorithm));
  if (wrong) return bad_input("a schedule that is not proved has no time");
  WEFT_TRY(const Understood asked, understand(words, {}, {}));
  WEFT_TRY(const Estimated e, estimate(asked.machine, asked.question));
  return json{{"schema", "weft.explorer.estimate/1"}, {"answer", e.sentence}, {"time_us", e.time.us()}};
}

Result<json> answer_to(std::string_view text) {
  const json question = json::parse(text, nullptr, false);
  if (!question.is_object()) return bad_input("the question is not a JSON object");
  WEFT_TRY(const std::string asked, word(question, "ask", ""));
  if (asked == "words") return words_there_are();
  if (asked == "generations") return generations_there_are();
  if (asked == "estimate") return estimate_of(question);
  if (asked == "guess") return guess_judged(question);
  if (asked == "table") return table_beside(question);
  if (asked == "curves") return curves_beside(question);
  if (asked == "curve") return curve_beside(question);
  if (asked != "answer")
    return bad_input("ask: '{}' is none of answer, curve, curves, estimate, generations, guess, table, words", asked);
  WEFT_TRY(Words words, words_of(question));
  if (const auto curves = question.find("curves"); curves != question.end()) {
    if (!curves->is_boolean()) return bad_input("curves: {} is neither true nor false", curves->dump());
    words.curves = curves->get<bool>();
  }
  WEFT_TRY(const report::Explorer report, answer(words));
  return to_json(report);
}

}  // namespace

Result<cost::MachineView> modelled_machine(const std::string& on, const std::string& calibration,
                                           const topology::FileReader& reader) {
  if (on.empty() || on == "this") return bad_input("explore shows modelled machines: --on needs a preset or a file");
  WEFT_TRY(auto topology, topology::load_machine(on, reader));
  WEFT_TRY(const auto constants, cost::read_calibration(calibration));
  return cost::shipped_view(std::move(topology), constants);
}

Result<report::Explorer> answer(const Words& words, const std::string& calibration,
                                const topology::FileReader& reader) {
  WEFT_TRY(const Understood asked, understand(words, calibration, reader));
  WEFT_TRY(const bool wrong, is_wrong(words.algorithm));
  WEFT_TRY(report::Explorer report,
           wrong ? wrong_answer(asked.machine, asked.question) : answer(asked.machine, asked.question));
  report.words = words;
  report.words.collective = schedule::name(asked.question.task.collective);  // as the page's list has it
  report.phrase = phrase();
  return report;
}

std::string ask(std::string_view question) {
  const auto answer = answer_to(question);
  return (answer ? *answer : json{{"schema", "weft.error/1"}, {"message", answer.error().message}})
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace weft::explore
