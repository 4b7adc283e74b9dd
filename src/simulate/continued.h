#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "schedule/algorithm.h"

namespace weft::simulate {

inline constexpr double kAbout = 1e-2;  // what kAboutPerNode is unsure by in any case, as a part of the result
// What a collective takes on many nodes is continued from what it takes on few, once three sizes agree on what more
// nodes add. How far they may disagree, as a part of the result, before larger sizes are tried, …
inline constexpr double kAgreement = 5e-4;
// … and what the next size may cost, in operations: some seconds. Beyond that what is known has to do.
inline constexpr double kMostOperations = 2e6;

// Sizes that the time is continued from, and the unit that it grows with.
class Sizes {
 public:
  // Requires: 0 < least <= nodes.
  Sizes(schedule::Growth growth, Rank nodes, Rank least) : growth_(growth), nodes_(nodes), least_(least) {
    while (halved(doublings_ + 1) >= least_) ++doublings_;
  }
  // Per doubling: the nodes halved again and again, rounded up. A binary tree over half of them is the same without its
  // leaves. Per node: from the least on by halves, 8, 12, 16, 24, …
  Rank at(int i) const {
    if (growth_ == schedule::Growth::kPerDoubling) return halved(std::max(0, doublings_ - i));
    const Rank whole = least_ << (i / 2);
    return std::min(nodes_, i % 2 == 0 ? whole : whole + whole / 2);
  }
  double units(Rank nodes) const {
    return growth_ == schedule::Growth::kPerDoubling ? std::ceil(std::log2(nodes)) : nodes;
  }

 private:
  Rank halved(int times) const { return static_cast<Rank>((std::int64_t{nodes_} + (1 << times) - 1) >> times); }

  schedule::Growth growth_;
  Rank nodes_, least_;
  int doublings_ = 0;
};

// `run(n)` does it on n nodes and returns a Result of something with members `time`, `operations`, `represented` and
// `uncertainty`; the result is that of the last run, with the time of `nodes`. Where all nodes cost no more than
// `affordable` operations, they are run; then the uncertainty is 0. It is what the sizes disagree by, as a part of the
// time. Requires: 8 least <= nodes; the growth is known.
template <class Run>
auto continued(schedule::Growth growth, Rank nodes, Rank least, double affordable, Run&& run) -> decltype(run(nodes)) {
  struct Known {
    double units, seconds, operations;
  };
  const Sizes sizes(growth, nodes, least);
  std::vector<Known> known;
  for (int i = 0; sizes.at(i) < nodes; ++i) {
    WEFT_TRY(auto outcome, run(sizes.at(i)));
    const auto operations = static_cast<double>(outcome.operations);
    known.push_back({sizes.units(sizes.at(i)), outcome.time.s(), operations});
    if (i == 0) continue;
    // Operations grow by a power of the nodes.
    const double power = std::log(operations / known[known.size() - 2].operations) /
                         std::log(static_cast<double>(sizes.at(i)) / sizes.at(i - 1));
    const auto predicted = [&](Rank n) { return operations * std::pow(static_cast<double>(n) / sizes.at(i), power); };
    if (predicted(nodes) <= affordable) break;
    if (i == 1) continue;
    const Known &a = known[known.size() - 3], &b = known[known.size() - 2], &c = known.back();
    const double left = sizes.units(nodes) - c.units;
    const double before = (b.seconds - a.seconds) / (b.units - a.units);
    const double last = (c.seconds - b.seconds) / (c.units - b.units);
    const double more = left * (c.seconds - a.seconds) / (c.units - a.units);
    const double unsure = left * std::abs(last - before) / (c.seconds + more);
    if (unsure > kAgreement && predicted(sizes.at(i + 1)) <= kMostOperations) continue;
    outcome.time += Duration::seconds(more);
    outcome.represented *= predicted(nodes) / operations;
    outcome.uncertainty = growth == schedule::Growth::kAboutPerNode ? std::max(unsure, kAbout) : unsure;
    return outcome;
  }
  return run(nodes);
}

}  // namespace weft::simulate
