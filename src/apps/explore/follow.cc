#include "apps/explore/follow.h"

#include <algorithm>
#include <utility>

#include "apps/explore/explore.h"
#include "apps/explore/watch.h"
#include "base/counted.h"
#include "base/text.h"
#include "plan/schedule/schedule.h"
#include "plan/schedule/verify/verify.h"

namespace weft::explore {
namespace {

using report::Explorer;

// Of all ranks together. Verifying takes about 60 bytes a cell and 200 a move, which the browser's core has to hold.
constexpr std::int64_t kMostCells = 8'000'000;
constexpr std::size_t kMostVerified = 3'000'000;
constexpr double kMostSimulated = 900'000;  // operations; the timeline keeps 1,000,000

void leave_out(std::string why, Explorer& e) {
  e.played = false;
  e.verdict = std::move(why) + ". Ask for fewer ranks.";
}

std::vector<Explorer::Ranks> holders(const schedule::Shape& shape, schedule::Buffer buffer, schedule::ChunkId chunk) {
  std::vector<Explorer::Ranks> all;
  for (Rank r = 0; r < shape.ranks; ++r) {
    if (!holds(shape, buffer, chunk, r)) continue;
    if (!all.empty() && all.back().first + all.back().count == r)
      ++all.back().count;
    else
      all.push_back({r, 1});
  }
  return all;
}

Rank count(const std::vector<Explorer::Ranks>& runs) {
  Rank sum = 0;
  for (const Explorer::Ranks& r : runs) sum += r.count;
  return sum;
}

struct Seen {
  std::size_t index;  // among the moves of its strand
  std::int64_t depth;
};

}  // namespace

Status follow(const cost::MachineView& machine, const sim::Disturbances& disturbances, const schedule::Task& task,
              schedule::Plan plan, schedule::ChunkId chunk, Explorer& e) {
  if (task.ranks > kMostFollowedRanks) {
    leave_out(fmt::format("The stepper follows a chunk through at most {}; here are {}",
                          counted(kMostFollowedRanks, "rank"), task.ranks),
              e);
    return {};
  }
  const int channels = std::exchange(plan.channels, 1);
  const schedule::RankContext context = schedule::context_of(task, plan);
  const schedule::ChunkId chunks = plan.algorithm->chunks_for(context);
  if (chunk >= chunks)
    return bad_input("--chunk {}: {} has {} here", chunk, plan.algorithm->name, counted(chunks, "chunk"));
  if (2 * chunks * task.ranks > kMostCells) {
    leave_out(fmt::format("{} has {} on {}, more than can be verified in a page", plan.algorithm->name,
                          counted(chunks, "chunk"), counted(task.ranks, "rank")),
              e);
    return {};
  }
  const schedule::Schedule schedule = schedule::write_out(*plan.algorithm, context);
  if (const std::size_t moves = moves_of(schedule); moves > kMostVerified) {
    leave_out(fmt::format("{} has {} moves on {}, more than can be verified in a page", plan.algorithm->name, moves,
                          counted(task.ranks, "rank")),
              e);
    return {};
  }
  e.chunks = schedule.shape.chunks;
  const schedule::ChunkId followed = std::max<schedule::ChunkId>(chunk, 0);
  e.follows = followed;
  e.starts = holders(schedule.shape, schedule::Buffer::kIn, followed);
  e.ends = holders(schedule.shape, schedule::Buffer::kOut, followed);
  const Rank all = count(e.starts);

  std::vector<std::size_t> moves(schedule.strands.size(), 0);  // by strand, so far
  std::vector<Seen> seen;                                      // beside e.moves
  std::int64_t deepest = 0;
  const auto strand_of = [&](Rank rank, int lane) { return static_cast<std::size_t>(rank * schedule.lanes + lane); };
  const schedule::Proof proof =
      schedule::verify(schedule, {.slots = plan.algorithm->slots, .on_move = [&](const schedule::Moved& m) {
                                    const std::size_t index = moves[strand_of(m.rank, m.lane)]++;
                                    deepest = std::max(deepest, m.depth);
                                    if (m.chunk != followed) return;
                                    Explorer::Move move = move_of(schedule, m);
                                    Rank holds = 0;
                                    for (const auto& run : m.contributors)
                                      move.held.push_back({run.first, run.count}), holds += run.count;
                                    move.said = sentence(move, holds, all);
                                    e.moves.push_back(std::move(move));
                                    seen.push_back({index, m.depth});
                                  }});
  e.proved = proof.ok();
  const auto times = times_of(machine, disturbances, task, plan, true, kMostSimulated);
  if (!times && times.error().code != Code::kNoResources) return tl::make_unexpected(times.error());
  e.timed = proof.ok() && times;
  for (std::size_t i = 0; e.timed && i < e.moves.size(); ++i)
    e.timed = set_time(*times, seen[i].index, moves[strand_of(e.moves[i].rank, e.moves[i].lane)], e.moves[i]);
  e.total_us = e.timed ? times->total : static_cast<double>(deepest);
  if (!e.timed)
    for (std::size_t i = 0; i < e.moves.size(); ++i)
      e.moves[i].begin_us = static_cast<double>(seen[i].depth - 1),
      e.moves[i].end_us = static_cast<double>(seen[i].depth);
  std::ranges::stable_sort(e.moves, {}, &Explorer::Move::begin_us);

  e.verdict = proof.ok() ? fmt::format("Proved whole: {}, {}, {}. Chunk {} of {} is shown.",
                                       counted(proof.steps, "step"), counted(proof.messages, "message"),
                                       counted(proof.remote_accesses, "remote access"), followed, e.chunks)
                         : "Counterexample: " + proof.counterexample->text + ".";
  if (channels > 1 && e.timed)
    e.verdict += fmt::format(" One channel is shown, which alone takes {}; the answer's {} share the message.",
                             format_duration(Duration::microseconds(e.total_us)), counted(channels, "channel"));
  if (!e.timed) e.verdict += " Times are steps of the longest chain, not microseconds.";
  const Rank given = all, taken = count(e.ends);
  e.begins_said = given == 1
                      ? fmt::format("Before the first step chunk {} is rank {}'s alone.", followed, e.starts[0].first)
                      : fmt::format("Before the first step each of {} holds its own contribution to chunk {}.",
                                    counted(given, "rank"), followed);
  e.ended_said = fmt::format(
      "The last frame is the postcondition: {} hold{} chunk {} whole, with {}.",
      taken == 1 ? fmt::format("rank {}", e.ends[0].first) : fmt::format("all {} that take it", counted(taken, "rank")),
      taken == 1 ? "s" : "", followed,
      given == 1 ? fmt::format("the contribution of rank {}", e.starts[0].first)
                 : fmt::format("the contributions of all {}", counted(given, "rank")));
  return {};
}

}  // namespace weft::explore
