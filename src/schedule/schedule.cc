#include "schedule/schedule.h"

namespace weft::schedule {

Schedule write_out(const Algorithm& algorithm, Story story) {
  Schedule s{.shape = {algorithm.collective, story.ranks, story.root, algorithm.chunks_for(story)},
             .scratch = algorithm.scratch_for(story),
             .lanes = algorithm.lanes,
             .strands = {},
             .orders = {}};
  for (story.rank = 0; story.rank < story.ranks; ++story.rank) {
    for (story.lane = 0; story.lane < s.lanes; ++story.lane) {
      auto& strand = s.strands.emplace_back();
      auto steps = algorithm.steps(story);
      while (const Step* step = steps.next()) strand.push_back(*step);
    }
  }
  return s;
}

}  // namespace weft::schedule
