#include "base/report/serve.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counted.h"

namespace weft::report {
namespace {

constexpr double kGiB = 1073741824.0;

nlohmann::json json_of(const ServeSpread& s) {
  return {{"mean", s.mean}, {"median", s.median}, {"p90", s.p90}, {"p99", s.p99}};
}
nlohmann::json named(const std::vector<std::pair<std::string, double>>& values) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : values) json[name] = value;
  return json;
}

nlohmann::json json_of(const ServeRow& row) {
  nlohmann::json options = nlohmann::json::object();
  for (const auto& [name, value] : row.options) options[name] = value;
  nlohmann::json json = {{"plan", row.plan},
                         {"load", row.load},
                         {"gpus", row.gpus},
                         {"fits", row.fits},
                         {"reason", row.reason},
                         {"ttft_ms", json_of(row.ttft)},
                         {"tpot_ms", json_of(row.tpot)},
                         {"end_to_end_ms", json_of(row.end_to_end)},
                         {"ttft_parts_ms", named(row.ttft_parts)},
                         {"step_parts_ms", named(row.step_parts)},
                         {"step_ms", row.step},
                         {"batch", row.batch},
                         {"tokens_per_step", row.tokens_per_step},
                         {"output_tokens_per_s_per_gpu", row.tokens_per_gpu},
                         {"input_tokens_per_s_per_gpu", row.input_per_gpu},
                         {"output_tokens_per_s_per_user", row.tokens_per_user},
                         {"requests_per_s", row.requests_per_second},
                         {"memory_bytes", named(row.memory)},
                         {"capacity_bytes", row.capacity},
                         {"cache_tokens", row.cache_tokens},
                         {"cache_used", row.cache_used},
                         {"requests", row.requests},
                         {"preemptions", row.preemptions},
                         {"prefix_hits", row.prefix_hits},
                         {"reloaded", row.reloaded},
                         {"computed_sooner", row.faster_computed},
                         {"prompt_computing_ms", row.computing},
                         {"prompt_reloading_ms", named(row.reloading)},
                         {"money_per_million_tokens", row.money},
                         {"options", options}};
  if (row.stable_rate) json["stable_rate"] = *row.stable_rate;
  if (row.kept) json["goal_kept"] = *row.kept, json["goodput_requests_per_s"] = *row.goodput;
  if (row.urgent_ttft)
    json["urgent"] = {{"ttft_ms", json_of(*row.urgent_ttft)}, {"tpot_ms", json_of(*row.urgent_tpot)}};
  return json;
}

std::string goal_in_words(const ServeReport& report) {
  std::string goal;
  if (report.goal_ttft > 0) goal += fmt::format(" with TTFT up to {:.0f} ms", report.goal_ttft);
  if (report.goal_tpot > 0)
    goal += fmt::format("{} TPOT up to {:.4g} ms", goal.empty() ? " with" : " and", report.goal_tpot);
  return goal;
}

std::string line_of(std::string_view name, const ServeSpread& s) {
  if (s.mean <= 0) return fmt::format("{:<22} {:>10} {:>10} {:>10} {:>10}\n", name, "-", "-", "-", "-");
  return fmt::format("{:<22} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}\n", name, s.mean, s.median, s.p90, s.p99);
}

std::string in_words(const ServeFault& f, const ServeRow& whole) {
  std::string all;
  for (const std::string& fault : f.faults) all += (all.empty() ? "" : " ") + fault;
  std::string text = fmt::format(
      "\nWith {}: TTFT {:.0f} ms instead of {:.0f}, TPOT {:.2f} ms instead of {:.2f}, {:.1f} % of the tokens/s; ", all,
      f.ttft.mean, whole.ttft.mean, f.tpot.mean, whole.tpot.mean, 100 * f.tokens);
  if (f.lost == 0 && f.slowed == 0) return text + "no engine is touched.\n";
  text += fmt::format("of {} {} lost, {} slowed.\n", counted(f.engines, "engine"), f.lost, f.slowed);
  if (f.stable_rate) text += fmt::format("Unstable: what is left keeps up with {:.3g} requests/s.\n", *f.stable_rate);
  if (f.empty_again > 0)
    text += fmt::format(
        "If lost engines are back after {:.0f} s, {:.0f} requests wait then, and the queue is empty {:.0f} s "
        "after the fault.\n",
        f.restart, f.waiting, f.empty_again);
  if (f.empty_again < 0) text += "The queue does not empty even when all engines are back.\n";
  return text;
}

nlohmann::json json_of(const ServeFault& f) {
  nlohmann::json json = {{"faults", f.faults},
                         {"engines", f.engines},
                         {"lost", f.lost},
                         {"slowed", f.slowed},
                         {"ttft_ms", json_of(f.ttft)},
                         {"tpot_ms", json_of(f.tpot)},
                         {"tokens_share", f.tokens},
                         {"restart_s", f.restart},
                         {"waiting_requests", f.waiting},
                         {"empty_again_s", f.empty_again}};
  if (f.stable_rate) json["stable_rate"] = *f.stable_rate;
  return json;
}

