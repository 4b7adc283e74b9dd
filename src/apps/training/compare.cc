#include "apps/training/compare.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "apps/training/files.h"
#include "apps/training/measured_steps.h"
#include "apps/training/step.h"
#include "base/text_file.h"

namespace weft::training {
namespace {

using nlohmann::json;

bool contains(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

constexpr double kDiffer = 0.03;  // pairs whose steps are nearer to each other have no order

Status predict(const StepTable& table, const StepLine& line, StepMachines& machines, const OwnCards& cards,
               Compared& row) {
  WEFT_TRY(const std::int64_t gpus, table.count(line, "gpus", 0));
  row.gpus = static_cast<double>(gpus);
  WEFT_TRY(row.measured, table.number(line, "step_s", 0));
  const std::string memory = table.text(line, "mem_gib");
  row.out_of_memory = memory == "OOM";
  if (!row.out_of_memory) {
    WEFT_TRY(row.memory, table.number(line, "mem_gib", 0));
  }
  WEFT_TRY(const Model model, model_of(table, line));
  WEFT_TRY(row.plan, plan_of(table, line, gpus));
  row.moe = model.moe();
  row.fitted = fitted_on(row.set, row.plan.precision);
  row.plan_text = describe(row.plan);
  row.flops_per_gpu = model.flops_per_token(row.plan.seq) * static_cast<double>(row.plan.global_batch * row.plan.seq) /
                      row.gpus * (row.plan.recompute == Recompute::kFull ? 4.0 / 3 : 1);
  if (contains(table.text(line, "arch"), "hybrid")) row.skipped = "layers without attention (Mamba) are not modelled";
  if (contains(table.text(line, "flag"), "changes the model")) row.skipped = "the row changes the model";
  if (contains(table.text(line, "schedule"), "all-reduce"))
    row.skipped = "an optimizer that all stages wait for is not modelled";
  if (row.measured == 0 && !row.out_of_memory) row.skipped = "no step time";
  if (!row.skipped.empty()) return {};
  const auto found = machines.find(row.gpu, gpus);
  if (!found) return row.skipped = found.error().message, Status{};
  const auto card = load_card(found->card, row.plan.precision, cards);
  if (!card) return row.skipped = card.error().message, Status{};
  if (const auto divides = check_plan(model, row.plan); !divides)
    return row.skipped = divides.error().message, Status{};
  const auto step = simulate_step(model, row.plan, *card, *found->machine->traffic);
  if (!step) return row.skipped = step.error().message, Status{};
  row.predicted = step->seconds;
  row.fits = step->fits;
  // Rows that say neither what they recompute nor what they need say nothing about memory.
  row.memory_judged = row.out_of_memory || row.memory > 0 || !table.text(line, "recompute").empty();
  row.memory_predicted = step->peak.total() / kGiB;
  return {};
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

template <class Chosen, class Error>
Spread spread(const std::vector<Compared>& rows, Chosen&& chosen, Error&& error) {
  std::vector<double> sizes, signs;
  for (const Compared& row : rows) {
    if (!row.skipped.empty() || row.measured <= 0 || !chosen(row)) continue;
    const std::optional<double> e = error(row);
    if (e) sizes.push_back(std::abs(*e)), signs.push_back(*e);
  }
  return {sizes.size(), quantile(sizes, 0.5), quantile(sizes, 0.9), quantile(signs, 0.5)};
}

std::optional<double> model_error(const Compared& r) { return r.error(); }
std::optional<double> simple_error(const Compared& r) {
  return r.simple > 0 ? std::optional(r.simple / r.measured - 1) : std::nullopt;
}

// One number per card and precision: the median rate that other models reached there.
void predict_simply(std::vector<Compared>& rows) {
  for (Compared& row : rows) {
    if (row.measured <= 0) continue;
    std::vector<double> rates;
    for (const Compared& other : rows)
      if (other.measured > 0 && other.gpu == row.gpu && other.plan.precision == row.plan.precision &&
          other.model != row.model)
        rates.push_back(other.flops_per_gpu / other.measured);
    if (!rates.empty()) row.simple = row.flops_per_gpu / quantile(rates, 0.5);
  }
}

void count_pairs(Comparison& c) {
  const auto same = [](const Compared& a, const Compared& b) {
    return a.set == b.set && a.source == b.source && a.model == b.model && a.gpu == b.gpu &&
           a.precision == b.precision && a.gpus == b.gpus && a.plan.global_batch == b.plan.global_batch &&
           a.plan.seq == b.plan.seq && a.plan_text != b.plan_text;
  };
  for (std::size_t i = 0; i < c.rows.size(); ++i)
    for (std::size_t j = i + 1; j < c.rows.size(); ++j) {
      const Compared &a = c.rows[i], &b = c.rows[j];
      if (!a.skipped.empty() || !b.skipped.empty() || a.measured <= 0 || b.measured <= 0 || !same(a, b)) continue;
      if (std::abs(std::log(a.measured / b.measured)) < kDiffer) continue;
      ++c.pairs;
      c.pairs_right += (a.measured < b.measured) == (a.predicted < b.predicted) ? 1 : 0;
    }
}

}  // namespace

Result<Comparison> compare_text(std::string_view file, std::string_view text, const CompareProgress& progress,
                                const OwnCards& cards) {
  WEFT_CHECK(check_cards(cards));
  WEFT_TRY(const StepTable table, StepTable::parse(file, text));
  Comparison c;
  StepMachines machines;
  for (const StepLine& line : table.lines()) {
    if (progress) progress(c, std::ssize(table.lines()));
    Compared row{.id = table.text(line, "id"),
                 .set = table.text(line, "set"),
                 .group = table.text(line, "group"),
                 .model = table.text(line, "model"),
                 .gpu = table.text(line, "gpu"),
                 .precision = table.text(line, "precision"),
                 .source = table.text(line, "source")};
    if (row.id.empty()) row.id = fmt::format("line {}", line.number);
    WEFT_CHECK(predict(table, line, machines, cards, row));
    c.rows.push_back(std::move(row));
  }
  conclude(c);
  return c;
}

void conclude(Comparison& c) {
  predict_simply(c.rows);
  count_pairs(c);
}

Result<Comparison> compare_file(const std::string& file, const CompareProgress& progress, const OwnCards& cards) {
  WEFT_TRY(const std::string text, read_text_file(file));
  return compare_text(file, text, progress, cards);
}

std::string in_words(const Comparison& c, bool every_row) {
  const auto dense = spread(
      c.rows, [](const Compared& r) { return !r.moe && !r.fitted; }, model_error);
  const auto fitted = spread(
      c.rows, [](const Compared& r) { return r.fitted; }, model_error);
  const auto moe = spread(
      c.rows, [](const Compared& r) { return r.moe && !r.fitted; }, model_error);
  std::string text;
  if (every_row)
    text =
        "# Training accuracy\n\nMeasured steps beside the model's, written by `weft train --compare TABLE --top -1`. "
        "One constant for all chips,\n`sustained` of data/training/cards.json, was fitted to two sets of rows; the "
        "others "
        "judge it. What is wrong and why:\n[training steps](training.md#what-is-wrong).\n\n";
  text += fmt::format(
      "Of {} measured steps, {} are predicted: dense models to {:.1f} % (median; {:.1f} % at 90 %), MoE to {:.1f} % "
      "({:.1f} %){}.\n\n",
      c.rows.size(), fitted.rows + dense.rows + moe.rows, 100 * dense.median, 100 * dense.ninety, 100 * moe.median,
      100 * moe.ninety,
      fitted.rows > 0 ? fmt::format("; {} rows that a constant was fitted to do not count there", fitted.rows) : "");
  text += fmt::format(
      "| rows of | rows | median error % | 90 % | bias % | one number per card: median % | 90 % "
      "|\n|---|---|---|---|---|---|---|\n");
  const auto line = [&](const std::string& name, auto&& chosen) {
    const Spread s = spread(c.rows, chosen, model_error), simple = spread(c.rows, chosen, simple_error);
    if (s.rows == 0) return;
    text += fmt::format("| {} | {} | {:.1f} | {:.1f} | {:+.1f} |", name, s.rows, 100 * s.median, 100 * s.ninety,
                        100 * s.bias);
    text +=
        simple.rows == 0 ? " - | - |\n" : fmt::format(" {:.1f} | {:.1f} |\n", 100 * simple.median, 100 * simple.ninety);
  };
  line("dense models, not fitted", [](const Compared& r) { return !r.moe && !r.fitted; });
  line("MoE models, not fitted", [](const Compared& r) { return r.moe && !r.fitted; });
  line("fitted", [](const Compared& r) { return r.fitted; });
  std::vector<std::string> sets;
  for (const Compared& r : c.rows)
    if (const std::string key = r.set + ", " + r.gpu + ", " + r.plan.precision + (r.moe ? ", MoE" : "");
        std::ranges::find(sets, key) == sets.end())
      sets.push_back(key);
  for (const std::string& set : sets)
    line(set, [&](const Compared& r) {
      return r.set + ", " + r.gpu + ", " + r.plan.precision + (r.moe ? ", MoE" : "") == set;
    });
  if (c.pairs > 0)
    text += fmt::format(
        "\nOf {} pairs that differ only in the plan, by more than {:.0f} %, {:.0f} % are in the right order.\n",
        c.pairs, 100 * kDiffer, 100.0 * static_cast<double>(c.pairs_right) / static_cast<double>(c.pairs));
  std::vector<double> memory;
  std::size_t failed = 0, found = 0, false_alarms = 0;
  for (const Compared& r : c.rows) {
    if (r.memory_predicted <= 0 || !r.memory_judged) continue;
    if (r.out_of_memory)
      ++failed, found += r.fits ? 0 : 1;
    else
      false_alarms += r.fits ? 0 : 1;
    if (r.memory > 0) memory.push_back(std::abs(r.memory_predicted / r.memory - 1));
  }
  text += fmt::format(
      "Memory of {} rows is predicted to {:.0f} % (median; {:.0f} % at 90 %); {} of {} out-of-memory rows are found, "
      "{} rows that ran are said not to fit.\n",
      memory.size(), 100 * quantile(memory, 0.5), 100 * quantile(memory, 0.9), found, failed, false_alarms);
  std::map<std::string, std::size_t> skipped;
  for (const Compared& r : c.rows)
    if (!r.skipped.empty()) ++skipped[r.skipped];
  for (const auto& [why, rows] : skipped) text += fmt::format("Not predicted: {} rows: {}\n", rows, why);
  if (!every_row) return text;
  text += "\n| row | model | GPUs | plan | measured s | model s | error % |\n|---|---|---|---|---|---|---|\n";
  for (const Compared& r : c.rows)
    if (r.skipped.empty() && r.measured > 0)
      text += fmt::format("| {} | {} | {:.0f} {} | {}, {} | {:.3f} | {:.3f} | {:+.1f} |\n", r.id, r.model, r.gpus,
                          r.gpu, r.precision, r.plan_text, r.measured, r.predicted, 100 * r.error());
  return text;
}

nlohmann::json to_json(const Comparison& c) {
  json rows = json::array();
  for (const Compared& r : c.rows)
    rows.push_back({{"id", r.id},
                    {"set", r.set},
                    {"model", r.model},
                    {"gpu", r.gpu},
                    {"plan", r.plan_text},
                    {"moe", r.moe},
                    {"fitted", r.fitted},
                    {"measured_s", r.measured},
                    {"predicted_s", r.predicted},
                    {"one_number_per_card_s", r.simple},
                    {"memory_gib", r.memory},
                    {"memory_predicted_gib", r.memory_predicted},
                    {"out_of_memory", r.out_of_memory},
                    {"fits", r.fits},
                    {"skipped", r.skipped}});
  return {{"schema", "weft.train-compare/1"}, {"pairs", c.pairs}, {"pairs_in_order", c.pairs_right}, {"rows", rows}};
}

}  // namespace weft::training
