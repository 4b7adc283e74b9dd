#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/serving/best.h"

// Used by best_serving.
namespace weft::serving {

// One plan with more and more clients.
class Search {
 public:
  Search(Place& place, Question question, const Goal& goal, std::int64_t most, BestPlans& found)
      : place_(place), q_(std::move(question)), goal_(goal), most_(most), found_(found) {}

  // 1, 2, 4, … clients per replica, then between the last that holds the goal and the first that does not. `beaten`:
  // tokens/s per GPU that another plan has already.
  RankedPlan run(double beaten);
  bool fits() const { return fits_; }
  bool good() const { return best_.has_value(); }

 private:
  std::optional<Point> ask(std::int64_t clients);
  void between(std::int64_t good, std::int64_t bad);
  std::string missed(const Point& point) const;

  Place& place_;
  Question q_;
  Goal goal_;
  std::int64_t most_;
  BestPlans& found_;
  std::optional<RankedPlan> best_;
  std::string reason_, limit_;
  bool fits_ = false;
};

// Pairs of pools for prefill and decode that fill the machine, by an estimate of their steps: the best `count`. Each
// question has its plans, engines and replicas. `decodes`: plans of decode engines.
std::vector<Question> pairs_of_pools(Place& place, const Question& asked, const std::vector<Plan>& decodes,
                                     const std::vector<Plan>& prefills, const Goal& goal, std::int64_t most,
                                     std::size_t count);

// Tokens/s of the whole machine for each of its GPUs, those that the plan leaves idle included.
double of_machine(const Place& place, const RankedPlan& plan);

}  // namespace weft::serving
