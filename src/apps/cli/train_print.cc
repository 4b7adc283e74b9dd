#include "apps/cli/train_print.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "apps/cli/commands.h"
#include "base/counted.h"
#include "base/text.h"

namespace weft::cli {
namespace {

using training::Step;

constexpr double kGiB = 1073741824.0;

// Durations end at 107 days.
std::string as_time(double seconds) {
  constexpr double kDay = 86400, kMost = 100 * kDay;
  return seconds < kMost ? format_duration(Duration::seconds(seconds)) : fmt::format("{:.0f} days", seconds / kDay);
}

void print_budget(const report::TrainRun& run, const report::TrainBudget& b) {
  fmt::print("\n{:<18} {:>10}\n", "run", "");
  const auto line = [](const char* what, const std::string& value) { fmt::print("{:<18} {:>10}\n", what, value); };
  if (run.tokens > 0) {
    line("days", fmt::format("{:.1f}", b.days));
    line("GPU-hours", fmt::format("{:.0f}", b.gpu_hours));
    if (run.price > 0) line("money", fmt::format("{:.0f}", b.money));
  }
  if (run.failures <= 0) return;
  line("goodput %", fmt::format("{:.2f}", 100 * b.goodput));
  line("a failure every", as_time(b.mttf_s));
  if (b.interval_s > 0) line("checkpoint every", as_time(b.interval_s));
  for (const auto& [what, share] : {std::pair{"  checkpoints %", b.checkpoints},
                                    {"  lost work %", b.lost},
                                    {"  restarts %", b.restarts},
                                    {"  no node left %", b.waiting}})
    line(what, fmt::format("{:.2f}", 100 * share));
}

}  // namespace

void print_step(const report::TrainReport& report) {
  const report::TrainRow& row = report.rows.front();
  fmt::print("{}\n", in_a_sentence(report));
  fmt::print("plan: {}; {} on {}, software of {}{}\n", row.plan, report.precision, report.card, report.software,
             report.fitted.empty() ? "" : "; rates of computing " + report.fitted);
  for (const std::string& key : report.not_modelled) fmt::print("left out: {} of the model's config\n", key);
  fmt::print("\n{:<18} {:>10} {:>7}\n", "part of the step", "time s", "share %");
  for (const auto& [name, seconds] : row.parts)
    if (seconds > 0) fmt::print("{:<18} {:>10.4f} {:>7.1f}\n", name, seconds, 100 * seconds / row.seconds);
  if (!row.sends.empty())
    fmt::print("\n{:<18} {:>10} {:>12} {:>9} {:>10}\n", "communication for", "calls", "messages GB", "time s",
               "exposed s");
  for (const report::TrainSends& s : row.sends)
    fmt::print("{:<18} {:>10.0f} {:>12.2f} {:>9.4f} {:>10}\n", s.of, s.calls, s.bytes * 1e-9, s.seconds,
               s.of == "pipeline" ? "in bubble" : fmt::format("{:.4f}", s.exposed));
  fmt::print("\n{:<18} {:>10}\n", "memory", "GiB");
  for (const auto& [name, bytes] : row.memory) fmt::print("{:<18} {:>10.2f}\n", name, bytes / kGiB);
  if (!report.uncounted_memory.empty()) fmt::print("not counted: {}\n", fmt::join(report.uncounted_memory, ", "));
  if (row.stage_memory.size() > 1)
    fmt::print("{:<18} {:>10.2f}\n{:<18} {:>10.2f}\n", "first stage", row.stage_memory.front() / kGiB, "last stage",
               row.stage_memory.back() / kGiB);
  if (!report.largest.empty())
    fmt::print("\n{:<18} {:>10} {:>10}\n{:<18} {:>10} {:>10}\n{:<18} {:>10} {:>10}\n", "largest", "certain", "tight",
               "micro-batch", report.largest[0].second, report.largest[1].second, "sequence", report.largest[2].second,
               report.largest[3].second);
  if (report.budget) print_budget(report.run, *report.budget);
  if (!report.what_if.empty()) fmt::print("\n{:<42} {:>10} {:>8}\n", "what if", "step s", "change");
  for (const auto& w : report.what_if)
    if (w.refused.empty())
      fmt::print("{:<42} {:>10.4f} {:>+7.1f}%\n", w.what, w.seconds, 100 * w.change);
    else
      fmt::print("{:<42} {}\n", w.what, w.refused);
  fmt::print("\nMFU counts {} per token, {:.0f} TFLOP/s per GPU.\n", report.flops_formula, row.tflops);
}

nlohmann::json timeline_of(const training::Step& step) {
  nlohmann::json events = nlohmann::json::array();
  const auto add = [&](std::string name, std::size_t stage, int lane, double begin, double end) {
    events.push_back({{"name", std::move(name)},
                      {"ph", "X"},
                      {"pid", stage},
                      {"tid", lane},
                      {"ts", begin * 1e6},
                      {"dur", (end - begin) * 1e6}});
  };
  for (std::size_t s = 0; s < step.data_begin.size(); ++s) {
    for (const auto& [lane, name] : {std::pair{0, "computing"}, {1, "data-parallel communication"}})
      events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", s}, {"tid", lane}, {"args", {{"name", name}}}});
    events.push_back(
        {{"name", "process_name"}, {"ph", "M"}, {"pid", s}, {"args", {{"name", fmt::format("stage {}", s)}}}});
    if (step.data_end[s] > step.data_begin[s]) add("gradients", s, 1, step.data_begin[s], step.data_end[s]);
    add("optimizer", s, 0, step.data_end[s], step.data_end[s] + step.parts.optimizer);
  }
  for (const auto& p : step.pipeline.pieces)
    add(fmt::format("{} {}.{}",
                    p.pass == 'F'   ? "forward"
                    : p.pass == 'B' ? "backward"
                                    : "weights",
                    p.micro_batch, p.chunk),
        static_cast<std::size_t>(p.stage), 0, p.begin, p.end);
  // What a GPU sends in the step, in Perfetto's view of the process.
  nlohmann::json sends = nlohmann::json::object();
  for (const Step::Sends& s : step.sends)
    sends[s.of] = fmt::format("{:.0f} calls, {:.3f} GB, {:.4f} s, {:.4f} s exposed", s.sent.calls, s.sent.bytes * 1e-9,
                              s.sent.seconds, s.exposed);
  events.push_back({{"name", "a GPU sends in a step"},
                    {"ph", "X"},
                    {"pid", 0},
                    {"tid", 2},
                    {"ts", 0},
                    {"dur", step.seconds * 1e6},
                    {"args", sends}});
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
}

void print_best(const BestPlans& found, std::int64_t shown, bool simulated) {
  const training::Plans& plans = found.plans;
  const report::TrainRow& first = found.report.rows.front();
  fmt::print(
      "The best of {} for {} on {} of {} is {}: {} a step, {:.1f} % MFU, {:.0f} tokens/s per GPU, {:.1f} of {:.0f} "
      "GiB{}.\n",
      counted(plans.tried, "plan"), found.report.model, counted(found.report.gpus, "GPU"), found.report.machine,
      first.plan, as_time(first.seconds), 100 * first.mfu, first.tokens_per_gpu,
      plans.ranked.front().step.peak.total() / kGiB, found.card.memory / kGiB, report::fit_in_words(first));
  const auto tightly = [&](const training::Ranked& r) {
    return training::fit(r.step.peak, found.card) == training::Fit::kTight;
  };
  fmt::print(
      "{} fit, {} of them tightly (published memory lies within {:.0f} % of the model's), {} need too much memory. "
      "{}.\n\n",
      counted(plans.ranked.size(), "plan"), std::ranges::count_if(plans.ranked, tightly), 100 * training::kMemoryMargin,
      plans.refused.size(),
      simulated ? fmt::format("The first {} are simulated, the others estimated",
                              std::min<std::size_t>(training::kSimulatedPlans, plans.ranked.size()))
                : "All are estimated");
  fmt::print("{:>4} {:>10} {:>7} {:>8} {:<7}  {:<58} {}\n", "rank", "step s", "MFU %", "GiB", "", "plan",
             "why it lost");
  for (std::size_t i = 0; i < plans.ranked.size() && static_cast<std::int64_t>(i) < shown; ++i) {
    const auto& r = plans.ranked[i];
    fmt::print("{:>4} {:>10.4f} {:>7.1f} {:>8.1f} {:<7}  {:<58} {}\n", i + 1, r.step.seconds, 100 * r.step.mfu,
               r.step.peak.total() / kGiB, tightly(r) ? "tightly" : "", describe(r.plan), r.reason);
  }
  for (std::size_t i = 0; i < plans.refused.size() && static_cast<std::int64_t>(i) < std::min<std::int64_t>(3, shown);
       ++i)
    fmt::print("{:>4} {:>10} {:>7} {:>8} {:<7}  {:<58} {}\n", "-", "", "", "", "", describe(plans.refused[i].plan),
               plans.refused[i].reason);
  const auto alike = std::ranges::count_if(plans.ranked, &training::Ranked::alike);
  if (alike > 0)
    fmt::print("\n{} cannot be distinguished from the best: their steps lie within {:.0f} %.\n", counted(alike, "plan"),
               100 * training::kAlike);
  if (found.report.budget) print_budget(found.report.run, *found.report.budget);
}

void print_config(const std::string& file, const training::Config& config) {
  static constexpr std::size_t kShown = 12;
  const auto list = [](std::string_view what, const std::vector<std::string>& items) {
    if (items.empty()) return std::string();
    const std::size_t shown = std::min(kShown, items.size());
    return fmt::format("; {}: {}{}", what,
                       fmt::join(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                       items.size() > shown ? fmt::format(" and {} more", items.size() - shown) : "");
  };
  fmt::print(stderr, "weft: {}: {}{}{}{}\n", file, config.format, list("left out", config.not_modelled),
             list("not known", config.unread), list("assumed", config.assumed));
}

}  // namespace weft::cli
