#pragma once

#include "report/serve.h"
#include "workload/serving/compare.h"
#include "workload/serving/point.h"

namespace weft::serving {

// A question about serving as it is typed.
struct Words {
  std::string model, on, engine = "vllm", trace;
  Plan plan;
  int replicas = 1;
  double trace_scale = 1;
  Load load;
  double price = 0;  // of a GPU-hour, in the asker's currency; 0: not asked
};

// Errors (bad input): an unknown model or engine, no load or several, lengths and rates that are none, an empty trace.
Result<Question> understand(const Words& words);

// One plan's answer. Errors (bad input): those of understand and answer.
Result<report::ServeReport> serve_words(const cost::MachineView& machine, const Words& words);

report::ServeRow row_of(const Question& question, const Point& point, double price);
std::string describe(const Load& load);
nlohmann::json to_json(const ServingComparison& comparison);  // weft.serve-compare/1

}  // namespace weft::serving
