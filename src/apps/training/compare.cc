#include "apps/training/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "apps/training/files.h"
#include "apps/training/measured_steps.h"
#include "apps/training/outside.h"
#include "apps/training/step.h"
#include "base/counted.h"
#include "base/text_file.h"

namespace weft::training {
namespace {

using nlohmann::json;

bool contains(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

// The row's recomputation; where it names none, the least that fits, with expandable segments if the row may have had
// them and does not fit without.
void choose_recompute(const StepTable& table, const StepLine& line, const Model& model, const Card& card,
                      Compared& row) {
  row.recompute = table.text(line, "recompute");
  const bool either = table.text(line, "allocator").empty();
  const auto fits = [&](Recompute recompute, double share) {
    row.plan.recompute = recompute, row.plan.recompute_share = share;
    for (const bool expandable : {row.plan.expandable_segments, row.plan.expandable_segments || either}) {
      Plan plan = row.plan;
      plan.expandable_segments = expandable;
      if (!training::fits(peak_memory(model, plan, card, true), card)) continue;
      row.plan.expandable_segments = expandable;
      return true;
    }
    return false;
  };
  if (!row.recompute.empty()) {
    if (either) fits(row.plan.recompute, row.plan.recompute_share);
    return;
  }
  bool found = fits(Recompute::kNone, 1) || fits(Recompute::kSelective, 1);
  for (int tenths = 1; tenths <= 10 && !found; ++tenths) found = fits(Recompute::kFull, tenths / 10.0);
  row.recompute = "unknown";
}

Status read_row(const StepTable& table, const StepLine& line, Compared& row, Model& model) {
  WEFT_TRY(const std::int64_t gpus, table.count(line, "gpus", 0));
  if (gpus == 0) return bad_input("{}:{}: gpus is missing", table.file(), line.number);
  row.gpus = static_cast<double>(gpus);
  WEFT_TRY(row.measured, table.number(line, "step_s", 0));
  const std::string memory = table.text(line, "mem_gib");
  row.out_of_memory = memory == "OOM";
  if (!row.out_of_memory) {
    WEFT_TRY(row.memory, table.number(line, "mem_gib", 0));
  }
  WEFT_TRY(model, model_of(table, line));
  WEFT_TRY(row.plan, plan_of(table, line, gpus));
  row.moe = model.moe();
  row.software = name(Release{row.plan.framework, row.plan.software, row.plan.month});
  row.fitted = fitted_to(row_key(row)) || fitted_on(row.set, row.plan.precision);
  return {};
}

// Milliseconds in a column of seconds, a batch in tokens or swapped columns make steps that no card takes.
Status check_measured(const Compared& row, const Card& card) {
  constexpr double kLeast = 0.002;  // of the peak; a few percent are the slowest that anybody publishes
  if (row.measured <= 0) return {};
  const double share = row.flops_per_gpu / row.measured / card.peak;
  if (share >= kLeast && share <= 1) return {};
  return bad_input("step_s {} is {:.3g} % of the peak of {} at {}: is it in seconds, gbs in sequences?", row.measured,
                   100 * share, card.name, card.precision);
}

Status predict(const StepTable& table, const StepLine& line, StepMachines& machines, const OwnCards& cards,
               const Model& model, Compared& row) {
  row.flops_per_gpu = model.flops_per_token(row.plan.seq) * static_cast<double>(row.plan.global_batch * row.plan.seq) /
                      row.gpus * (row.plan.recompute == Recompute::kFull ? 4.0 / 3 : 1);
  if (contains(table.text(line, "flag"), "changes the model")) return bad_input("the row changes the model");
  if (contains(table.text(line, "schedule"), "all-reduce"))
    return bad_input("an optimizer that all stages wait for is not modelled");
  if (row.measured == 0 && !row.out_of_memory && row.memory == 0) return bad_input("no step time");
  if (row.plan.ranks() != static_cast<std::int64_t>(row.gpus))
    return bad_input("tp x pp x cp x dp is {}, the row has {:.0f}", counted(row.plan.ranks(), "GPU"), row.gpus);
  WEFT_TRY(const auto found, machines.find(row.gpu, static_cast<std::int64_t>(row.gpus), table.text(line, "network")));
  WEFT_TRY(Card card, load_card(found.card, row.plan.precision, cards));
  card.channels = channels_of(*found.machine->view);
  WEFT_CHECK(check_plan(model, row.plan));
  WEFT_CHECK(check_measured(row, card));
  choose_recompute(table, line, model, card, row);
  WEFT_TRY(card, with_software(card, row.plan));
  row.plan_text = describe(row.plan);
  WEFT_TRY(const Step step, simulate_step(model, row.plan, card, *found.machine->traffic));
  row.predicted = step.seconds;
  row.fits = step.fits;
  row.fit = fit(step.peak, card);
  row.level_key = {{row.plan.framework, row.plan.software, row.plan.month}, card.chip, card.precision, row.moe};
  row.level = row.moe ? card.level_experts : card.level;
  row.levelled = step.parts.compute() * step.seconds / (step.seconds - step.parts.bubble);
  row.memory_judged = row.out_of_memory || row.memory > 0 || row.measured > 0;
  WEFT_TRY(const MemoryOf counted, memory_of(table, line, row.plan));
  row.memory_predicted = bytes_of(step.peak, counted) / kGiB;
  return {};
}

std::string named_line(const StepTable& table, const StepLine& line, const std::string& reason) {
  return reason.starts_with(table.file()) ? reason : fmt::format("{}:{}: {}", table.file(), line.number, reason);
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

// The level at which the prediction would be what was measured.
std::optional<LevelSample> sample_of(const Compared& row) {
  if (!row.skipped.empty() || row.measured <= 0 || row.levelled <= 0) return std::nullopt;
  const double rest = row.predicted - row.levelled, left = std::max(0.2 * row.measured, row.measured - rest);
  return LevelSample{row.level_key, row.source, std::clamp(row.levelled * row.level / left, 0.4, 1.6)};
}

std::vector<LevelSample> samples_of(const Comparison& c, const std::string& but = "") {
  std::vector<LevelSample> samples;
  for (const Compared& row : c.rows)
    if (const auto sample = sample_of(row); sample && (but.empty() || row.source != but)) samples.push_back(*sample);
  return samples;
}

// Every row by levels of all sources but its own.
void predict_without_source(Comparison& c) {
  std::map<std::string, std::vector<Level>> levels;
  for (const Compared& row : c.rows)
    if (!row.source.empty() && !levels.contains(row.source))
      levels.emplace(row.source, fit_levels(samples_of(c, row.source)));
  for (Compared& row : c.rows)
    if (!row.source.empty() && row.predicted > 0)
      row.without_source = row.predicted + row.levelled * (row.level / level_of(levels[row.source], row.level_key) - 1);
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

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

Result<Comparison> compare_text(std::string_view file, std::string_view text, const CompareProgress& progress,
                                const OwnCards& cards) {
  WEFT_CHECK(check_cards(cards));
  WEFT_TRY(const StepTable table, StepTable::parse(file, text));
  Comparison c;
  StepMachines machines;
  std::size_t skipped = 0;
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
    Model model;
    if (const auto read = read_row(table, line, row, model); !read) {
      row.skipped = read.error().message;
    } else if (const auto done = predict(table, line, machines, cards, model, row); !done) {
      row.skipped = done.error().message;
    }
    if (!row.skipped.empty()) ++skipped;
    c.rows.push_back(std::move(row));
  }
  if (skipped == c.rows.size())
    return bad_input("{}", named_line(table, table.lines().front(), c.rows.front().skipped));
  conclude(c);
  return c;
}

std::string row_key(const Compared& row) {
  return fmt::format("{} {} {:.0f} {} {:.4g}", row.id, row.model, row.gpus, row.gpu, row.measured);
}

json levels_json(const Comparison& c) {
  json levels = json::array(), rows = json::array();
  for (const Level& l : fit_levels(samples_of(c)))
    levels.push_back({{"framework", l.key.release.framework},
                      {"year", l.key.release.year},
                      {"month", l.key.release.month},
                      {"chip", l.key.chip},
                      {"precision", l.key.precision},
                      {"experts", l.key.experts},
                      {"level", std::round(l.level * 1e4) / 1e4},
                      {"rows", l.rows}});
  for (const Compared& row : c.rows)
    if (sample_of(row)) rows.push_back(row_key(row));
  return {{"schema", "weft.levels/1"}, {"levels", levels}, {"fitted_to", rows}};
}

void conclude(Comparison& c) {
  predict_simply(c.rows);
  predict_without_source(c);
  count_pairs(c);
}

Result<Comparison> compare_file(const std::string& file, const CompareProgress& progress, const OwnCards& cards) {
  WEFT_TRY(const std::string text, read_text_file(file));
  return compare_text(file, text, progress, cards);
}

}  // namespace weft::training