std::string head_line(const ServeReport& report) {
  const ServeRow& row = report.rows.front();
  std::string text = fmt::format(
      "{} ({}, cache {}) by {} on {} of {}, {}: TTFT {:.0f} ms, TPOT {}, {:.0f} output tokens/s per GPU{}.\n",
      report.model, report.precision, report.cache, report.engine, counted(row.gpus, "GPU"), report.machine, row.load,
      row.ttft.mean, row.tpot.mean > 0 ? fmt::format("{:.2f} ms", row.tpot.mean) : "-", row.tokens_per_gpu,
      row.tpot.mean > 0 ? fmt::format(", {:.0f} per user", row.tokens_per_user) : "");
  if (row.stable_rate)
    text += fmt::format("Unstable: the queue grows as long as requests come. {:.3g} requests/s {}.\n", *row.stable_rate,
                        row.trace ? "are served" : "are stable");
  return text;
}

}  // namespace

std::string in_a_sentence(const ServeReport& report) {
  const ServeRow& row = report.rows.front();
  std::string text = head_line(report);
  if (row.money > 0) text += fmt::format("{:.3g} per million output tokens.\n", row.money);
  if (report.fault) text += in_words(*report.fault, row).substr(1);
  std::ranges::replace(text, '\n', ' ');
  text.pop_back();
  return text;
}

std::string in_words(const ServeReport& report) {
  const ServeRow& row = report.rows.front();
  std::string text = head_line(report);
  text += fmt::format("plan: {}; {} input and {} output tokens; {}\n\n", row.plan, report.input, report.output,
                      report.card == report.kernels ? fmt::format("kernels as measured on {}", report.kernels)
                                                    : fmt::format("kernels scaled from those of {}, not measured on {}",
                                                                  report.kernels, report.card));
  text += fmt::format("{:<22} {:>10} {:>10} {:>10} {:>10}\n", "ms", "mean", "median", "90 % below", "99 % below");
  for (const auto& [name, s] : {std::pair{"TTFT", &row.ttft}, {"TPOT", &row.tpot}, {"whole answer", &row.end_to_end}})
    text += line_of(name, *s);
  if (row.urgent_ttft)
    text += line_of("TTFT, of urgent ones", *row.urgent_ttft) + line_of("TPOT, of urgent ones", *row.urgent_tpot);
  if (row.kept)
    text += fmt::format("\nGoodput{}: {:.4g} requests/s, {:.1f} % of them.\n", goal_in_words(report), *row.goodput,
                        100 * *row.kept);
  text += fmt::format("\n{:<22} {:>10} {:>7}\n", "part of TTFT", "ms", "share %");
  for (const auto& [name, ms] : row.ttft_parts)
    text += fmt::format("{:<22} {:>10.2f} {:>7.1f}\n", name, ms, row.ttft.mean > 0 ? 100 * ms / row.ttft.mean : 0);
  text +=
      fmt::format("\n{:<22} {:>10} {:>7}   {:.1f} sequences on average{}\n", "part of a decode step", "ms", "share %",
                  row.batch, row.tokens_per_step > 1 ? fmt::format(", {:.2f} tokens each", row.tokens_per_step) : "");
  for (const auto& [name, ms] : row.step_parts)
    if (ms > 0) text += fmt::format("{:<22} {:>10.3f} {:>7.1f}\n", name, ms, row.step > 0 ? 100 * ms / row.step : 0);
  text += fmt::format("\n{:<22} {:>10}\n", "memory of a GPU", "GiB");
  for (const auto& [name, bytes] : row.memory) text += fmt::format("{:<22} {:>10.2f}\n", name, bytes / kGiB);
  text += fmt::format("\nThe cache of an engine holds {:.0f} tokens; at most {:.1f} % were used; {} in {}.\n",
                      row.cache_tokens, 100 * row.cache_used, counted(row.preemptions, "preemption"),
                      counted(row.requests, "request"));
  if (row.has_prefixes)
    text += fmt::format("{:.1f} % of the prompts' tokens were in the prefix cache.\n", 100 * row.prefix_hits);
  if (row.has_prefixes && !row.reloading.empty())
    text += fmt::format("{:.1f} % were read from a lower tier, {:.1f} % were there, but computed sooner.\n",
                        100 * row.reloaded, 100 * row.faster_computed);
  for (const auto& [tier, ms] : row.reloading)
    text += fmt::format(
        "A prompt of {} tokens is computed in {:.2f} ms and read from {} in {:.2f} ms: {:.1f} times as {}.\n",
        report.input, row.computing, tier, ms, ms < row.computing ? row.computing / ms : ms / row.computing,
        ms < row.computing ? "fast" : "slow");
  if (row.money > 0) text += fmt::format("A million output tokens cost {:.3f}.\n", row.money);
  if (report.fault) text += in_words(*report.fault, row);
  return text;
}

