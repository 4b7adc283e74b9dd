#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "apps/training/compare.h"

#include "base/counted.h"

namespace weft::training {
namespace {

using nlohmann::json;

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
std::optional<double> other_error(const Compared& r) {
  return r.without_source > 0 ? std::optional(r.without_source / r.measured - 1) : std::nullopt;
}
std::optional<double> simple_error(const Compared& r) {
  return r.simple > 0 ? std::optional(r.simple / r.measured - 1) : std::nullopt;
}

std::string percents(const Spread& s) {
  return s.rows == 0 ? " - | - |" : fmt::format(" {:.1f} | {:.1f} |", 100 * s.median, 100 * s.ninety);
}

std::string table_of_sets(const Comparison& c) {
  std::string text =
      "| rows of | rows | median error % | 90 % | bias % | without its source: median % | 90 % | one number per card: "
      "median % | 90 % |\n|---|---|---|---|---|---|---|---|---|\n";
  const auto line = [&](const std::string& name, auto&& chosen) {
    const Spread s = spread(c.rows, chosen, model_error);
    if (s.rows == 0) return;
    text += fmt::format("| {} | {} | {:.1f} | {:.1f} | {:+.1f} |{}{}\n", name, s.rows, 100 * s.median, 100 * s.ninety,
                        100 * s.bias, percents(spread(c.rows, chosen, other_error)),
                        percents(spread(c.rows, chosen, simple_error)));
  };
  for (const bool moe : {false, true})
    for (const bool fitted : {false, true})
      line(fmt::format("{} models{}", moe ? "MoE" : "dense", fitted ? ", levels fitted to them" : ", not fitted"),
           [&](const Compared& r) { return r.moe == moe && r.fitted == fitted; });
  const auto key = [](const Compared& r) {
    return r.set + ", " + r.gpu + ", " + r.plan.precision + (r.moe ? ", MoE" : "");
  };
  std::vector<std::string> sets;
  for (const Compared& r : c.rows)
    if (std::ranges::find(sets, key(r)) == sets.end()) sets.push_back(key(r));
  for (const std::string& set : sets) line(set, [&](const Compared& r) { return key(r) == set; });
  return text;
}

std::string memory_words(const Comparison& c) {
  std::vector<double> errors;
  std::size_t failed = 0, found = 0, ran = 0, refused = 0, tight = 0;
  for (const Compared& r : c.rows) {
    if (r.memory_predicted <= 0 || !r.memory_judged) continue;
    if (r.out_of_memory)
      ++failed, found += r.fit != Fit::kCertain ? 1 : 0;
    else
      ++ran, refused += r.fit == Fit::kNo ? 1 : 0, tight += r.fit == Fit::kTight ? 1 : 0;
    if (r.memory > 0) errors.push_back(std::abs(r.memory_predicted / r.memory - 1));
  }
  return fmt::format(
      "Memory of {} is predicted to {:.0f} % (median; {:.0f} % at 90 %). Of {} {} are said not to fit for certain. Of "
      "{} that ran, {} are said not to fit and {} to be tight.\n",
      counted(errors.size(), "row"), 100 * quantile(errors, 0.5), 100 * quantile(errors, 0.9),
      counted(failed, "out-of-memory row"), found, counted(ran, "row"), refused, tight);
}

// Refusals by reason, without the file and line that a reason may begin with, and their rows.
std::string refusals(const Comparison& c) {
  static constexpr std::size_t kNamed = 12;
  std::map<std::string, std::vector<std::string>> reasons;
  for (const Compared& r : c.rows) {
    if (r.skipped.empty()) continue;
    std::string why = r.skipped;
    if (const auto at = why.find(": ");
        at != std::string::npos && at > 0 && std::isdigit(why[at - 1]) != 0 && why.find(' ') > at)
      why = why.substr(at + 2);
    reasons[why].push_back(r.id);
  }
  std::string text;
  for (const auto& [why, ids] : reasons) {
    const std::size_t named = std::min(kNamed, ids.size());
    text += fmt::format("Not predicted: {}: {} ({}{})\n", counted(ids.size(), "row"), why,
                        fmt::join(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(named), ", "),
                        ids.size() > named ? ", …" : "");
  }
  return text;
}

}  // namespace

std::string in_words(const Comparison& c, bool every_row) {
  std::string text;
  if (every_row)
    text =
        "# Training accuracy\n\nMeasured steps beside the model's, written by `weft train --compare TABLE --top -1`. "
        "One level for each framework's\nrelease, card and precision (data/training/levels.json) was fitted to the "
        "rows named there; beside stands each row\nby the levels of all other sources. What is wrong and why: "
        "[training steps](training.md#what-is-wrong).\n\n";
  const auto of = [&](bool moe, auto&& error) {
    return spread(
        c.rows, [&](const Compared& r) { return r.moe == moe; }, error);
  };
  const Spread dense = of(false, model_error), moe = of(true, model_error);
  const Spread other = of(false, other_error), other_moe = of(true, other_error);
  const auto answered = std::ranges::count_if(c.rows, [](const Compared& r) { return r.skipped.empty(); });
  const auto kinds = [](const Spread& d, const Spread& m) {
    std::string words;
    if (d.rows > 0)
      words += fmt::format("dense models to {:.1f} % (median; {:.1f} % at 90 %)", 100 * d.median, 100 * d.ninety);
    if (d.rows > 0 && m.rows > 0) words += ", ";
    if (m.rows > 0) words += fmt::format("MoE to {:.1f} % ({:.1f} %)", 100 * m.median, 100 * m.ninety);
    return words;
  };
  text += fmt::format("Of {}, {} are answered", counted(c.rows.size(), "measured step"), answered);
  if (answered > 0)
    text += fmt::format(": {}; by levels of other sources alone {}", kinds(dense, moe), kinds(other, other_moe));
  text += ".\n\n";
  text += table_of_sets(c);
  if (c.pairs > 0)
    text +=
        fmt::format("\nOf {} that differ only in the plan, by more than {:.0f} %, {:.0f} % are in the right order.\n",
                    counted(c.pairs, "pair"), 100 * kDiffer,
                    100.0 * static_cast<double>(c.pairs_right) / static_cast<double>(c.pairs));
  text += memory_words(c) + refusals(c);
  if (!every_row) return text;
  text +=
      "\n| row | model | GPUs | software | plan | measured s | model s | error % | memory GiB | model GiB |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  const auto gib = [](double value) { return value > 0 ? fmt::format("{:.1f}", value) : std::string("-"); };
  for (const Compared& r : c.rows)
    if (r.skipped.empty())
      text +=
          fmt::format("| {} | {} | {:.0f} {} | {} | {}, {}{} | {} | {:.3f} | {} | {} | {} |\n", r.id, r.model, r.gpus,
                      r.gpu, r.software, r.precision, r.plan_text, r.recompute == "unknown" ? " (not named)" : "",
                      r.measured > 0 ? fmt::format("{:.3f}", r.measured) : "-", r.predicted,
                      r.measured > 0 ? fmt::format("{:+.1f}", 100 * r.error()) : "-",
                      r.out_of_memory ? "OOM" : gib(r.memory), gib(r.memory_predicted));
  return text;
}

nlohmann::json to_json(const Comparison& c) {
  const auto known = [](double value) { return value > 0 ? json(value) : json(); };
  json rows = json::array();
  for (const Compared& r : c.rows)
    rows.push_back({{"id", r.id},
                    {"set", r.set},
                    {"source", r.source},
                    {"model", r.model},
                    {"gpu", r.gpu},
                    {"software", r.software},
                    {"plan", r.plan_text},
                    {"moe", r.moe},
                    {"fitted", r.fitted},
                    {"measured_s", known(r.measured)},
                    {"predicted_s", known(r.predicted)},
                    {"without_source_s", known(r.without_source)},
                    {"one_number_per_card_s", known(r.simple)},
                    {"level", r.level},
                    {"levelled_s", known(r.levelled)},
                    {"memory_gib", known(r.memory)},
                    {"memory_predicted_gib", known(r.memory_predicted)},
                    {"out_of_memory", r.out_of_memory},
                    {"fits", r.fits},
                    {"fit", name(r.fit)},
                    {"skipped", r.skipped}});
  return {{"schema", "weft.train-compare/1"}, {"pairs", c.pairs}, {"pairs_in_order", c.pairs_right}, {"rows", rows}};
}

}  // namespace weft::training
