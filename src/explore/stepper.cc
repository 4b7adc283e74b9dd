#include "explore/stepper.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.h"
#include "explore/explore.h"
#include "schedule/schedule.h"
#include "simulate/simulate.h"

namespace weft::explore {
namespace {

using report::Explorer;

struct Span {
  double begin, end;  // us
};

// The times at which each strand's operations ran: by rank and strand, in their order.
Result<std::map<std::pair<Rank, int>, std::vector<Span>>> spans_of(const cost::MachineView& machine,
                                                                   const sim::Disturbances& disturbances,
                                                                   const schedule::Task& task,
                                                                   const schedule::Plan& plan, double& total) {
  std::string trace;
  WEFT_TRY(const simulate::Outcome outcome,
           simulate::simulate(machine, task, plan,
                              {.fold = false, .fast_forward = false, .disturbances = disturbances, .trace = &trace}));
  total = outcome.time.us();
  std::map<std::pair<Rank, int>, std::vector<Span>> spans;
  const nlohmann::json root = nlohmann::json::parse(trace, nullptr, false);
  if (root.is_discarded()) return failure(Code::kInternal, Blame::kOperation, "the timeline is no JSON");
  for (const auto& event : root.at("traceEvents"))
    if (event.value("ph", "") == "X" && event.at("pid").is_number())  // not the critical path
      spans[{event.at("pid").get<Rank>(), event.at("tid").get<int>()}].push_back(
          {event.at("ts").get<double>(), event.at("ts").get<double>() + event.at("dur").get<double>()});
  for (auto& [strand, list] : spans) std::ranges::sort(list, {}, &Span::begin);
  return spans;
}

// The other views are shown all the same.
void leave_out(const schedule::Plan& plan, Rank ranks, std::string_view has, Explorer& e) {
  e.played = false;
  e.verdict = fmt::format("The stepper shows at most {} ranks and {} moves; {} on {} ranks has {}. Ask for fewer ranks",
                          kMostRanks, kMostMoves, plan.algorithm->name, ranks, has);
}

std::size_t moves_of(const schedule::Schedule& schedule) {
  std::size_t moves = 0;
  for (const auto& strand : schedule.strands)
    moves += static_cast<std::size_t>(
        std::ranges::count_if(strand, [](const schedule::Step& s) { return s.kind == schedule::Step::Kind::kMove; }));
  return moves;
}

// Runs the schedule in the verifier and keeps every move with the contributions that its value holds.
schedule::Proof watch(const schedule::Schedule& schedule, int slots, Explorer& e, bool in_place = false) {
  return schedule::verify(schedule, {.slots = slots, .in_place = in_place, .on_move = [&](const schedule::Moved& m) {
                                       const schedule::Step& step =
                                           schedule.strand(m.rank, m.lane)[static_cast<std::size_t>(m.step)];
                                       Explorer::Move move{.rank = m.rank,
                                                           .lane = m.lane,
                                                           .step = m.step,
                                                           .text = to_string(step),
                                                           .chunk = m.chunk,
                                                           .holds = m.contributors};
                                       for (const schedule::Operand& o : step.destinations) {
                                         if (o.kind == schedule::Operand::Kind::kLocal)
                                           move.keeps = move.keeps || o.buffer == schedule::Buffer::kOut;
                                         else if (o.count > 0)
                                           for (Rank i = 0; i < o.count; ++i) move.to.push_back(o.group().member(i));
                                         else
                                           move.to.push_back(o.peer);
                                       }
                                       e.moves.push_back(std::move(move));
                                     }});
}

}  // namespace

Status play(const cost::MachineView& machine, const sim::Disturbances& disturbances, const schedule::Task& task,
            schedule::Plan plan, Explorer& e) {
  if (task.ranks > kMostRanks) {
    leave_out(plan, task.ranks, "more ranks", e);
    return {};
  }
  const int channels = std::exchange(plan.channels, 1);
  const schedule::Schedule schedule = schedule::write_out(*plan.algorithm, schedule::context_of(task, plan));
  const std::size_t moves = moves_of(schedule);
  if (moves > kMostMoves) {
    leave_out(plan, task.ranks, fmt::format("{} moves", moves), e);
    return {};
  }
  const schedule::Proof proof = watch(schedule, plan.algorithm->slots, e);
  e.proved = proof.ok();
  e.verdict = proof.ok() ? fmt::format("proved: {} steps, {} messages, {} remote accesses", proof.steps, proof.messages,
                                       proof.remote_accesses)
                         : "counterexample: " + proof.counterexample->text;
  e.chunks = schedule.shape.chunks;
  WEFT_TRY(const auto spans, spans_of(machine, disturbances, task, plan, e.total_us));
  if (channels > 1)
    e.verdict += fmt::format(". One channel is shown, which alone takes {}; the answer's {} channels share the message",
                             format_duration(Duration::microseconds(e.total_us)), channels);
  // Moves of a strand and the operations that carry them are in the same order; a move may be cut into several equal
  // runs of operations.
  std::map<std::pair<Rank, int>, std::vector<std::size_t>> by_strand;
  for (std::size_t i = 0; i < e.moves.size(); ++i) by_strand[{e.moves[i].rank, e.moves[i].lane}].push_back(i);
  e.timed = e.proved;
  for (const auto& [strand, list] : by_strand) {
    const auto at = spans.find(strand);
    e.timed = e.timed && at != spans.end() && at->second.size() % list.size() == 0;
  }
  for (auto& [strand, list] : by_strand)
    for (std::size_t k = 0; k < list.size(); ++k) {
      Explorer::Move& move = e.moves[list[k]];
      if (e.timed) {
        const auto& all = spans.at(strand);
        const std::size_t each = all.size() / list.size();
        move.begin_us = all[k * each].begin;
        for (std::size_t j = 0; j < each; ++j) move.end_us = std::max(move.end_us, all[k * each + j].end);
      } else {
        move.begin_us = static_cast<double>(list[k]);
        move.end_us = move.begin_us + 1;
      }
    }
  if (!e.timed) e.total_us = static_cast<double>(e.moves.size());
  std::ranges::stable_sort(e.moves, {}, &Explorer::Move::begin_us);
  return {};
}

void play_wrong(const schedule::Document& document, std::string_view file, Explorer& e) {
  const schedule::Schedule& schedule = document.schedule;
  e.proved = e.timed = false;
  const schedule::Finding finding = *schedule::prove(document).counterexample;
  e.verdict = "counterexample: " + schedule::locate(document, file, finding);
  const auto known = [](auto number) { return number < 0 ? std::nullopt : std::optional(number); };
  e.wrong = Explorer::Wrong{.rank = finding.rank,
                            .lane = finding.lane,
                            .step = known(finding.step),
                            .chunk = known(finding.chunk),
                            .peer = known(finding.peer),
                            .text = finding.text};
  e.chunks = schedule.shape.chunks;
  if (schedule.shape.ranks > kMostRanks || moves_of(schedule) > kMostMoves) {
    e.played = false;
    return;
  }
  // The way of calling it that fails; up to there the moves are as they would be.
  const bool apart_fails = document.out_of_place && !schedule::verify(schedule, {.slots = document.slots}).ok();
  watch(schedule, document.slots, e, !apart_fails);
  for (std::size_t i = 0; i < e.moves.size(); ++i)
    e.moves[i].begin_us = static_cast<double>(i), e.moves[i].end_us = static_cast<double>(i + 1);
  e.total_us = static_cast<double>(e.moves.size());
}

}  // namespace weft::explore
