#include "apps/serving/fit.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/serving/files.h"

namespace weft::serving {
namespace {

Result<double> shipped_error() {
  for (const auto& file : embedded::serving_files()) {
    if (!file.path.ends_with("/accuracy.json")) continue;
    const nlohmann::json table = nlohmann::json::parse(file.text, nullptr, false);
    if (table.contains("source") && table.contains("tpot_error_at_90")) return table["tpot_error_at_90"].get<double>();
    return bad_input("{}: no tpot_error_at_90 with a source", file.path);
  }
  return bad_input("data/serving/accuracy.json is not compiled in");
}

}  // namespace

Result<std::string> preset_of(const std::string& gpu) {
  std::string asked;
  for (const char c : gpu) asked += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::vector<std::string> names;
  for (const auto& file : embedded::serving_files()) {
    if (!file.path.ends_with("/systems.json")) continue;
    const nlohmann::json table = nlohmann::json::parse(file.text, nullptr, false);
    for (const auto& s : table["systems"]) {
      const std::string name = s.value("name", "");
      names.push_back(name.substr(0, name.find('_')));
      if (asked == name || asked == names.back() || asked.starts_with(names.back() + "-")) return s.value("preset", "");
    }
  }
  return bad_input("GPU '{}': there are {}; for others weft serve --on MACHINE", gpu, fmt::join(names, ", "));
}

Result<Fitting> fit_model(Place& place, const Question& asked, std::int64_t context) {
  Question q = asked;
  WEFT_CHECK(check_plan(q.shape, q.plan));
  if (q.plan.gpus() > place.gpus())
    return bad_input("the plan needs {} GPUs, the machine has {}", q.plan.gpus(), place.gpus());
  WEFT_TRY(const kernels::Kernels* kernels, place.kernels(q.engine));
  WEFT_TRY(const Types types, types_of(q.shape, q.plan, q.engine, *kernels));
  Fitting f{.model = q.shape.name, .card = place.part(), .plan = q.plan};
  f.precision = kernels::name(q.shape.experts() ? types.experts : types.dense);
  WEFT_TRY(f.error, shipped_error());
  f.cache = types.cache_bytes == 1 ? "fp8" : "bf16";
  f.memory = memory_of(q.shape, q.plan, q.engine, types, *kernels);
  const double room = f.memory.cache() - f.memory.sequence;
  if (room > 0) f.longest = std::min(q.shape.longest, static_cast<std::int64_t>(room / std::max(1.0, f.memory.token)));
  const auto length = static_cast<double>(context);
  f.together = static_cast<std::int64_t>(f.memory.tokens(length, q.plan.dp) / length);
  f.fits = f.together >= 1;
  q.load = {.input = std::max<std::int64_t>(1, context * 3 / 4),
            .output = std::max<std::int64_t>(1, context / 4),
            .concurrency = 1};
  if (!f.fits) {
    f.would = what_fits(place, q);
    return f;
  }
  // A decode step in the middle of the answers.
  StepModel step(q.shape, q.plan, q.engine, types, *kernels, place.network());
  const double middle = length * 7 / 8;
  WEFT_TRY(const Parts one, step({.decodes = 1, .context = middle, .outputs = 1}));
  f.alone = 1 / one.total();
  const double many = std::min(512.0, static_cast<double>(f.together));
  WEFT_TRY(const Parts all, step({.decodes = many, .context = many * middle, .outputs = many}));
  f.full = many / all.total();
  return f;
}

}  // namespace weft::serving
