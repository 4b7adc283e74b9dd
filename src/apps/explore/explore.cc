#include "apps/explore/explore.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "apps/explore/bandwidth.h"
#include "apps/explore/machine_tables.h"
#include "apps/explore/stepper.h"
#include "base/counted.h"
#include "base/text.h"
#include "model/accuracy/measured.h"
#include "model/predict/predict.h"
#include "model/sim/flow/flow_fabric.h"
#include "model/simulate/faults.h"
#include "model/simulate/simulate.h"
#include "plan/cost/limit.h"
#include "plan/protocol/protocol.h"
#include "plan/schedule/exchange/written.h"
#include "plan/tune/tune.h"

namespace weft::explore {
namespace {

using report::Explorer;

// The task on the ranks that faults have left.
schedule::Task on_ranks(schedule::Task task, Rank left, const cost::MachineView& machine) {
  task.ranks = left;
  task.ranks_per_node = machine.ranks_per_node(left);
  task.root = std::min(task.root, left - 1);
  const Bytes unit = schedule::message_parts(task.collective, left);
  task.elements = std::max<Bytes>(1, task.elements / unit) * unit;
  return task;
}

using Points = std::vector<std::pair<Bytes, double>>;

// A candidate's predicted bus bandwidth over sizes. Errors: of tune::candidates.
Result<Points> points_of(const cost::MachineView& machine, tune::Question question, std::string_view algorithm,
                         std::string_view protocol) {
  question.algorithm = algorithm, question.protocol = protocol;
  const Bytes unit = schedule::message_parts(question.task.collective, question.task.ranks);
  const Bytes each = question.task.element_bytes;
  Points points;
  for (Bytes bytes = 1024; bytes <= Bytes{1} << 30; bytes *= 4) {
    question.task.elements = std::max<Bytes>(1, bytes / each / unit) * unit;
    WEFT_TRY(const auto candidates, tune::candidates(machine, question));
    const Bytes actual = question.task.elements * each;
    if (const tune::Candidate& c = candidates.front(); c.possible)
      points.emplace_back(actual, bus_bandwidth(actual, c.estimate.total, question.task));
  }
  return points;
}

using Answering = std::pair<std::string, std::string>;  // algorithm, protocol

// The best candidates without their points, those that are chosen first, and the one that answers.
Result<std::vector<Explorer::Curve>> curves_without_points(const cost::MachineView& machine,
                                                           const tune::Question& question, const Answering& answers) {
  constexpr std::size_t kMostCurves = 8;
  std::map<std::pair<std::string, std::string>, Explorer::Curve> all;
  WEFT_TRY(const auto here, tune::candidates(machine, question));
  for (const tune::Candidate& c : here) {
    const std::string name(c.plan.algorithm->name), protocol(protocol::traits(c.plan.protocol).name);
    if (!c.possible || (all.size() >= kMostCurves && std::pair(name, protocol) != answers)) continue;
    all.try_emplace({name, protocol}, Explorer::Curve{name, protocol, c.plan.channels, c.chosen, c.reason, {}});
  }
  std::vector<Explorer::Curve> found;
  for (auto& [name, curve] : all) found.push_back(std::move(curve));
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.chosen > b.chosen; });
  return found;
}

Result<std::vector<Explorer::Curve>> curves(const cost::MachineView& machine, const tune::Question& question,
                                            const Answering& answers) {
  WEFT_TRY(auto all, curves_without_points(machine, question, answers));
  for (Explorer::Curve& curve : all) {
    WEFT_TRY(curve.busbw_GBps, points_of(machine, question, curve.algorithm, curve.protocol));
  }
  return all;
}

tune::Question question_of(const cost::MachineView& on, const Question& q, const schedule::Task& task) {
  return {.task = task, .can = sim::flow_capabilities(on.topology()), .algorithm = q.algorithm, .protocol = q.protocol};
}

