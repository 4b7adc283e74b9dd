#include "model/accuracy/score.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "model/accuracy/spread.h"

namespace weft::accuracy {
namespace {

using Errors = std::array<std::vector<double>, kBands>;

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void collect(const Scored& scored, Errors& errors) {
  for (std::size_t i = 0; i < scored.predictions.size(); ++i) {
    const Point& point = scored.table.points[i];
    errors[static_cast<std::size_t>(band(point.bytes))].push_back(error_of(scored.predictions[i], point));
  }
}

Score score_of(Errors errors) {
  Score score;
  for (std::size_t b = 0; b < kBands; ++b) {
    score.points[b] = static_cast<int>(errors[b].size());
    score.error[b] = median(errors[b]);
  }
  return score;
}

}  // namespace

int band(Bytes bytes) { return bytes < kMedium ? 0 : bytes < kLarge ? 1 : 2; }

double error_of(const Prediction& prediction, const Point& point) { return std::abs(prediction.time / point.time - 1); }

std::vector<Scored> score_all(std::vector<Table> tables, const PredictorOf& predictor_of, const Progress& progress) {
  std::vector<Scored> all;
  std::map<std::string, Result<Predictor>> predictors;
  for (Table& table : tables) {
    if (progress) progress(all, tables.size());
    Scored& scored = all.emplace_back();
    scored.table = std::move(table);
    const std::string& machine = scored.table.machine;
    auto known = predictors.find(machine);
    if (known == predictors.end()) known = predictors.emplace(machine, predictor_of(machine)).first;
    if (!known->second) {
      scored.problem = known->second.error().message;
      continue;
    }
    const cost::MachineView& view = known->second->machine();
    const Rank ranks = scored.table.points.front().ranks;
    scored.measured =
        case_of(view, scored.table.collective, ranks > 0 && ranks <= view.endpoints() ? ranks : view.endpoints());
    for (const Point& point : scored.table.points) {
      const auto prediction = known->second->predict(scored.table, point);
      if (!prediction) {
        scored.problem = prediction.error().message;
        scored.predictions.clear();
        break;
      }
      scored.predictions.push_back(*prediction);
    }
    Errors errors;
    collect(scored, errors);
    scored.score = score_of(std::move(errors));
  }
  if (progress) progress(all, tables.size());
  return all;
}

Score total(const std::vector<Scored>& all, Use use) {
  Errors errors;
  for (const Scored& scored : all)
    if (scored.table.use == use) collect(scored, errors);
  return score_of(std::move(errors));
}

}  // namespace weft::accuracy
