#include <algorithm>
#include <cmath>

#include "apps/serving/best_search.h"

namespace weft::serving {
namespace {

// A pair of pools with its decode engines full of `clients` each, and what it would give.
struct Pair {
  Question question;
  double rate = 0;  // requests/s of the whole machine
};

// The numbers of engines of one pair of pools that waste least, and as many pairs as the machine holds. `needed`:
// prefill engines beside each decode engine.
bool size(Question& q, double needed, Rank gpus) {
  constexpr int kMostDecodes = 6;
  constexpr double kShort = 0.05;  // of a prefill engine that may be missing
  double least = 0;
  int prefills = 0, decodes = 0;
  for (int d = 1; d <= kMostDecodes; ++d) {
    const int p = std::max(1, static_cast<int>(std::ceil(needed * d - kShort)));
    const Rank unit = p * q.prefill->gpus() + d * q.plan.gpus();
    if (unit > gpus) break;
    const double used = static_cast<double>(d) * (gpus / unit) / gpus;  // decode engines per GPU of the machine
    if (used > least * 1.01) least = used, prefills = p, decodes = d;
  }
  if (prefills == 0) return false;
  q.prefills = prefills, q.decodes = decodes;
  q.replicas = 1;
  q.replicas = gpus / q.unit();
  return true;
}

// The largest number of clients per decode engine that the goal for TPOT allows, by doubling.
std::optional<Pair> pair_of(Place& place, Question q, const Goal& goal, std::int64_t most) {
  std::optional<Pair> best;
  for (std::int64_t clients = 1; clients <= most; clients *= 2) {
    q.prefills = q.decodes = q.replicas = 1;
    q.load.concurrency = clients;
    const auto matched = match_prefills(place, q);
    if (!matched) break;
    const double tpot = matched->step / q.engine.tokens_per_step();
    if (goal.tpot > 0 && tpot > goal.tpot) break;
    if (goal.ttft > 0 && matched->reading > goal.ttft) break;
    if (!size(q, matched->prefills, place.gpus())) continue;
    const double rate = matched->rate * q.decodes * q.replicas;
    if (!best || rate > best->rate) best = Pair{q, rate};
  }
  return best;
}

}  // namespace

std::vector<Question> pairs_of_pools(Place& place, const Question& asked, const std::vector<Plan>& decodes,
                                     const std::vector<Plan>& prefills, const Goal& goal, std::int64_t most,
                                     std::size_t count) {
  std::vector<Pair> pairs;
  for (const Plan& decode : decodes)
    for (const Plan& prefill : prefills) {
      if (decode.precision != prefill.precision || decode.gpus() + prefill.gpus() > place.gpus()) continue;
      Question q = asked;
      q.plan = decode, q.prefill = prefill;
      if (auto pair = pair_of(place, std::move(q), goal, most)) pairs.push_back(std::move(*pair));
    }
  std::ranges::stable_sort(pairs, std::greater<>(), &Pair::rate);
  std::vector<Question> questions;
  for (Pair& pair : pairs)
    if (questions.size() < count) questions.push_back(std::move(pair.question));
  return questions;
}

}  // namespace weft::serving
