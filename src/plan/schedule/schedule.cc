#include "plan/schedule/schedule.h"

#include <algorithm>

namespace weft::schedule {

Schedule write_out(const Algorithm& algorithm, RankContext context) {
  Schedule s{
      .shape = {algorithm.collective, context.ranks, context.root, algorithm.chunks_for(context), context.routes},
      .scratch = algorithm.scratch_for(context),
      .lanes = algorithm.lanes,
      .strands = {},
      .orders = {}};
  for (context.rank = 0; context.rank < context.ranks; ++context.rank) {
    for (context.lane = 0; context.lane < s.lanes; ++context.lane) {
      auto& strand = s.strands.emplace_back();
      auto steps = algorithm.steps(context);
      while (const Step* step = steps.next()) strand.push_back(*step);
    }
  }
  return s;
}

Status check(const Schedule& s) {
  const Shape& shape = s.shape;
  constexpr int kMost = 1 << 30;
  if (shape.ranks < 1 || s.lanes < 1 || s.scratch < 0 || shape.chunks < 0 || shape.chunks > kMost || s.scratch > kMost)
    return bad_input("{} ranks, {} lanes, {} chunks, {} scratch slots: no schedule has these", shape.ranks, s.lanes,
                     shape.chunks, s.scratch);
  if (shape.root < 0 || shape.root >= shape.ranks)
    return bad_input("root {} is not one of {} ranks", shape.root, shape.ranks);
  if (const int blocks = schedule::blocks(shape.collective, shape.ranks); blocks > 0 && shape.chunks % blocks != 0)
    return bad_input("{} chunks are not whole ones of {} blocks", shape.chunks, blocks);
  if (routed(shape.collective) && shape.chunks != routes_of(shape).tokens())
    return bad_input("{} chunks are not the {} tokens of a {}", shape.chunks, routes_of(shape).tokens(),
                     name(shape.collective));
  if (s.strands.size() != static_cast<std::size_t>(shape.ranks) * static_cast<std::size_t>(s.lanes))
    return bad_input("{} strands are not those of {} ranks with {} lanes", s.strands.size(), shape.ranks, s.lanes);
  const auto in = [](std::int64_t i, std::size_t size) { return i >= 0 && i < static_cast<std::int64_t>(size); };
  for (const Order& o : s.orders) {
    if (!in(o.strand, s.strands.size()) || !in(o.lane, static_cast<std::size_t>(s.lanes)))
      return bad_input("an order names strand {} or lane {}, which does not exist", o.strand, o.lane);
    const std::size_t other = static_cast<std::size_t>(o.strand / s.lanes * s.lanes + o.lane);
    if (!in(o.step, s.strands[static_cast<std::size_t>(o.strand)].size()) || !in(o.after, s.strands[other].size()))
      return bad_input("an order names step {} of rank {} lane {} or step {} of lane {}, which does not exist", o.step,
                       o.strand / s.lanes, o.strand % s.lanes, o.after, o.lane);
  }
  if (!std::ranges::is_sorted(s.orders)) return bad_input("orders are not sorted");
  return {};
}

}  // namespace weft::schedule
