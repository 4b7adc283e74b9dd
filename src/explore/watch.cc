#include "explore/watch.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/text.h"
#include "schedule/schedule.h"
#include "simulate/simulate.h"

namespace weft::explore {

using report::Explorer;

namespace {

// None where a text stands there, as for the critical path.
std::optional<double> number_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string word(line.substr(at + key.size(), 32));
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  return end == word.c_str() ? std::nullopt : std::optional(value);
}

}  // namespace

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
    text += fmt::format("sends chunk {} to {} ranks", move.chunk, move.to.size());
  else
    text += fmt::format("sends chunk {} to rank{} {}", move.chunk, move.to.size() == 1 ? "" : "s",
                        fmt::join(move.to, ", "));
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
  std::string trace;
  WEFT_TRY(const simulate::Outcome outcome, simulate::simulate(machine, task, plan,
                                                               {.fold = folded,
                                                                .fast_forward = false,
                                                                .most_steps = most_steps,
                                                                .disturbances = disturbances,
                                                                .trace = &trace,
                                                                .trace_folded = folded}));
  Times times{.spans = {}, .total = outcome.time.us(), .ranks = task.ranks / outcome.folded};
  // A timeline has a line per event (sim/flow/timeline.h); a million of them are too many for a tree of JSON.
  for (std::size_t at = 0; at < trace.size();) {
    const std::size_t end = std::min(trace.find('\n', at), trace.size());
    const std::string_view line = std::string_view(trace).substr(at, end - at);
    at = end + 1;
    const auto rank = number_after(line, "\"pid\":"), strand = number_after(line, "\"tid\":");
    const auto begin = number_after(line, "\"ts\":"), lasts = number_after(line, "\"dur\":");
    if (line.find("\"ph\":\"X\"") == std::string_view::npos || !rank || !strand || !begin || !lasts) continue;
    times.spans[{static_cast<Rank>(*rank), static_cast<int>(*strand)}].push_back({*begin, *begin + *lasts});
  }
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
