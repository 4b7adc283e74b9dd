#include "base/report/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace weft::report {
namespace {

std::string money(const Advice& a, double value) { return fmt::format("{:.4g} {}", value, a.currency); }

std::string question(const Advice& a) {
  if (!a.serves)
    return fmt::format("Train {} ({}) on {:.4g} tokens{}{}", a.model, a.precision, a.tokens,
                       a.deadline > 0 ? fmt::format(" within {:.4g} days", a.deadline) : "",
                       a.budget > 0 ? fmt::format(" for at most {}", money(a, a.budget)) : "");
  std::string text = fmt::format("Serve {} ({}) at {:.4g} requests/s of {} + {} tokens", a.model, a.precision, a.rate,
                                 a.input, a.output);
  if (a.goal_ttft > 0) text += fmt::format(", TTFT up to {:.0f} ms", a.goal_ttft);
  if (a.goal_tpot > 0) text += fmt::format(", TPOT up to {:.4g} ms", a.goal_tpot);
  if (a.goal_ttft > 0 || a.goal_tpot > 0)
    text += a.percentile == 50 ? " in the median" : fmt::format(" at {} %", a.percentile);
  if (a.budget > 0) text += fmt::format(", for at most {} a month", money(a, a.budget));
  return text;
}

std::string on_what(const AdviceRow& r) {
  return fmt::format(
      "{} {}{}", r.gpus, r.card,
      r.nodes > 1 ? fmt::format(" in {} nodes ({})", r.nodes, r.machine) : fmt::format(" of one {}", r.machine));
}

std::string first_sentences(const Advice& a, const AdviceRow& r) {
  std::string text = fmt::format("{}: take {}, {}{}.\n", question(a), on_what(r), r.plan,
                                 r.engine.empty() ? "" : fmt::format(" by {}", r.engine));
  if (a.serves)
    text += fmt::format("It makes {:.0f} output tokens/s with a TTFT of {:.0f} ms and a TPOT of {:.2f} ms",
                        r.tokens_per_second, r.ttft, r.tpot);
  else
    text +=
        fmt::format("It takes {:.1f} days at {:.0f} tokens/s ({:.0f} % MFU)", r.days, r.tokens_per_second, 100 * r.mfu);
  if (r.hourly > 0)
    text += fmt::format(" and costs {} an hour, {}", money(a, r.hourly),
                        a.serves ? fmt::format("{} a month, {} per million output tokens",
                                               money(a, r.hourly * kHoursOfMonth), money(a, r.money))
                                 : money(a, r.money) + " in all");
  if (r.owned) text += ", on what is there already";
  if (r.kilowatts > 0) text += fmt::format("; it draws up to {:.4g} kW", r.kilowatts);
  return text + fmt::format(". What limits it: {}.\n", r.limit);
}

// Prices with their sources, each once.
std::string sources(const Advice& a) {
  std::set<std::string> all;
  for (const AdviceRow& r : a.rows)
    for (const std::string& s : {r.price_source, r.power_source})
      if (!s.empty()) all.insert(s);
  std::string text;
  for (const std::string& s : all) text += fmt::format("  {}\n", s);
  return text.empty() ? text : "\nprices and power (--prices FILE and --price take their place):\n" + text;
}

std::string table(const Advice& a) {
  std::string text =
      fmt::format("\n{:>4} {:>6} {:>9} {:>10} {:>9} {:>9} {:>7}  {:<22} {:<8} {:<30} {}\n", "rank", "GPUs", "an hour",
                  a.serves ? "M tokens" : "in all", a.serves ? "TTFT ms" : "days", a.serves ? "TPOT ms" : "MFU %", "kW",
                  "machine", a.serves ? "engine" : "", "plan", "why not");
  int rank = 0;
  const auto cell = [](double v, const char* format) { return v > 0 ? fmt::format(fmt::runtime(format), v) : "-"; };
  for (const AdviceRow& r : a.rows)
    text += fmt::format("{:>4} {:>6} {:>9} {:>10} {:>9} {:>9} {:>7}  {:<22} {:<8} {:<30} {}\n",
                        r.holds ? fmt::format("{}", ++rank) : "-", r.gpus > 0 ? fmt::format("{}", r.gpus) : "",
                        cell(r.hourly, "{:.2f}"), cell(r.money, "{:.4g}"),
                        a.serves ? cell(r.ttft, "{:.0f}") : cell(r.days, "{:.1f}"),
                        a.serves ? cell(r.tpot, "{:.2f}") : cell(100 * r.mfu, "{:.1f}"), cell(r.kilowatts, "{:.4g}"),
                        r.machine, r.engine, r.plan, r.reason);
  return text;
}

}  // namespace

