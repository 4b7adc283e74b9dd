#include "model/sim/flow/fold.h"

#include <algorithm>

#include "base/check.h"

namespace weft::sim {
namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

std::int32_t direction_of(const topology::Hop& hop) { return 2 * hop.link + (hop.forward ? 0 : 1); }

void add_use(std::vector<MaxMin::Use>& uses, MaxMin::Resource resource, std::int32_t times) {
  const auto known = std::ranges::find(uses, resource, &MaxMin::Use::resource);
  if (known != uses.end())
    known->times += times;
  else
    uses.push_back({resource, times});
}

}  // namespace

Fold::Fold(const topology::Topology& topology, Rank ranks, Rank turn, MaxMin& rates, bool all_links)
    : topology_(topology), ranks_(ranks), turn_(turn), rates_(rates) {
  WEFT_REQUIRE(turn > 0 && ranks % turn == 0 && (turn == ranks || !all_links), "{} ranks, turned by {}", ranks, turn);
  const auto directions = static_cast<Direction>(2 * topology.links().size());
  class_of_.assign(index(directions), -1);
  for (Direction d = 0; all_links && d < directions; ++d) class_of_[index(d)] = make_class(d, 1);
}

MaxMin::Resource Fold::make_class(Direction sample, std::int64_t links) {
  classes_.push_back({sample, links});
  return rates_.add_resource(capacity_of(sample));
}

double Fold::capacity_of(Direction d) const {
  const topology::Link& l = topology_.link(d / 2);
  return (d % 2 == 0 ? l.rate_ab : l.rate_ba).value();
}

topology::Hop Fold::sample(MaxMin::Resource resource) const {
  const Direction d = classes_[index(resource)].sample;
  return {d / 2, d % 2 == 0};
}

std::optional<std::vector<MaxMin::Use>> Fold::uses(const topology::Path& path, const Images& turned) {
  std::vector<MaxMin::Use> uses;
  if (images() == 1) {
    uses.reserve(path.hops.size());
    for (const topology::Hop& hop : path.hops) {
      MaxMin::Resource& resource = class_of_[index(direction_of(hop))];
      if (resource < 0) resource = make_class(direction_of(hop), 1);
      add_use(uses, resource, 1);
    }
    return uses;
  }
  std::vector<std::vector<Direction>> crossed(path.hops.size());  // by all of them, at each place of the path
  const auto cross = [&](const topology::Path& image) {
    for (std::size_t h = 0; h < crossed.size(); ++h) crossed[h].push_back(direction_of(image.hops[h]));
  };
  cross(path);
  for (Rank by = turn_; by < ranks_; by += turn_) {
    const topology::Path image = turned(by);
    if (image.type != path.type || image.latency != path.latency || image.hops.size() != path.hops.size()) return {};
    cross(image);
  }
  for (auto& at_place : crossed)
    if (!classify(at_place, uses)) return {};
  return uses;
}

// The class of these links, made now if no path has come over them yet; false if they are not alike.
bool Fold::classify(std::vector<Direction>& crossed, std::vector<MaxMin::Use>& uses) {
  std::ranges::sort(crossed);
  std::int64_t links = 0;
  const MaxMin::Resource known = class_of_[index(crossed[0])];
  const std::int64_t times = std::ranges::upper_bound(crossed, crossed[0]) - crossed.begin();
  for (std::size_t i = 0; i < crossed.size(); i += index(times), ++links) {
    const Direction d = crossed[i];
    if (class_of_[index(d)] != known || capacity_of(d) != capacity_of(crossed[0])) return false;
    const std::size_t last = i + index(times) - 1;
    if (last >= crossed.size() || crossed[last] != d || (last + 1 < crossed.size() && crossed[last + 1] == d))
      return false;
  }
  if (known >= 0 && classes_[index(known)].links != links) return false;
  MaxMin::Resource resource = known;
  if (known < 0) {
    resource = make_class(crossed[0], links);
    for (const Direction d : crossed) class_of_[index(d)] = resource;
  }
  add_use(uses, resource, static_cast<std::int32_t>(times));
  return true;
}

}  // namespace weft::sim
