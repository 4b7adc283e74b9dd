#include "apps/explore/stepper.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "apps/explore/explore.h"
#include "apps/explore/follow.h"
#include "apps/explore/watch.h"
#include "base/counted.h"
#include "base/text.h"
#include "plan/schedule/collective.h"
#include "plan/schedule/schedule.h"

namespace weft::explore {
namespace {

using report::Explorer;

// Ranks whose input the result of this chunk is made of.
Rank contributors_of(const schedule::Shape& shape, schedule::ChunkId chunk) {
  return static_cast<Rank>(schedule::contributors(shape, shape.block_of(chunk)).count);
}

// Runs the schedule in the verifier and keeps every move with the contributions that its value holds.
schedule::Proof watch(const schedule::Schedule& schedule, int slots, Explorer& e, bool in_place = false) {
  return schedule::verify(schedule, {.slots = slots, .in_place = in_place, .on_move = [&](const schedule::Moved& m) {
                                       Explorer::Move move = move_of(schedule, m);
                                       for (const auto& run : m.contributors)
                                         for (Rank i = 0; i < run.count; ++i) move.holds.push_back(run.first + i);
                                       move.said = sentence(move, static_cast<Rank>(move.holds.size()),
                                                            contributors_of(schedule.shape, move.chunk));
                                       e.moves.push_back(std::move(move));
                                     }});
}

void say_ends(const schedule::Shape& shape, Explorer& e) {
  e.inputs.resize(static_cast<std::size_t>(shape.ranks));
  for (Rank r = 0; r < shape.ranks; ++r)
    for (schedule::ChunkId c = 0; c < shape.chunks; ++c) {
      if (!holds(shape, schedule::Buffer::kIn, c, r)) continue;
      auto& runs = e.inputs[static_cast<std::size_t>(r)];
      if (!runs.empty() && runs.back().first + runs.back().second == c)
        ++runs.back().second;
      else
        runs.emplace_back(c, 1);
    }
  const bool sums = schedule::reduces(shape.collective);
  e.begins_said = sums ? "Before the first step every rank holds its own contribution to every chunk."
                       : "Before the first step every chunk is with the rank that gives it.";
  e.ended_said = e.proved
                     ? fmt::format("The last frame is the postcondition: every chunk is whole{} wherever {} wants it.",
                                   sums ? ", with all contributions," : "", e.collective)
                     : "The schedule ends here.";
}

}  // namespace

Status play(const cost::MachineView& machine, const sim::Disturbances& disturbances, const schedule::Task& task,
            schedule::Plan plan, schedule::ChunkId chunk, Explorer& e) {
  if (task.ranks > kMostRanks) return follow(machine, disturbances, task, std::move(plan), chunk, e);
  const int channels = std::exchange(plan.channels, 1);
  const schedule::Schedule schedule = schedule::write_out(*plan.algorithm, schedule::context_of(task, plan));
  if (moves_of(schedule) > kMostMoves) {
    plan.channels = channels;
    return follow(machine, disturbances, task, std::move(plan), chunk, e);
  }
  const schedule::Proof proof = watch(schedule, plan.algorithm->slots, e);
  e.proved = proof.ok();
  e.verdict = proof.ok()
                  ? fmt::format("Proved: {}, {}, {}.", counted(proof.steps, "step"), counted(proof.messages, "message"),
                                counted(proof.remote_accesses, "remote access"))
                  : "Counterexample: " + proof.counterexample->text + ".";
  e.chunks = schedule.shape.chunks;
  WEFT_TRY(const Times times,
           times_of(machine, disturbances, task, plan, false, std::numeric_limits<double>::infinity()));
  e.total_us = times.total;
  if (channels > 1)
    e.verdict += fmt::format(" One channel is shown, which alone takes {}; the answer's {} share the message.",
                             format_duration(Duration::microseconds(e.total_us)), counted(channels, "channel"));
  // Moves of a strand and the operations that carry them are in the same order.
  std::map<std::pair<Rank, int>, std::vector<std::size_t>> by_strand;
  for (std::size_t i = 0; i < e.moves.size(); ++i) by_strand[{e.moves[i].rank, e.moves[i].lane}].push_back(i);
  e.timed = e.proved;
  for (const auto& [strand, list] : by_strand)
    for (std::size_t k = 0; e.timed && k < list.size(); ++k)
      e.timed = set_time(times, k, list.size(), e.moves[list[k]]);
  if (!e.timed) {
    for (std::size_t i = 0; i < e.moves.size(); ++i)
      e.moves[i].begin_us = static_cast<double>(i), e.moves[i].end_us = static_cast<double>(i + 1);
    e.total_us = static_cast<double>(e.moves.size());
    e.verdict += " Times are steps, not microseconds.";
  }
  std::ranges::stable_sort(e.moves, {}, &Explorer::Move::begin_us);
  say_ends(schedule.shape, e);
  return {};
}

void play_wrong(const schedule::Document& document, std::string_view file, Explorer& e) {
  const schedule::Schedule& schedule = document.schedule;
  e.proved = e.timed = false;
  const schedule::Finding finding = *schedule::prove(document).counterexample;
  e.verdict = "Counterexample: " + schedule::locate(document, file, finding) + ". Times are steps, not microseconds.";
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
  say_ends(schedule.shape, e);
  e.ended_said = "Here the schedule is wrong: " + finding.text + ".";
}

}  // namespace weft::explore
