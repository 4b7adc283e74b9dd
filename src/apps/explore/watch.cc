#include "apps/explore/watch.h"

#include <algorithm>

#include "base/counted.h"
#include "base/text.h"
#include "model/simulate/simulate.h"
#include "plan/schedule/schedule.h"

namespace weft::explore {

using report::Explorer;

Explorer::Move move_of(const schedule::Schedule& schedule, const schedule::Moved& m) {
  const schedule::Step& step = schedule.strand(m.rank, m.lane)[static_cast<std::size_t>(m.step)];
  Explorer::Move move{.rank = m.rank,
                      .lane = m.lane,
                      .step = m.step,
                      .text = to_string(step),
                      .chunk = m.chunk,
                      .to = {},
                      .holds = {},
                      .held = {},
                      .said = {}};
  for (const schedule::Operand& o : step.destinations) {
    if (o.kind == schedule::Operand::Kind::kLocal)
      move.keeps = move.keeps || o.buffer == schedule::Buffer::kOut;
    else if (o.count > 0)
      for (Rank i = 0; i < o.count; ++i) move.to.push_back(o.group().member(i));
    else
      move.to.push_back(o.peer);
  }
  return move;
}

std::string sentence(const Explorer::Move& move, Rank holds, Rank all) {
  constexpr std::size_t kNamed = 4;
  std::string text = fmt::format("Rank {} ", move.rank);
  if (move.to.empty())
    text += fmt::format("writes chunk {} to its own memory", move.chunk);
  else if (move.to.size() > kNamed)
    text += fmt::format("sends chunk {} to {}", move.chunk, counted(move.to.size(), "rank"));
  else
    text +=
        fmt::format("sends chunk {} to {} {}", move.chunk, plural(move.to.size(), "rank"), fmt::join(move.to, ", "));
  if (!move.to.empty() && move.keeps) text += " and keeps it";
  return text + fmt::format("; it holds {}.", holds == all && all > 1 ? fmt::format("all {} contributions", all)
                                              : holds == 1            ? "one contribution"
                                                           : fmt::format("{} of {} contributions", holds, all));
}

std::size_t moves_of(const schedule::Schedule& schedule) {
  std::size_t moves = 0;
  for (const auto& strand : schedule.strands)
    moves += static_cast<std::size_t>(
        std::ranges::count_if(strand, [](const schedule::Step& s) { return s.kind == schedule::Step::Kind::kMove; }));
  return moves;
}

Result<Times> times_of(const cost::MachineView& machine, const sim::Disturbances& disturbances,
                       const schedule::Task& task, const schedule::Plan& plan, bool folded, double most_steps) {
  sim::Timeline timeline;
  WEFT_TRY(const simulate::Outcome outcome, simulate::simulate(machine, task, plan,
                                                               {.fold = folded,
                                                                .fast_forward = false,
                                                                .most_steps = most_steps,
                                                                .disturbances = disturbances,
                                                                .timeline = &timeline,
                                                                .trace_folded = folded}));
  Times times{.spans = {}, .total = outcome.time.us(), .ranks = task.ranks / outcome.folded};
  // Whole picoseconds, so that a time in microseconds has six decimals.
  const auto microseconds = [](Duration t) { return static_cast<double>(t.ps()) / 1e6; };
  for (const sim::Timeline::Span& s : timeline.spans())
    times.spans[{s.rank, s.strand}].push_back({microseconds(s.begin), microseconds(s.end)});
  for (auto& [strand, list] : times.spans) std::ranges::sort(list, {}, &Times::Span::begin);
  return times;
}

bool set_time(const Times& times, std::size_t index, std::size_t moves, Explorer::Move& move) {
  const auto* all = times.of(move.rank, move.lane);
  if (all == nullptr || moves == 0 || all->size() % moves != 0) return false;
  const std::size_t each = all->size() / moves;
  move.begin_us = (*all)[index * each].begin;
  for (std::size_t j = 0; j < each; ++j) move.end_us = std::max(move.end_us, (*all)[index * each + j].end);
  return true;
}

}  // namespace weft::explore