// A machine's name with its options in order, so that equal machines have equal names: "dgx-h100:net=…,nodes=2".
std::string in_order(std::string_view machine) {
  const std::size_t colon = machine.find(':');
  if (colon == std::string_view::npos) return std::string(machine);
  std::vector<std::string_view> options;
  for (std::size_t at = colon + 1; at < machine.size();) {
    const std::size_t comma = std::min(machine.find(',', at), machine.size());
    options.push_back(machine.substr(at, comma - at));
    at = comma + 1;
  }
  std::erase(options, "nodes=1");
  std::ranges::sort(options);
  std::string name(machine.substr(0, colon));
  for (const std::string_view option : options) name += fmt::format(",{}", option);
  return name;
}

// Published measurements of this collective on this machine.
Status measured(const schedule::Task& task, Rank machine_ranks, Explorer& e) {
  WEFT_TRY(const auto tables, accuracy::shipped_tables());
  for (const accuracy::Table& t : tables) {
    if (t.collective != task.collective || in_order(t.machine) != in_order(e.machine)) continue;
    Explorer::Measured found{t.name, t.about, {}};
    for (const accuracy::Point& p : t.points)
      if ((p.ranks == 0 ? machine_ranks : p.ranks) == task.ranks)
        found.busbw_GBps.emplace_back(p.bytes, bus_bandwidth(p.bytes, p.time, task));
    if (!found.busbw_GBps.empty()) e.measured.push_back(std::move(found));
  }
  return {};
}

// Requires: e.machine and e.algorithm, which is the answer's as `protocol` is.
Status add_curves(const cost::MachineView& machine, tune::Question question, Rank machine_ranks,
                  std::string_view protocol, bool with_points, Explorer& e) {
  const std::string_view why = question.algorithm.empty() ? "the best when simulated" : "asked for";
  question.algorithm.clear(), question.protocol.clear();
  WEFT_TRY(e.curves,
           (with_points ? curves : curves_without_points)(machine, question, {e.algorithm, std::string(protocol)}));
  // The answer's plan is the best of those that were simulated, which estimates may rank otherwise.
  for (Explorer::Curve& curve : e.curves) {
    const bool answers = curve.algorithm == e.algorithm && curve.protocol == protocol;
    if (answers && !curve.chosen) curve.reason = fmt::format("{}; estimated: {}", why, curve.reason);
    curve.chosen = answers;
  }
  std::ranges::stable_sort(e.curves, std::ranges::greater(), &Explorer::Curve::chosen);
  return measured(question.task, machine_ranks, e);
}

// A machine, and the task on it, without what the question's faults take out.
struct Left {
  std::optional<cost::MachineView> faulted;  // empty: the whole machine
  sim::Disturbances disturbances;
  schedule::Task task;
};
Result<Left> left_of(const cost::MachineView& whole, const Question& q) {
  Left left{.faulted = {}, .disturbances = {}, .task = q.task};
  if (q.faults.empty()) return left;
  WEFT_TRY(simulate::Faulted faults, simulate::apply_faults(whole.topology(), q.faults));
  left.disturbances = std::move(faults.disturbances);
  left.faulted.emplace(std::move(faults.machine), whole.costs());
  if (const Rank ranks = left.faulted->endpoints(); ranks < left.task.ranks)
    left.task = on_ranks(left.task, ranks, *left.faulted);
  return left;
}

}  // namespace

Result<Estimated> estimate(const cost::MachineView& whole, const Question& q) {
  WEFT_TRY(const Left left, left_of(whole, q));
  const cost::MachineView& machine = left.faulted ? *left.faulted : whole;
  WEFT_TRY(const tune::Candidate choice, tune::choose(machine, question_of(machine, q, left.task)));
  const Duration time = choice.estimate.total;
  Estimated e{.time = time,
              .sentence = fmt::format("{} by {}, {}, as the cost model estimates", format_duration(time),
                                      choice.plan.algorithm->name, protocol::traits(choice.plan.protocol).name)};
  if (!q.faults.empty()) {
    WEFT_TRY(const tune::Candidate healthy, tune::choose(whole, question_of(whole, q, q.task)));
    e.sentence += fmt::format(", {:.2f} times the {} without the {}", time / healthy.estimate.total,
                              format_duration(healthy.estimate.total), plural(q.faults.size(), "fault"));
  }
  e.sentence += "; the simulation follows …";
  return e;
}

