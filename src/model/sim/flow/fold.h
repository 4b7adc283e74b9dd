#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "machine/topology.h"
#include "model/sim/flow/max_min.h"

namespace weft::sim {

// A Fold says which ranks are simulated, and for how many others each of them stands.
//   Rank r of the first `turn` stands for r + turn, r + 2 turn, …: its images. That is the caller's claim: they do what
//   r does, with all ranks they name turned likewise. Then a connection's images send alike, and if also the links
//   that they cross are alike, all images move at the same rates at the same times: simulating one of them is exact.
//   Links are alike if they have one capacity and the same numbers of images of the same connections cross them. They
//   are put into classes as connections open; a class is one resource. Where a connection's images cross different
//   classes, or only some links of one, the ranks are not alike, and uses() says so.
// With turn == ranks nothing is folded, and every direction of a link is a resource, from when a path first crosses it:
// a part of a large machine has few.
class Fold {
 public:
  // Requires: turn divides ranks. `rates` gets the resources, and must outlive this. `all_links`: all directions are
  // resources from the start, and have their numbers. Requires, then: nothing is folded.
  Fold(const topology::Topology& topology, Rank ranks, Rank turn, MaxMin& rates, bool all_links);

  Rank representatives() const { return turn_; }
  Rank images() const { return ranks_ / turn_; }
  // What the rank is turned by, compared with the one that stands for it; and a rank turned back by that.
  Rank turned_by(Rank rank) const { return rank < turn_ ? 0 : rank / turn_ * turn_; }
  Rank back(Rank rank, Rank by) const { return rank >= by ? rank - by : rank - by + ranks_; }
  Rank on(Rank rank, Rank by) const { return rank < ranks_ - by ? rank + by : rank + by - ranks_; }

  // What a path crosses, given its images: the path as it is turned by turn, 2 turn, … Nothing: they are not alike.
  using Images = std::function<topology::Path(Rank by)>;
  std::optional<std::vector<MaxMin::Use>> uses(const topology::Path& path, const Images& turned);

  // A link of a resource, and whether from a to b.
  topology::Hop sample(MaxMin::Resource resource) const;
  // In the order of links, whichever was crossed first.
  bool before(MaxMin::Resource a, MaxMin::Resource b) const {
    return classes_[static_cast<std::size_t>(a)].sample < classes_[static_cast<std::size_t>(b)].sample;
  }

 private:
  using Direction = std::int32_t;  // 2 link + (1 if from b to a)
  bool classify(std::vector<Direction>& crossed, std::vector<MaxMin::Use>& uses);
  double capacity_of(Direction d) const;
  MaxMin::Resource make_class(Direction sample, std::int64_t links);

  const topology::Topology& topology_;
  Rank ranks_, turn_;
  MaxMin& rates_;
  struct Class {
    Direction sample;
    std::int64_t links;
  };
  std::vector<Class> classes_;              // by resource
  std::vector<MaxMin::Resource> class_of_;  // by direction; -1: none yet
};

}  // namespace weft::sim
