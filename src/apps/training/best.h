#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "apps/training/step.h"

namespace weft::training {

inline constexpr int kSimulatedPlans = 3;  // the best ones, by default; the others are estimated

// Steps that lie nearer to each other are not distinguished: pairs of published plans that differ by less have no
// order.
inline constexpr double kAlike = 0.03;

struct Ranked {
  Plan plan;
  Step step;           // valid if it fits
  std::string reason;  // why it lost; empty for the best
  bool alike = false;  // cannot be distinguished from the best
};

struct Plans {
  std::vector<Ranked> ranked;   // those that fit, the fastest first
  std::vector<Ranked> refused;  // those that need too much memory, by memory
  std::int64_t tried = 0;
};

// All of tp, pp, vp, cp, ep, etp, ZeRO and the replicas that it spreads over, recompute, dispatcher and micro-batch
// that use every GPU of the machine; `base` gives global batch, sequence, precision and what else is fixed.
// Communication is estimated, the best `simulated` plans are simulated. `progress`: called before every plan with those
// so far, in the order in which they were tried, and how many there are. `fixed`: options of `base` that no plan
// changes, by name: tp, pp, vp, cp, ep, etp, dp, zero, shard, micro-batch, recompute, dispatcher. Errors (bad input):
// no plan divides; no plan fits.
Result<Plans> best_plans(const Model& model, const Plan& base, const Card& card, Traffic& traffic, int simulated,
                         const std::function<void(const Plans& so_far, std::int64_t all)>& progress = {},
                         const std::set<std::string>& fixed = {});

}  // namespace weft::training
