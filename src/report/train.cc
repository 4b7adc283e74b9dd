#include "report/train.h"

#include <fmt/format.h>

#include "base/text.h"

namespace weft::report {

std::string in_a_sentence(const TrainReport& report) {
  constexpr double kGiB = 1073741824.0;
  const TrainRow& row = report.rows.front();
  double need = 0;
  for (const auto& [name, bytes] : row.memory) need += bytes;
  std::string sentence = fmt::format(
      "{} on {} GPUs of {}: {} a step, {:.1f} % MFU, {:.0f} tokens/s per GPU, {:.1f} of {:.0f} GiB{}; {:.0f} % "
      "computes, the largest loss is {}.",
      report.model, report.gpus, report.machine, format_duration(Duration::seconds(row.seconds)), 100 * row.mfu,
      row.tokens_per_gpu, need / kGiB, row.capacity / kGiB, row.fits ? "" : " (does not fit)",
      100 * (row.parts[0].second + row.parts[1].second + row.parts[2].second) / row.seconds, row.limit);
  if (!row.fits)
    sentence += row.remedy.empty() ? " No single change or pair of changes of the plan makes it fit."
                                   : fmt::format(" It would fit with {}.", row.remedy);
  return sentence;
}

nlohmann::json to_json(const TrainReport& report) {
  nlohmann::json rows = nlohmann::json::array();
  const auto named = [](const std::vector<std::pair<std::string, double>>& values) {
    nlohmann::json json = nlohmann::json::object();
    for (const auto& [name, value] : values) json[name] = value;
    return json;
  };
  for (const TrainRow& row : report.rows)
    rows.push_back({{"plan", row.plan},
                    {"step_s", row.seconds},
                    {"tokens_per_s_per_gpu", row.tokens_per_gpu},
                    {"tflops_per_gpu", row.tflops},
                    {"mfu", row.mfu},
                    {"parts_s", named(row.parts)},
                    {"memory_bytes", named(row.memory)},
                    {"stage_memory_bytes", row.stage_memory},
                    {"capacity_bytes", row.capacity},
                    {"fits", row.fits},
                    {"limit", row.limit},
                    {"would_fit", row.remedy},
                    {"reason", row.reason}});
  return {{"schema", "weft.train/1"},
          {"model", report.model},
          {"machine", report.machine},
          {"card", report.card},
          {"precision", report.precision},
          {"software", report.software},
          {"gpus", report.gpus},
          {"flops_formula", report.flops_formula},
          {"not_modelled", report.not_modelled},
          {"rows", rows}};
}

}  // namespace weft::report
