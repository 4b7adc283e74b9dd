#include "apps/serving/fit.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/serving/files.h"
#include "base/counted.h"

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
  std::vector<std::pair<std::string, std::string>> known;  // name, preset
  for (const auto& file : embedded::serving_files()) {
    if (!file.path.ends_with("/systems.json")) continue;
    const nlohmann::json table = nlohmann::json::parse(file.text, nullptr, false);
    for (const auto& s : table["systems"]) {
      const std::string name = s.value("name", "");
      known.emplace_back(name.substr(0, name.find('_')), s.value("preset", ""));
      if (asked == name) return known.back().second;
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, preset] : known) names.push_back(name);
  for (const bool whole : {true, false})
    for (const auto& [name, preset] : known)
      if (whole ? asked == name : asked.starts_with(name + "-")) return preset;
  return bad_input("GPU '{}': there are {}; for others weft serve --on MACHINE", gpu, fmt::join(names, ", "));
}

Result<Plan> plan_on(const Shape& shape, Rank gpus) {
  std::vector<Rank> possible;
  for (Rank tp = 1; tp <= std::clamp<Rank>(gpus, 64, 1024); ++tp)
    if (check_plan(shape, {.tp = tp})) possible.push_back(tp);
  for (auto tp = possible.rbegin(); tp != possible.rend(); ++tp) {
    if (gpus % *tp != 0 || (*tp < gpus && !shape.experts())) continue;
    Plan plan{.tp = *tp, .dp = gpus / *tp};
    if (shape.experts() && (shape.latent() || plan.dp > 1)) plan.ep = gpus;
    if (check_plan(shape, plan)) return plan;
  }
  return bad_input("--gpus {}: {} can be cut over {} GPUs{}", gpus, shape.name, fmt::join(possible, ", "),
                   shape.experts() ? " and multiples of them" : "; more serve replicas of it");
}

Result<Fitting> fit_model(Place& place, const Question& asked, std::int64_t context) {
  Question q = asked;
  WEFT_CHECK(check_plan(q.shape, q.plan));
  if (q.shape.longest > 0 && context > q.shape.longest)
    return bad_input("--context {}: the context of {} has {} tokens (max_position_embeddings)", context, q.shape.name,
                     q.shape.longest);
  if (q.plan.gpus() > place.gpus())
    return bad_input("the plan needs {}, the machine has {}", counted(q.plan.gpus(), "GPU"), place.gpus());
  WEFT_TRY(const kernels::Kernels* kernels, place.kernels(q.engine));
  WEFT_CHECK(check_card(q.engine, *kernels));
  WEFT_TRY(const Types types, types_of(q.shape, q.plan, q.engine, *kernels));
  Fitting f{.model = q.shape.name, .card = place.part(), .plan = q.plan};
  f.precision = kernels::name(q.shape.experts() ? types.experts : types.dense);
  WEFT_TRY(f.error, shipped_error());
  f.cache = types.cache_bytes == 1 ? "fp8" : "bf16";
  f.memory = memory_of(q.shape, q.plan, q.engine, types, *kernels);
  const double room = f.memory.cache() - f.memory.sequence;
  if (room > 0) f.longest = static_cast<std::int64_t>(std::min(1e15, room / std::max(1.0, f.memory.token)));
  if (q.shape.longest > 0) f.longest = std::min(f.longest, q.shape.longest);
  const auto length = static_cast<double>(context);
  f.together = static_cast<std::int64_t>(f.memory.tokens(length, q.plan.dp) / length);
  f.fits = f.together >= 1;
  q.load = {.input = std::max<std::int64_t>(1, context * 3 / 4),
            .output = std::max<std::int64_t>(1, context / 4),
            .concurrency = 1};
  if (!f.fits) {
    f.would = what_fits(place, q, [](const Plan& plan) { return fmt::format("--gpus {}", plan.gpus()); });
    return f;
  }
  // A decode step in the middle of the answers.
  StepModel step(q.shape, q.plan, q.engine, types, *kernels, place.network());
  const double middle = length * 7 / 8;
  WEFT_TRY(const Parts one, step({.decodes = 1, .context = middle, .outputs = 1}));
  f.alone = 1 / one.total();
  f.running = std::min(kMostRunning * q.plan.dp, f.together);
  const auto many = static_cast<double>(f.running);
  WEFT_TRY(const Parts all, step({.decodes = many, .context = many * middle, .outputs = many}));
  f.full = many / all.total();
  return f;
}

}  // namespace weft::serving
