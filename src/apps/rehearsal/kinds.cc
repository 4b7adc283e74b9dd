#include "apps/rehearsal/kinds.h"

#include <algorithm>
#include <map>
#include <set>

namespace weft::rehearsal {
namespace {

// Groups in which messages are sent, so that not all members do the same.
std::set<int> uneven(const Job& job) {
  std::set<int> groups;
  for (const Recording& rank : job.ranks)
    for (const Call& call : rank.calls)
      if (call.message()) groups.insert(call.group);
  return groups;
}

// Ranks that the first rehearsed rank exchanges messages with, directly or through others.
std::set<Rank> line_of_first(const Job& job) {
  std::set<Rank> line;
  if (job.ranks.empty()) return line;
  std::vector<Rank> next{job.ranks.front().rank};
  while (!next.empty()) {
    const Rank rank = next.back();
    next.pop_back();
    const Recording* recording = job.of(rank);
    if (!line.insert(rank).second || recording == nullptr) continue;
    for (const Call& call : recording->calls)
      if (call.message()) next.push_back(call.peer);
  }
  return line;
}

}  // namespace

std::vector<Dimension> dimensions(const Job& job) {
  std::vector<Dimension> found;
  const auto most = std::ranges::max_element(job.ranks, {}, [](const Recording& r) { return r.made.size(); });
  if (most == job.ranks.end()) return found;
  std::set<Rank> seen;
  std::size_t size = 0;
  for (const int index : most->made) {
    const auto& ranks = job.groups[static_cast<std::size_t>(index)].ranks;
    const bool overlaps = std::ranges::any_of(ranks, [&](Rank r) { return seen.contains(r); });
    if (found.empty() || overlaps || ranks.size() != size) {
      found.emplace_back();
      seen.clear();
      size = ranks.size();
    }
    found.back().push_back(index);
    seen.insert(ranks.begin(), ranks.end());
  }
  return found;
}

std::vector<RankKind> kinds_of(const Job& job) {
  const std::set<int> differs = uneven(job);
  std::vector<Dimension> apart;
  for (const Dimension& d : dimensions(job))
    if (std::ranges::any_of(d, [&](int g) { return differs.contains(g); })) apart.push_back(d);
  std::vector<std::vector<int>> places(static_cast<std::size_t>(job.world), std::vector<int>(apart.size(), -1));
  for (std::size_t d = 0; d < apart.size(); ++d)
    for (const int g : apart[d]) {
      const auto& ranks = job.groups[static_cast<std::size_t>(g)].ranks;
      for (std::size_t i = 0; i < ranks.size(); ++i)
        places[static_cast<std::size_t>(ranks[i])][d] = static_cast<int>(i);
    }
  std::map<std::vector<int>, std::size_t> by_place;
  std::vector<RankKind> kinds;
  for (Rank r = 0; r < job.world; ++r) {
    const auto [at, added] = by_place.emplace(places[static_cast<std::size_t>(r)], kinds.size());
    if (added) kinds.emplace_back();
    kinds[at->second].ranks.push_back(r);
    if (job.of(r) != nullptr) kinds[at->second].rehearsed.push_back(r);
  }
  return kinds;
}

std::vector<Rank> missing(const Job& job) {
  const std::set<Rank> line = line_of_first(job);
  std::set<Rank> wanted;
  for (const Rank rank : line)
    if (job.of(rank) == nullptr) wanted.insert(rank);
  for (const RankKind& kind : kinds_of(job)) {
    const bool comes = std::ranges::any_of(kind.ranks, [&](Rank r) { return line.contains(r); });
    if (kind.rehearsed.empty() && !comes) wanted.insert(kind.ranks.front());
  }
  return {wanted.begin(), wanted.end()};
}

}  // namespace weft::rehearsal