std::string in_words(const Advice& a) {
  std::string text;
  if (a.rows.empty() || !a.rows.front().holds) {
    const bool priceless =
        std::ranges::any_of(a.rows, [](const AdviceRow& r) { return r.reason.starts_with("no price"); });
    text = fmt::format("{}: {}.\n", question(a),
                       priceless ? "no price: give --price, and the machines that do it are ranked; the table has what "
                                   "they take"
                                 : "none of the machines does it; the table says why");
  } else {
    text = first_sentences(a, a.rows.front());
    if (!a.rows.front().library.empty()) text += fmt::format("Collectives: {}.\n", a.rows.front().library);
  }
  if (!a.fabric_note.empty()) text += a.fabric_note + "\n";
  for (const AdviceFabric& f : a.fabrics)
    text += f.refused.empty() ? fmt::format("With {} it takes {:+.1f} %.\n", f.fabric, 100 * f.change)
                              : fmt::format("With {}: {}.\n", f.fabric, f.refused);
  for (const AdviceTurn& t : a.turns)
    text += fmt::format("From {:.4g} {} on: {}.\n", t.size, a.serves ? "requests/s" : "GPUs", t.answer);
  text += table(a);
  text += "\nthe commands that print these figures:\n";
  for (const AdviceRow& r : a.rows)
    if (!r.command.empty()) text += fmt::format("  {}\n", r.command);
  for (const AdviceFabric& f : a.fabrics)
    if (!f.command.empty()) text += fmt::format("  {}\n", f.command);
  for (const AdviceTurn& t : a.turns)
    if (!t.command.empty()) text += fmt::format("  {}\n", t.command);
  return text + sources(a);
}

nlohmann::json to_json(const Advice& a) {
  nlohmann::json rows = nlohmann::json::array(), fabrics = rows, turns = rows;
  for (const AdviceRow& r : a.rows)
    rows.push_back({{"machine", r.machine},
                    {"card", r.card},
                    {"gpus", r.gpus},
                    {"nodes", r.nodes},
                    {"plan", r.plan},
                    {"engine", r.engine},
                    {"collectives", r.library},
                    {"limit", r.limit},
                    {"holds", r.holds},
                    {"owned", r.owned},
                    {"reason", r.reason},
                    {"command", r.command},
                    {"price_per_gpu_hour", r.per_gpu_hour},
                    {"price_source", r.price_source},
                    {"price_per_hour", r.hourly},
                    {a.serves ? "money_per_million_tokens" : "money", r.money},
                    {"kilowatts", r.kilowatts},
                    {"power_source", r.power_source},
                    {"ttft_ms", r.ttft},
                    {"tpot_ms", r.tpot},
                    {"tokens_per_s", r.tokens_per_second},
                    {"days", r.days},
                    {"mfu", r.mfu}});
  for (const AdviceFabric& f : a.fabrics)
    fabrics.push_back({{"fabric", f.fabric}, {"change", f.change}, {"refused", f.refused}, {"command", f.command}});
  for (const AdviceTurn& t : a.turns)
    turns.push_back(
        {{a.serves ? "from_requests_per_s" : "from_gpus", t.size}, {"answer", t.answer}, {"command", t.command}});
  return {{"schema", "weft.advise/1"},
          {"work", a.serves ? "serve" : "train"},
          {"model", a.model},
          {"precision", a.precision},
          {"currency", a.currency},
          {"requests_per_s", a.rate},
          {"input_tokens", a.input},
          {"output_tokens", a.output},
          {"goal", {{"ttft_ms", a.goal_ttft}, {"tpot_ms", a.goal_tpot}, {"percentile", a.percentile}}},
          {"tokens", a.tokens},
          {"deadline_days", a.deadline},
          {"budget", a.budget},
          {"rows", rows},
          {"fabrics", fabrics},
          {"fabric_note", a.fabric_note},
          {"turns", turns}};
}

}  // namespace weft::report
