#include "base/report/train.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "base/text.h"

namespace weft::report {

namespace {

// "26,370", "1e12": whole numbers as people write them; beyond a billion by their power of ten.
std::string grouped(double count) {
  if (count < 1000) return fmt::format("{:.4g}", count);
  if (count < 1e9) {
    std::string digits = fmt::format("{:.0f}", count);
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
      digits.insert(static_cast<std::size_t>(at), ",");
    return digits;
  }
  std::string text = fmt::format("{:.4g}", count);
  if (const auto plus = text.find("e+"); plus != std::string::npos) text.erase(plus + 1, text[plus + 2] == '0' ? 2 : 1);
  return text;
}

}  // namespace

std::string_view fit_in_words(const TrainRow& row) {
  return !row.fits ? " (does not fit)" : row.fit == "tight" ? " (fits tightly)" : "";
}

std::string in_a_sentence(const TrainReport& report) {
  constexpr double kGiB = 1073741824.0;
  const TrainRow& row = report.rows.front();
  double need = 0;
  for (const auto& [name, bytes] : row.memory) need += bytes;
  std::string sentence = fmt::format(
      "{} on {} of {}: {} a step, {:.1f} % MFU, {:.0f} tokens/s per GPU, {:.1f} of {:.0f} GiB{}; GEMMs and attention "
      "take "
      "{:.0f} % of the step, the largest part of the rest is {}.",
      report.model, counted(report.gpus, "GPU"), report.machine, format_duration(Duration::seconds(row.seconds)),
      100 * row.mfu, row.tokens_per_gpu, need / kGiB, row.capacity / kGiB, fit_in_words(row),
      100 * (row.parts[0].second + row.parts[1].second) / row.seconds, row.limit);
  if (!row.fits)
    sentence += row.remedy.empty() ? " No single change or pair of changes of the plan makes it fit."
                                   : fmt::format(" It would fit with {}.", row.remedy);
  if (report.healthy_seconds)
    sentence +=
        fmt::format(" That is {:.3f} times the {} without {}.", row.seconds / *report.healthy_seconds,
                    format_duration(Duration::seconds(*report.healthy_seconds)), fmt::join(report.faults, ", "));
  if (report.budget && report.run.tokens > 0) {
    const TrainBudget& b = *report.budget;
    sentence += fmt::format(" {} tokens take {:.1f} days and {} GPU-hours", grouped(report.run.tokens), b.days,
                            grouped(b.gpu_hours));
    if (report.run.price > 0) sentence += fmt::format(", {} at {:.4g} an hour", grouped(b.money), report.run.price);
    sentence += b.goodput < 1 ? fmt::format("; {:.1f} % of the time makes new steps.", 100 * b.goodput) : ".";
  }
  return sentence;
}

namespace {

nlohmann::json json_of(const TrainRun& run, const TrainBudget& b) {
  return {{"tokens", run.tokens},
          {"price_per_gpu_hour", run.price},
          {"failures_per_1000_node_days", run.failures},
          {"checkpoint_s", run.checkpoint_s},
          {"restart_s", run.restart_s},
          {"repair_s", run.repair_s},
          {"spares", run.spares},
          {"checkpoint_interval_s", b.interval_s},
          {"mttf_s", b.mttf_s},
          {"share_checkpoints", b.checkpoints},
          {"share_lost", b.lost},
          {"share_restarts", b.restarts},
          {"share_waiting", b.waiting},
          {"goodput", b.goodput},
          {"days", b.days},
          {"gpu_hours", b.gpu_hours},
          {"money", b.money}};
}

}  // namespace

nlohmann::json to_json(const TrainReport& report) {
  nlohmann::json rows = nlohmann::json::array();
  const auto named = [](const std::vector<std::pair<std::string, double>>& values) {
    nlohmann::json json = nlohmann::json::object();
    for (const auto& [name, value] : values) json[name] = value;
    return json;
  };
  const auto sends = [](const TrainRow& row) {
    nlohmann::json json = nlohmann::json::array();
    for (const TrainSends& s : row.sends)
      json.push_back(
          {{"of", s.of}, {"calls", s.calls}, {"bytes", s.bytes}, {"s", s.seconds}, {"exposed_s", s.exposed}});
    return json;
  };
  for (const TrainRow& row : report.rows)
    rows.push_back({{"plan", row.plan},
                    {"step_s", row.seconds},
                    {"tokens_per_s_per_gpu", row.tokens_per_gpu},
                    {"tflops_per_gpu", row.tflops},
                    {"mfu", row.mfu},
                    {"parts_s", named(row.parts)},
                    {"sends", sends(row)},
                    {"memory_bytes", named(row.memory)},
                    {"stage_memory_bytes", row.stage_memory},
                    {"capacity_bytes", row.capacity},
                    {"fits", row.fits},
                    {"fit", row.fit},
                    {"limit", row.limit},
                    {"would_fit", row.remedy},
                    {"reason", row.reason}});
  nlohmann::json what_if = nlohmann::json::array();
  for (const auto& w : report.what_if)
    what_if.push_back({{"what", w.what}, {"step_s", w.seconds}, {"change", w.change}, {"refused", w.refused}});
  nlohmann::json largest;
  for (const auto& [name, value] : report.largest) largest[name] = value;
  return {{"schema", "weft.train/1"},
          {"largest", largest},
          {"model", report.model},
          {"machine", report.machine},
          {"card", report.card},
          {"precision", report.precision},
          {"software", report.software},
          {"fitted", report.fitted},
          {"gpus", report.gpus},
          {"flops_formula", report.flops_formula},
          {"not_modelled", report.not_modelled},
          {"uncounted_memory", report.uncounted_memory},
          {"faults", report.faults},
          {"healthy_step_s", report.healthy_seconds ? nlohmann::json(*report.healthy_seconds) : nlohmann::json()},
          {"run", report.budget ? json_of(report.run, *report.budget) : nlohmann::json()},
          {"what_if", what_if},
          {"rows", rows}};
}

}  // namespace weft::report