Result<Explorer> answer(const cost::MachineView& whole, const Question& q) {
  WEFT_TRY(const Left left, left_of(whole, q));
  const sim::Disturbances& disturbances = left.disturbances;
  const schedule::Task& task = left.task;
  const cost::MachineView& machine = left.faulted ? *left.faulted : whole;
  Explorer e;
  const tune::Question question = question_of(machine, q, task);
  WEFT_TRY(const predict::Answer found,
           predict::predict(machine, {.question = question, .options = {.disturbances = disturbances}}));
  const tune::Candidate& choice = found.choice;
  const simulate::Outcome& outcome = found.outcome;
  const Bytes bytes = task.elements * task.element_bytes;
  const cost::Limit limit = cost::limit(machine, task);
  e.machine = q.machine;
  e.collective = schedule::name(task.collective);
  e.algorithm = choice.plan.algorithm->name;
  e.when = choice.plan.algorithm->when;
  e.source = choice.plan.algorithm->source;
  e.ranks = task.ranks;
  e.bytes = bytes;
  e.limit = limit.resource;
  e.limit_GBps = bus_bandwidth(bytes, limit.time, task);
  e.time_us = outcome.time.us();
  e.least_us = limit.time.us();
  e.low_us = e.high_us = e.time_us;
  if (outcome.method == simulate::Method::kExtrapolated) e.low_us = outcome.low.us(), e.high_us = outcome.high.us();
  e.busbw_GBps = bus_bandwidth(bytes, outcome.time, task);
  const std::string_view protocol = protocol::traits(choice.plan.protocol).name;
  e.protocol = protocol;
  e.question =
      fmt::format("{} of {} on {} of {}", e.collective, format_bytes(bytes), counted(task.ranks, "rank"), q.machine);
  e.answer = fmt::format("{} by {}, {}, {}; {}.", format_duration(outcome.time), e.algorithm, protocol,
                         counted(choice.plan.channels, "channel"), cost::share_of_least(limit, task, outcome.time));
  e.command =
      fmt::format("weft bench {} --on {} --ranks {} --min {} --max {} --algo {} --proto {} --channels {}", e.collective,
                  q.machine, task.ranks, bytes, bytes, e.algorithm, protocol, choice.plan.channels);
  if (!q.faults.empty()) {
    WEFT_TRY(const predict::Answer healthy,
             predict::predict(whole, {.question = question_of(whole, q, q.task),
                                      .options = {.extrapolate = outcome.method == simulate::Method::kExtrapolated}}));
    e.healthy_us = healthy.outcome.time.us();
    e.slowdown = outcome.time / healthy.outcome.time;
    e.question += fmt::format(" with {}", fmt::join(q.faults, ", "));
    e.answer += fmt::format(" That is {:.2f} times the {} without the {}.", *e.slowdown,
                            format_duration(healthy.outcome.time), plural(q.faults.size(), "fault"));
    for (const std::string& fault : q.faults) e.command += fmt::format(" --fault {}", fault);
  }
  describe(whole, machine, e);
  e.places = places_of(machine, task.ranks);
  WEFT_CHECK(play(machine, disturbances, task, choice.plan, q.chunk, e));
  e.has_curves = q.curves;
  if (q.curves) WEFT_CHECK(add_curves(machine, question, whole.endpoints(), protocol, true, e));
  return e;
}

