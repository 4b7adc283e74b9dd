#include "report/train.h"

namespace weft::report {

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