std::string best_in_words(const ServeReport& report, std::size_t shown) {
  const auto at = [&](const ServeSpread& s) {
    return report.percentile >= 99 ? s.p99 : report.percentile >= 90 ? s.p90 : s.median;
  };
  const auto line = [&](const ServeRow& r, std::string_view rank) {
    return fmt::format("{:>4} {:>11.0f} {:>9.1f} {:>9.0f} {:>9.2f} {:>8} {:<30} {:<14} {}\n", rank, r.tokens_per_gpu,
                       r.tokens_per_user, at(r.ttft), at(r.tpot), r.money > 0 ? fmt::format("{:.3f}", r.money) : "-",
                       r.plan, r.load, r.reason);
  };
  std::string goal = goal_in_words(report);
  if (!goal.empty()) goal += fmt::format(" at {} %", report.percentile);
  const std::size_t good = static_cast<std::size_t>(
      std::count_if(report.rows.begin(), report.rows.end(), [](const ServeRow& r) { return r.fits; }));
  std::string text;
  if (good == 0) {
    text = fmt::format("No plan for {} by {} on {}{}.\n\n", report.model, report.engine, report.machine,
                       goal.empty() ? "" : " holds the goal" + goal);
  } else {
    const ServeRow& first = report.rows.front();
    text = fmt::format(
        "The best plan for {} ({}) by {} on {}{} is {} with {}: {:.0f} output tokens/s per GPU, {:.0f} per user.\n",
        report.model, report.precision, report.engine, report.machine, goal, first.plan, first.load,
        first.tokens_per_gpu, first.tokens_per_user);
    text += fmt::format("{} tried; {} input and {} output tokens; times in ms; {} hold the goal, {} do not.\n\n",
                        counted(report.tried, "point"), report.input, report.output, counted(good, "plan"),
                        report.rows.size() - good);
  }
  const std::string head =
      fmt::format("{:>4} {:>11} {:>9} {:>9} {:>9} {:>8} {:<30} {:<14} {}\n", "rank", "tok/s/GPU", "tok/s/usr",
                  fmt::format("TTFT p{}", report.percentile), fmt::format("TPOT p{}", report.percentile), "price/M",
                  "plan", "load", "why it lost");
  text += head;
  for (std::size_t i = 0; i < good && i < shown; ++i) text += line(report.rows[i], fmt::format("{}", i + 1));
  for (std::size_t i = good; i < report.rows.size() && i < good + shown; ++i)
    text += fmt::format("{:>4} {:>11} {:>9} {:>9} {:>9} {:>8} {:<30} {:<14} {}\n", "-", "", "", "", "", "",
                        report.rows[i].plan, "", report.rows[i].reason);
  text += "\nfrontier: no other point has more tokens/s per GPU and per user\n" + head;
  for (const ServeRow& r : report.frontier) text += line(r, "");
  return text;
}

nlohmann::json to_json(const ServeReport& report) {
  nlohmann::json rows = nlohmann::json::array(), frontier = nlohmann::json::array();
  for (const ServeRow& row : report.rows) rows.push_back(json_of(row));
  for (const ServeRow& row : report.frontier) frontier.push_back(json_of(row));
  nlohmann::json json = {{"schema", "weft.serve/1"},
                         {"model", report.model},
                         {"machine", report.machine},
                         {"card", report.card},
                         {"engine", report.engine},
                         {"precision", report.precision},
                         {"cache", report.cache},
                         {"input_tokens", report.input},
                         {"output_tokens", report.output},
                         {"kernels", report.kernels},
                         {"rows", rows},
                         {"frontier", frontier},
                         {"goal_ttft_ms", report.goal_ttft},
                         {"goal_tpot_ms", report.goal_tpot},
                         {"percentile", report.percentile},
                         {"tried", report.tried}};
  if (report.fault) json["fault"] = json_of(*report.fault);
  return json;
}

std::string in_words(const ServeMachines& all) {
  std::string text = fmt::format("{:<22} {:>5} {:>9} {:>9} {:>11} {:>9} {:>8} {}\n", "machine", "GPUs", "TTFT ms",
                                 "TPOT ms", "tok/s/GPU", "tok/s/usr", "price/M", "plan and load");
  for (const ServeMachines::Machine& m : all.machines) {
    if (!m.report || !m.report->rows.front().fits) {
      text += fmt::format("{:<22} {}\n", m.name, m.report ? "no plan holds the goal" : m.reason);
      continue;
    }
    const ServeRow& r = m.report->rows.front();
    text += fmt::format("{:<22} {:>5} {:>9.0f} {:>9.2f} {:>11.0f} {:>9.1f} {:>8} {}, {}{}\n", m.name, r.gpus,
                        r.ttft.mean, r.tpot.mean, r.tokens_per_gpu, r.tokens_per_user,
                        r.money > 0 ? fmt::format("{:.3f}", r.money) : "-", r.plan, r.load,
                        r.stable_rate ? fmt::format(" (unstable: {:.3g} requests/s are stable)", *r.stable_rate) : "");
  }
  return text;
}

nlohmann::json to_json(const ServeMachines& all) {
  nlohmann::json machines = nlohmann::json::array();
  for (const ServeMachines::Machine& m : all.machines)
    machines.push_back(
        {{"on", m.name}, {"answer", m.report ? to_json(*m.report) : nlohmann::json()}, {"reason", m.reason}});
  return {{"schema", "weft.serve-machines/1"}, {"machines", machines}};
}

}  // namespace weft::report
