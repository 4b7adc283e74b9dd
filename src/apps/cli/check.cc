#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "apps/cli/at_least.h"
#include "apps/cli/check_matrix.h"
#include "apps/cli/check_pair.h"
#include "apps/cli/check_table.h"
#include "apps/cli/commands.h"
#include "apps/doctor/columns.h"
#include "apps/doctor/matrix.h"
#include "apps/doctor/tables.h"
#include "base/counted.h"
#include "base/job_text.h"
#include "base/text.h"
#include "base/text_file.h"

namespace weft::cli {
namespace {

using doctor::PerfTable;

constexpr const char* kExamples = R"(
Is this table of nccl-tests what the machine should deliver? Reads the text of all_reduce_perf and its siblings, of
OSU's and IMB's collectives, of perftest or of weft bench as it was printed, with prompts and other lines around; and
tables with columns of their own (text, Markdown, CSV) whose header names a size and a time or a bandwidth. Matrices of
nvbandwidth and p2pBandwidthLatencyTest are held against the machine's links, or pair against pair.
Without --on the machine is guessed from the table's list of devices. Each row is held against the model: what NCCL
would choose, timed by weft's simulator. If large messages are slow, causes are replayed in the simulated machine one
after the other; they are listed by their likelihood, and that the model is at fault is one of them. Both columns are
judged, out of place and in place. Several tables in one file are judged each for itself. Exit 1 if a table is slow or
counts wrong elements, 2 if one contradicts itself or is of no collective.

Examples:
  weft check perf.txt --on dgx-h100:nodes=2
  weft check gather.txt --on dgx-a100 --collective all_gather
)";

// "line 9: all_reduce, float sum, 16 ranks".
std::string title_of(const PerfTable& table) {
  std::vector<std::string> words;
  if (!table.collective.empty()) words.push_back(table.collective);
  if (!table.rows.empty())
    for (const std::string& word : {table.rows[0].type, table.rows[0].operation})
      if (!word.empty() && word != "none") words.push_back(word);
  if (table.ranks > 0) words.push_back(fmt::format("{} ranks", table.ranks));
  return fmt::format("line {}{}{}", table.line, words.empty() ? "" : ": ", fmt::join(words, ", "));
}

// Each for itself; the status is the worst of them.
Result<int> check_each(const CheckSpec& spec, std::string_view text, const std::vector<PerfTable>& tables) {
  CheckAnswer worst;
  nlohmann::json all = nlohmann::json::array();
  std::size_t number = 0;
  for (const PerfTable& table : tables) {
    const std::string title = fmt::format("Table {} of {} ({})", ++number, tables.size(), title_of(table));
    const bool prints = spec.json != "-";
    if (prints) fmt::print("{}{}\n", number > 1 ? "\n" : "", title);
    auto answer = table.refused.empty() ? check_table(spec, text, table, "")
                                        : Result<CheckAnswer>(bad_input("{}: {}", spec.table, shown(table.refused)));
    if (!answer) {
      fmt::print(stderr, "weft: {}: {}\n", title, answer.error().message);
      all.push_back({{"schema", "weft.check/1"}, {"line", table.line}, {"error", answer.error().message}});
      worst.status = std::max(worst.status, kBadInput);
      continue;
    }
    if (worst.json.is_null() || answer->status > worst.status) worst.json = answer->json;
    worst.status = std::max(worst.status, answer->status);
    all.push_back(std::move(answer->json));
  }
  if (!spec.json.empty()) {
    if (worst.json.is_null()) worst.json = {{"schema", "weft.check/1"}};
    worst.json["tables"] = std::move(all);
    WEFT_CHECK(write_json(spec.json, worst.json));
  }
  return worst.status;
}

// Tables that can be judged. Of a file that has such, those that are of no collective are named.
std::vector<PerfTable> judgeable(const CheckSpec& spec, std::vector<PerfTable> all) {
  std::erase_if(all, [](const PerfTable& t) { return t.rows.empty() && t.refused.empty(); });
  const auto refused = [](const PerfTable& t) { return !t.refused.empty(); };
  if (std::ranges::all_of(all, refused)) return all;
  for (const PerfTable& table : all)
    if (refused(table)) fmt::print(stderr, "weft: {}: left out: {}\n", spec.table, shown(table.refused));
  std::erase_if(all, refused);
  return all;
}

Result<int> run(const CheckSpec& spec) {
  WEFT_TRY(std::string text, read_text_file(spec.table));
  text = plain_text(std::move(text));
  std::vector<PerfTable> tables = judgeable(spec, doctor::read_tables(text));
  const bool judged = !tables.empty() && tables.front().refused.empty();
  const auto beside = [&](const char* what) {
    if (judged)
      fmt::print(stderr, "weft: {}: {} judged; {} of collectives beside: put {} into a file of {} own\n", spec.table,
                 what, counted(tables.size(), "table"), tables.size() == 1 ? "it" : "them",
                 tables.size() == 1 ? "its" : "their");
  };
  if (const auto pair = doctor::read_perftest(text)) {
    beside("the table of a pair is");
    return check_pair(spec.table, spec.on, spec.json, *pair);
  }
  if (const auto matrices = doctor::read_matrices(text); !matrices.all.empty() || !matrices.waived.empty()) {
    beside("matrices are");
    return check_matrices(spec.table, spec.on, spec.json, matrices);
  }
  if (tables.size() == 1 && !tables[0].refused.empty())
    return bad_input("{}: {}", spec.table, shown(tables[0].refused));
  if (tables.size() > 1) return check_each(spec, text, tables);
  PerfTable table = tables.empty() ? doctor::read_table(text) : std::move(tables[0]);
  std::string own_columns;
  if (table.rows.empty()) {
    const auto columns = doctor::read_columns(text, spec.column);
    if (columns && columns->pair) return check_pair(spec.table, spec.on, spec.json, *columns->pair);
    WEFT_TRY(own_columns, take_columns(spec, text, columns, table));
  }
  WEFT_TRY(const CheckAnswer answer, check_table(spec, text, std::move(table), own_columns));
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, answer.json));
  return answer.status;
}

}  // namespace

Command add_check(CLI::App& app) {
  auto spec = std::make_shared<CheckSpec>();
  CLI::App* sub = app.add_subcommand("check", "Is a table of nccl-tests what the machine should deliver");
  sub->add_option("table", spec->table, "text that all_reduce_perf or a sibling printed")->required();
  sub->add_option("--on", spec->on, "the machine it was measured on (default: guessed from the table)");
  sub->add_option("--collective", spec->collective, "that was measured (default: as the table says, else all_reduce)");
  sub->add_option("--column", spec->column, "of times, in a table with columns of its own: a part of its name");
  sub->add_option("--ranks,-n", spec->ranks, "of it (default: as the table lists, else every GPU of the machine)")
      ->check(at_least(0));
  sub->add_option("--gpus-per-thread", spec->together, "nccl-tests' -g (default: as the table says, else 1)")
      ->check(at_least(0));
  sub->add_option("--json", spec->json, "write weft.check/1 to this file; - is stdout instead of the table")
      ->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }};
}

}  // namespace weft::cli