Result<Explorer> curves_of(const cost::MachineView& whole, const Question& q, std::string_view algorithm,
                           std::string_view protocol, bool with_points) {
  WEFT_TRY(const Left left, left_of(whole, q));
  const cost::MachineView& machine = left.faulted ? *left.faulted : whole;
  Explorer e;
  e.machine = q.machine;
  e.algorithm = algorithm;
  const cost::Limit limit = cost::limit(machine, left.task);
  e.limit = limit.resource;
  e.limit_GBps = bus_bandwidth(left.task.elements * left.task.element_bytes, limit.time, left.task);
  WEFT_CHECK(add_curves(machine, question_of(machine, q, left.task), whole.endpoints(), protocol, with_points, e));
  return e;
}

Result<std::vector<std::pair<Bytes, double>>> curve_of(const cost::MachineView& whole, const Question& q,
                                                       std::string_view algorithm, std::string_view protocol) {
  WEFT_TRY(const Left left, left_of(whole, q));
  const cost::MachineView& machine = left.faulted ? *left.faulted : whole;
  return points_of(machine, question_of(machine, q, left.task), algorithm, protocol);
}

Result<Explorer> wrong_answer(const cost::MachineView& machine, const Question& q) {
  WEFT_TRY(const schedule::Document document, schedule::read_document(q.algorithm));
  if (schedule::prove(document).ok()) return bad_input("{} is proved", q.algorithm);
  Explorer e;
  e.machine = q.machine;
  e.collective = schedule::name(document.schedule.shape.collective);
  e.algorithm = document.name;
  e.source = "a file";
  e.ranks = document.schedule.shape.ranks;
  e.bytes = q.task.elements * q.task.element_bytes;
  describe(machine, machine, e);
  play_wrong(document, q.algorithm, e);
  e.question = fmt::format("Is {} a schedule of {} on {}?", q.algorithm, e.collective, counted(e.ranks, "rank"));
  e.answer = fmt::format("No: {}.", e.wrong ? e.wrong->text : e.verdict);
  e.command = fmt::format("weft verify {}", q.algorithm);
  return e;
}

Result<std::string> judge(const cost::MachineView& whole, const Question& q, std::span<const Guess> guesses) {
  if (guesses.empty()) return bad_input("a guess has at least one size");
  WEFT_TRY(const Left left, left_of(whole, q));
  const cost::MachineView& machine = left.faulted ? *left.faulted : whole;
  WEFT_TRY(const auto all, curves(machine, question_of(machine, q, left.task), {}));
  std::size_t close = 0;
  double farthest = 0, wanted = 0;
  const Guess* worst = nullptr;
  for (const Guess& guess : guesses) {
    if (guess.bytes <= 0 || !(guess.busbw_GBps > 0))
      return bad_input("a guess of {} GB/s at {} bytes is not one", guess.busbw_GBps, guess.bytes);
    double best = 0;  // of the size nearest to the guess
    for (const Explorer::Curve& curve : all) {
      const auto at = std::ranges::min_element(curve.busbw_GBps, {}, [&](const auto& p) {
        return std::abs(std::log(static_cast<double>(p.first) / static_cast<double>(guess.bytes)));
      });
      if (at != curve.busbw_GBps.end()) best = std::max(best, at->second);
    }
    if (best <= 0) return bad_input("no candidate has a curve");
    const double off = std::abs(std::log(guess.busbw_GBps / best));
    if (off <= std::log(1.5)) ++close;
    if (worst == nullptr || off > farthest) farthest = off, wanted = best, worst = &guess;
  }
  if (close == guesses.size())
    return fmt::format("Every size of your guess is within a factor of 1.5 of the prediction.");
  return fmt::format(
      "{} of {} {} within a factor of 1.5 of the prediction. Farthest off is {}: you guessed {:.3g} GB/s, the cost "
      "model says {:.3g}, {:.2g} times {}.",
      close, counted(guesses.size(), "size"), close == 1 ? "is" : "are", format_bytes(worst->bytes), worst->busbw_GBps,
      wanted, std::exp(farthest), worst->busbw_GBps > wanted ? "less" : "more");
}

}  // namespace weft::explore
