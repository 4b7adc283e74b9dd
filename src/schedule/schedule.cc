#include "schedule/schedule.h"

namespace weft::schedule {

Schedule write_out(const Algorithm& algorithm, Story story) {
  Schedule s{algorithm.collective, story.ranks, story.root, algorithm.chunks(story.ranks), algorithm.lanes, {}};
  for (story.rank = 0; story.rank < s.ranks; ++story.rank) {
    for (story.lane = 0; story.lane < s.lanes; ++story.lane) {
      auto& strand = s.strands.emplace_back();
      auto steps = algorithm.steps(story);
      while (const Step* step = steps.next()) strand.push_back(*step);
    }
  }
  return s;
}

}  // namespace weft::schedule
