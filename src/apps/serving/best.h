#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/serving/point.h"

namespace weft::serving {

// Which sizes of a plan are asked for and stay as they are.
struct Fixed {
  bool tp = false, pp = false, dp = false, ep = false, replicas = false;
};

// One plan on the whole machine, and its point with most output tokens/s per GPU that holds the goal.
struct RankedPlan {
  Question question;  // with the replicas that fill the machine, and the concurrency of the point
  Point point;
  std::string reason;  // why it lost; of the first: empty
  std::string limit;   // what more clients do to it: "miss TTFT"; empty: they bring no more tokens/s
};
struct Frontier {
  Question question;
  Point point;
};

struct BestPlans {
  std::vector<RankedPlan> ranked;  // those that hold the goal, most tokens/s per GPU first
  std::vector<RankedPlan> lost;    // those that do not, or do not fit, with the reason
  std::vector<Frontier> frontier;  // no other point has more tokens/s per GPU and per user
  int tried = 0;                   // points
};

// What is looked at.
struct Space {
  Fixed fixed;
  std::vector<std::string> precisions;  // of weights; empty: that of the question's plan
  bool together = true, apart = true;   // one pool; prefill and decode apart
  std::optional<Plan> prefill;          // of prefill engines; none: every one
  bool batches = true;                  // other numbers of tokens an iteration, for the best plans
};

// All plans that fill the machine: tp, attention-DP and EP in powers of two, two pipeline stages where nothing else
// fits, but for the sizes that are fixed. Each with 1, 2, 4, … clients per engine up to `most`, then between the last
// that holds the goal and the first that does not. Pairs of pools are chosen by the model's estimate of their steps,
// the best few are served; then the best plans with other numbers of tokens an iteration. `question`: the model,
// engine, lengths and fixed sizes; its load is not looked at. `progress`: called before each plan; may be empty. Errors
// (bad input): no plan fits, with the reason.
Result<BestPlans> best_serving(Place& place, const Question& question, const Space& space, const Goal& goal,
                               std::int64_t most,
                               const std::function<void(std::size_t plan, std::size_t plans)>& progress);

}  // namespace weft::serving
