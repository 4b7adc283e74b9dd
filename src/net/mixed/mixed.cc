#include "net/mixed/mixed.h"

#include "exec/fabric/real.h"

namespace weft::net::mixed {

static_assert(fabric::RealWorld<World>);

World::World(std::string_view name, std::unique_ptr<shm::World> shared, std::unique_ptr<messages::World> across,
             std::vector<Rank> members, WaitPolicy::Limits limits)
    : near(std::move(shared)),
      far(std::move(across)),
      endpoint(name, near->endpoint, far->endpoint, std::move(members)),
      wait_policy(endpoint, near->wait_policy, far->endpoint, limits) {}

Result<std::unique_ptr<World>> open(bootstrap::Meeting meeting, Rank rank, const Options& options) {
  const auto ranks = static_cast<Rank>(meeting.ranks.size());
  std::vector<Rank> members;
  Rank own = 0;
  for (Rank r = 0; r < ranks; ++r) {
    if (meeting.ranks[static_cast<std::size_t>(r)].node != meeting.ranks[static_cast<std::size_t>(rank)].node) continue;
    if (r == rank) own = static_cast<Rank>(members.size());
    members.push_back(r);
  }
  shm::LostRank near_lost;
  if (options.lost) near_lost = [&](Rank r) { return options.lost(members[static_cast<std::size_t>(r)]); };
  WEFT_TRY(auto near, shm::attach({.id = fmt::format("{}-{}", meeting.name, members.front()),
                                   .rank = own,
                                   .ranks = static_cast<Rank>(members.size()),
                                   .heap_bytes = options.heap_bytes,
                                   .ring_bytes = options.ring_bytes,
                                   .limits = {.timeout = options.limits.timeout},
                                   .lost = std::move(near_lost),
                                   .names = members}));
  WEFT_TRY(auto far, options.across(std::move(meeting), rank));
  return std::make_unique<World>(options.name, std::move(near), std::move(far), std::move(members), options.limits);
}

}  // namespace weft::net::mixed
