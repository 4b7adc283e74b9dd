#include "apps/training/fit_cards.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "apps/training/config/config.h"
#include "apps/training/step.h"
#include "base/counted.h"

namespace weft::training {
namespace {

using nlohmann::json;

constexpr double kLeastShare = 0.05, kMostShare = 0.98;  // of a peak
constexpr std::string_view kElapsed = "elapsed time per iteration (ms):",
                           kElapsedSeconds = "elapsed time per iteration (s):";

// Mean |ln(predicted / measured)| of the steps with these shares.
Result<double> error_with(const std::vector<const OwnStep*>& steps, const Card& card) {
  double sum = 0;
  for (const OwnStep* own : steps) {
    const auto step = simulate_step(own->model, own->plan, card, *own->traffic);
    if (!step) return bad_input("{}: {}", own->where, step.error().message);
    sum += std::abs(std::log(step->seconds / own->measured));
  }
  return sum / static_cast<double>(steps.size());
}

// The least error along one share by golden section, of its logarithm: the error has one minimum, because steps only
// grow shorter with a larger share.
template <class Set>
Result<double> best_share(const std::vector<const OwnStep*>& steps, Card& card, double low, double high, Set&& set) {
  constexpr double kGolden = 0.6180339887498949;
  double a = std::log(low), b = std::log(high);
  const auto at = [&](double x) {
    set(card, std::exp(x));
    return error_with(steps, card);
  };
  double x1 = b - kGolden * (b - a), x2 = a + kGolden * (b - a);
  WEFT_TRY(double f1, at(x1));
  WEFT_TRY(double f2, at(x2));
  for (int i = 0; i < 24; ++i) {
    if (f1 < f2) {
      b = x2, x2 = x1, f2 = f1, x1 = b - kGolden * (b - a);
      WEFT_TRY(f1, at(x1));
    } else {
      a = x1, x1 = x2, f1 = f2, x2 = a + kGolden * (b - a);
      WEFT_TRY(f2, at(x2));
    }
  }
  const double best = std::exp((a + b) / 2);
  set(card, best);
  return best;
}

// "  hidden_size ..................................... 4096": the arguments that Megatron-LM prints, as it takes them.
std::string arguments_in(std::string_view log) {
  std::string arguments;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    std::string_view line = log.substr(at, end - at);
    at = end + 1;
    const std::size_t dots = line.find(" ....");
    if (dots == std::string_view::npos) continue;
    std::size_t key = line.find_last_of(" \t:", dots - 1);
    key = key == std::string_view::npos ? 0 : key + 1;
    std::string name(line.substr(key, dots - key));
    std::string_view value = line.substr(line.find_last_of('.', line.find_first_not_of(". ", dots) - 1) + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    while (!value.empty() && (value.back() == ' ' || value.back() == '\r')) value.remove_suffix(1);
    if (name.empty() || value.empty() || value == "None" || value == "False") continue;
    std::ranges::replace(name, '_', '-');
    arguments += value == "True" ? fmt::format("--{} \\\n", name) : fmt::format("--{} {} \\\n", name, value);
  }
  return arguments;
}

std::vector<double> seconds_in(std::string_view log) {
  std::vector<double> seconds;
  for (const auto& [mark, unit] : {std::pair{kElapsed, 1e-3}, {kElapsedSeconds, 1.0}})
    for (std::size_t at = log.find(mark); at != std::string_view::npos; at = log.find(mark, at + 1)) {
      const double value = std::strtod(std::string(log.substr(at + mark.size(), 32)).c_str(), nullptr);
      if (value > 0) seconds.push_back(value * unit);
    }
  return seconds;
}

}  // namespace

bool is_training_log(std::string_view text) {
  return text.find(kElapsed) != std::string_view::npos || text.find(kElapsedSeconds) != std::string_view::npos;
}

Result<std::vector<OwnStep>> own_steps(std::string_view file, std::string_view text, StepMachines& machines) {
  WEFT_TRY(const StepTable table, StepTable::parse(file, text));
  std::vector<OwnStep> steps;
  for (const StepLine& line : table.lines()) {
    OwnStep own{.where = fmt::format("{}:{}", file, line.number)};
    WEFT_TRY(const std::int64_t gpus, table.count(line, "gpus", 0));
    WEFT_TRY(own.measured, table.number(line, "step_s", 0));
    WEFT_TRY(own.model, model_of(table, line));
    WEFT_TRY(own.plan, plan_of(table, line, gpus));
    if (own.measured <= 0) continue;
    const auto found = machines.find(table.text(line, "gpu"), gpus);
    if (!found) return bad_input("{}: {}", own.where, found.error().message);
    own.card = found->card;
    own.traffic = found->machine->traffic.get();
    if (const auto divides = check_plan(own.model, own.plan); !divides)
      return bad_input("{}: {}", own.where, divides.error().message);
    steps.push_back(std::move(own));
  }
  if (steps.empty()) return bad_input("{}: no line has a step_s", file);
  return steps;
}

Result<OwnStep> step_of_log(std::string_view file, std::string_view text, const std::string& gpu,
                            StepMachines& machines) {
  constexpr std::size_t kWarmUp = 10, kLeast = 3;
  std::vector<double> seconds = seconds_in(text);
  if (seconds.size() < kWarmUp + kLeast)
    return bad_input("{}: {} iterations have a time, at least {} are needed: the first {} do not count", file,
                     seconds.size(), kWarmUp + kLeast, kWarmUp);
  const std::string arguments = arguments_in(text);
  if (arguments.find("--num-layers") == std::string::npos)
    return bad_input("{}: the log lacks the arguments that Megatron-LM prints at its start (num_layers …)", file);
  WEFT_TRY(const Config config, parse_config(file, arguments));
  if (!config.model) return bad_input("{}: its arguments do not give the model's sizes", file);
  OwnStep own{.where = std::string(file), .model = *config.model, .plan = {}, .card = {}};
  Plan& p = own.plan;
  p.software = 2025;
  p.seq = own.model.seq;
  std::int64_t world = 0;
  for (const auto& [name, value] : config.numbers) {
    for (const auto& [known, number] : {std::pair<std::string_view, std::int64_t*>{"tp", &p.tp},
                                        {"pp", &p.pp},
                                        {"vp", &p.vp},
                                        {"cp", &p.cp},
                                        {"ep", &p.ep},
                                        {"etp", &p.etp},
                                        {"mtp", &p.mtp},
                                        {"first-layers", &p.first_layers},
                                        {"last-layers", &p.last_layers},
                                        {"zero", &p.zero},
                                        {"micro-batch", &p.micro_batch},
                                        {"global-batch", &p.global_batch},
                                        {"seq", &p.seq},
                                        {"dp", &p.dp}})
      if (name == known) *number = value;
  }
  if (const std::size_t at = arguments.find("--world-size "); at != std::string::npos)
    world = std::strtoll(arguments.c_str() + at + 13, nullptr, 10);
  if (world > 0) p.dp = std::max<std::int64_t>(1, world / (p.tp * p.pp * p.cp));
  if (!config.recompute.empty()) {
    WEFT_TRY(p.recompute, parse_recompute(config.recompute));
  }
  if (!config.precision.empty()) p.precision = config.precision;
  if (const auto divides = check_plan(own.model, p); !divides)
    return bad_input("{}: {}", file, divides.error().message);
  const auto found = machines.find(gpu, p.ranks());
  if (!found) return bad_input("{}: {}", file, found.error().message);
  own.card = found->card;
  own.traffic = found->machine->traffic.get();
  seconds.erase(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(kWarmUp));
  std::ranges::sort(seconds);
  own.measured = seconds[seconds.size() / 2];
  return own;
}

Result<std::vector<CardFit>> fit_cards(const std::vector<OwnStep>& steps) {
  if (steps.empty()) return bad_input("there is no measured step to fit to");
  std::map<std::pair<std::string, std::string>, std::vector<const OwnStep*>> by_card;
  for (const OwnStep& own : steps) by_card[{own.card, own.plan.precision}].push_back(&own);
  std::vector<CardFit> fits;
  for (const auto& [key, own] : by_card) {
    WEFT_TRY(Card card, load_card(key.first, key.second));
    CardFit fit{.card = key.first, .precision = key.second, .chip = card.chip, .steps = own.size()};
    for (const OwnStep* step : own) fit.software = std::max(fit.software, step->plan.software);
    WEFT_TRY(fit.before, error_with(own, card));
    const double forward = card.attention_forward, backward = card.attention_backward;
    const bool attention = own.size() >= kStepsForAttention;
    // Each share in turn, until neither moves.
    for (int round = 0; round < (attention ? 4 : 1); ++round) {
      WEFT_TRY(fit.gemm, best_share(own, card, kLeastShare, kMostShare, [](Card& c, double share) { c.gemm = share; }));
      if (!attention) break;
      const double most = kMostShare / std::max(forward, backward);
      WEFT_TRY(const double factor, best_share(own, card, 0.2, most, [&](Card& c, double by) {
                 c.attention_forward = forward * by, c.attention_backward = backward * by;
               }));
      fit.at_bound = factor < 0.21 || factor > most * 0.99;
    }
    fit.at_bound = fit.at_bound || fit.gemm < kLeastShare * 1.01 || fit.gemm > kMostShare * 0.99;
    fit.forward = card.attention_forward, fit.backward = card.attention_backward;
    WEFT_TRY(fit.after, error_with(own, card));
    fits.push_back(std::move(fit));
  }
  return fits;
}

json to_cards(const std::vector<CardFit>& fits, const std::string& from, const std::string& date) {
  json cards = json::array();
  for (const CardFit& f : fits) {
    auto at = std::ranges::find_if(cards, [&](const json& c) { return c["chip"] == f.chip; });
    if (at == cards.end()) {
      cards.push_back({{"chip", f.chip}, {"software", f.software}, {"gemm", {{"source", "fit"}}}});
      at = cards.end() - 1;
    }
    (*at)["gemm"][f.precision] = f.gemm;
    (*at)["software"] = std::max((*at)["software"].get<int>(), f.software);
    (*at)["attention"] = {{"forward", f.forward}, {"backward", f.backward}, {"source", "fit"}};
  }
  std::size_t steps = 0;
  for (const CardFit& f : fits) steps += f.steps;
  return {{"schema", "weft.cards/1"},
          {"sources",
           {{"fit",
             {{"title", fmt::format("fitted by weft calibrate --train to {} of {}", counted(steps, "step"), from)},
              {"date", date}}}}},
          {"cards", cards}};
}

}  // namespace weft::training
