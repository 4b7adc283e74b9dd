#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "plan/schedule/algorithm.h"

namespace weft::simulate {

inline constexpr double kAbout = 1e-2;  // the least uncertainty of kAboutPerNode, as a part of the result
// The time on many nodes is extrapolated from the times on few, once three sizes agree on what more nodes add. This is
// how far they may disagree, as a part of the result, before larger sizes are tried.
inline constexpr double kAgreement = 5e-4;

// The most operations that runs may take.
struct Budget {
  double all;   // where all nodes take no more, they are run, and nothing is extrapolated
  double size;  // of a further size, where smaller ones disagree; beyond it the smaller ones are used
};

// The numbers of nodes that the time is extrapolated from, and the unit that it grows with.
class Sizes {
 public:
  // Requires: 0 < least <= nodes.
  Sizes(schedule::Growth growth, Rank nodes, Rank least) : growth_(growth), nodes_(nodes), least_(least) {
    while (halved(doublings_ + 1) >= least_) ++doublings_;
  }
  // Per doubling: the nodes halved again and again, rounded up. A binary tree over half of them is the same without its
  // leaves. Per node: from the least on by halves, 8, 12, 16, 24, …
  Rank at(int i) const {
    if (doubles()) return halved(std::max(0, doublings_ - i));
    const Rank whole = least_ << (i / 2);
    return std::min(nodes_, i % 2 == 0 ? whole : whole + whole / 2);
  }
  double units(Rank nodes) const { return doubles() ? std::ceil(std::log2(nodes)) : nodes; }

 private:
  bool doubles() const { return growth_ == schedule::Growth::kPerDoubling || growth_ == schedule::Growth::kPerLevel; }
  Rank halved(int times) const { return static_cast<Rank>((std::int64_t{nodes_} + (1 << times) - 1) >> times); }

  schedule::Growth growth_;
  Rank nodes_, least_;
  int doublings_ = 0;
};

// The times of the sizes that were run.
class Known {
 public:
  void add(Rank nodes, double units, double seconds, std::int64_t operations) {
    sizes_.push_back({nodes, units, seconds, static_cast<double>(operations)});
  }
  double seconds() const { return sizes_.back().seconds; }
  double units() const { return sizes_.back().units; }
  // Operations grow by a power of the nodes. Requires: two sizes.
  double operations_on(Rank nodes) const {
    const Size &a = sizes_[sizes_.size() - 2], &b = sizes_.back();
    const double power = std::log(b.operations / a.operations) / std::log(static_cast<double>(b.nodes) / a.nodes);
    return b.operations * std::pow(static_cast<double>(nodes) / b.nodes, power);
  }
  // Seconds that a unit adds by the last three sizes, and what the two steps between them disagree by.
  struct Pace {
    double seconds, disagreement;
  };
  Pace pace() const {
    const Size &a = sizes_[sizes_.size() - 3], &b = sizes_[sizes_.size() - 2], &c = sizes_.back();
    const double before = (b.seconds - a.seconds) / (b.units - a.units);
    const double last = (c.seconds - b.seconds) / (c.units - b.units);
    return {(c.seconds - a.seconds) / (c.units - a.units), std::abs(last - before)};
  }

 private:
  struct Size {
    Rank nodes;
    double units, seconds, operations;
  };
  std::vector<Size> sizes_;
};

// `run(n)` does it on n nodes and returns a Result of something with members `time`, `operations`, `represented` and
// `uncertainty`; the result is that of the last run, with the time of `nodes`. The uncertainty is what the sizes
// disagree by, as a part of the time; 0 where all nodes are run. Requires: 8 least <= nodes; the growth is known.
template <class Run>
auto extrapolate(schedule::Growth growth, Rank nodes, Rank least, Budget budget, Run&& run) -> decltype(run(nodes)) {
  const Sizes sizes(growth, nodes, least);
  Known known;
  for (int i = 0; sizes.at(i) < nodes; ++i) {
    WEFT_TRY(auto outcome, run(sizes.at(i)));
    known.add(sizes.at(i), sizes.units(sizes.at(i)), outcome.time.s(), outcome.operations);
    if (i == 0) continue;
    if (known.operations_on(nodes) <= budget.all) break;
    if (i == 1) continue;
    const double left = sizes.units(nodes) - known.units();
    const Known::Pace pace = known.pace();
    const double more = left * pace.seconds;
    const double unsure = left * pace.disagreement / (known.seconds() + more);
    if (unsure > kAgreement && known.operations_on(sizes.at(i + 1)) <= budget.size) continue;
    outcome.time += Duration::seconds(more);
    outcome.represented *= known.operations_on(nodes) / static_cast<double>(outcome.operations);
    outcome.uncertainty += growth == schedule::Growth::kAboutPerNode ? std::max(unsure, kAbout) : unsure;
    return outcome;
  }
  return run(nodes);
}

// Of the first `nodes` those that are at least `apart` numbers apart are joined by longer ways than nearer ones are:
// those of other leaf switches, or those beyond the cores.
struct Tier {
  Rank apart, nodes;

  // The distance of the nodes that are simulated to find what a level adds: four times the fewest nodes of a tree must
  // find room, and the fewest must reach as far as the tier begins.
  static constexpr Rank kFewest = 8;
  Rank sparse() const { return std::min(apart, nodes / (4 * kFewest)); }
  bool known_from_few() const { return sparse() > 0 && kFewest * sparse() >= apart; }
};

// The same for binary trees over the nodes (Growth::kPerLevel). The lowest levels of a large one are those of the first
// `base` nodes. Its upper levels are a tree over nodes that are far apart, each with few others of its neighbourhood
// beside it: what such a level adds is found on few nodes at that distance, instead of many neighbours.
// `run(n, apart)` does it on every `apart`-th of n * apart nodes; `outcome` is what it was on the base. The result is
// that, with the time of `nodes`. Requires: 0 < base <= nodes; tiers in order of distance, the last one of all nodes;
// known from few if beyond the base.
template <class Run>
auto extrapolate_by_levels(auto outcome, Rank nodes, Rank base, std::span<const Tier> tiers, Budget budget, Run&& run)
    -> decltype(run(nodes, 1)) {
  const double as_many = static_cast<double>(nodes) / base;  // times
  if (static_cast<double>(outcome.operations) * as_many <= budget.all) return run(nodes, 1);
  double more = 0, unsure = 0;
  Rank below = base;
  for (const Tier& tier : tiers) {
    if (tier.nodes <= below) continue;
    const Rank apart = tier.sparse(), most = (tier.nodes + apart - 1) / apart;
    const Sizes sizes(schedule::Growth::kPerLevel, most, Tier::kFewest);
    const double left = sizes.units(tier.nodes) - sizes.units(below);
    below = tier.nodes;
    Known known;
    Known::Pace pace{};
    for (int i = 0;; ++i) {
      const Rank n = sizes.at(i);
      WEFT_TRY(const auto part, run(n, apart));
      known.add(n, sizes.units(n), part.time.s(), part.operations);
      if (i < 2) continue;
      pace = known.pace();
      if (left * pace.disagreement <= kAgreement * outcome.time.s() || n == most ||
          known.operations_on(sizes.at(i + 1)) > budget.size)
        break;
    }
    more += left * pace.seconds;
    unsure += left * pace.disagreement;
  }
  outcome.time += Duration::seconds(more);
  outcome.represented *= as_many;
  outcome.uncertainty += unsure / outcome.time.s();
  return outcome;
}

}  // namespace weft::simulate
