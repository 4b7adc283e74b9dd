#include "apps/serving/faults.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/serving/stable.h"
#include "apps/training/trouble.h"
#include "base/counted.h"

namespace weft::serving {
namespace {

// Ranks of the machine that are gone, by their devices' names.
std::vector<Rank> gone(const cost::MachineView& before, const cost::MachineView& after) {
  std::set<std::string> names;
  for (Rank r = 0; r < after.endpoints(); ++r) names.insert(after.topology().name_of(after.device(r)));
  std::vector<Rank> ranks;
  for (Rank r = 0; r < before.endpoints(); ++r)
    if (!names.contains(before.topology().name_of(before.device(r)))) ranks.push_back(r);
  return ranks;
}

// Engines that have one of these ranks.
std::set<int> engines_of(const std::vector<Rank>& ranks, const Question& q) {
  std::set<int> engines;
  for (const Rank r : ranks)
    if (const int engine = r / q.plan.gpus(); engine < q.replicas) engines.insert(engine);
  return engines;
}

struct Slowed {
  std::set<int> engines;
  double factor = 1;  // of computing, of the slowest rank
};

Slowed slowed_by(const cost::MachineView& machine, const training::Trouble& trouble, const Question& q) {
  std::vector<Rank> ranks;
  Slowed found;
  for (Rank r = 0; r < machine.endpoints(); ++r) {
    const int node = machine.topology().device(machine.device(r)).node;
    if (std::ranges::find(trouble.nodes, node) != trouble.nodes.end()) ranks.push_back(r);
    const auto i = static_cast<std::size_t>(r);
    if (i >= trouble.slow_rank.size() || trouble.slow_rank[i] <= 1) continue;
    ranks.push_back(r);
    found.factor = std::max(found.factor, trouble.slow_rank[i]);
  }
  found.engines = engines_of(ranks, q);
  return found;
}

Quantiles mixed(const Quantiles& a, const Quantiles& b, double share_of_b) {
  const auto mean = [&](double x, double y) { return (1 - share_of_b) * x + share_of_b * y; };
  // The slower engines' requests are the last ones, where they are enough.
  const auto tail = [&](double x, double y, double part) { return share_of_b > part ? std::max(x, y) : x; };
  return {mean(a.mean, b.mean), tail(a.median, b.median, 0.5), tail(a.p90, b.p90, 0.1), tail(a.p99, b.p99, 0.01)};
}

// The largest rate that one engine keeps up with.
Result<double> capacity_of(Place& place, Question one) {
  one.replicas = 1;
  for (one.load.rate = std::max(one.load.rate, 1.0) * 4;; one.load.rate *= 8) {
    WEFT_TRY(const Point p, answer(place, one));
    if (p.stable_rate) return *p.stable_rate;
    if (one.load.rate > 1e7) return one.load.rate;
  }
}

Status add_recovery(Place& place, const Question& q, double restart, Faulted& f) {
  Question one = q;
  one.load.rate = q.load.rate / q.replicas;
  WEFT_TRY(const double capacity, capacity_of(place, one));
  f.waiting = std::max(0.0, q.load.rate - capacity * (f.engines - f.lost)) * restart;
  const double spare = capacity * f.engines - q.load.rate;
  f.empty_again = spare > 0 ? restart + f.waiting / spare : -1;
  return {};
}

}  // namespace

Result<Faulted> answer_with_faults(const cost::MachineView& machine, const Question& asked,
                                   std::span<const std::string> faults, double restart) {
  if (asked.prefill) return bad_input("--fault: engines of one pool, no --prefill");
  WEFT_TRY(const training::Trouble trouble, training::trouble_of(machine, faults));
  WEFT_TRY(Place place, Place::open(machine));
  Faulted f{.engines = asked.replicas};
  WEFT_TRY(f.whole, answer(place, asked));
  const std::set<int> lost = engines_of(gone(machine, trouble.machine), asked);
  f.lost = static_cast<int>(lost.size());
  Slowed slowed = slowed_by(machine, trouble, asked);
  for (const int engine : lost) slowed.engines.erase(engine);
  f.slowed = static_cast<int>(slowed.engines.size());
  if (f.lost == f.engines)
    return bad_input("--fault {}: none of {} is left", fmt::join(faults, " "), counted(f.engines, "engine"));
  Question q = asked;
  q.replicas = f.engines - f.lost;
  WEFT_TRY(f.left, answer(place, q));
  f.slow = f.left;
  if (f.slowed > 0) {
    WEFT_TRY(Place broken, Place::open(trouble.machine, trouble.nodes));
    q.slow = slowed.factor;
    // One of the slowed engines with its share: the machine that is left may be too small for all that there were.
    Question one = q;
    one.replicas = 1;
    one.load.rate /= q.replicas;
    if (one.load.concurrency > 0) one.load.concurrency = (q.load.concurrency + q.replicas - 1) / q.replicas;
    WEFT_TRY(f.slow, answer(broken, one));
  }
  const double share = static_cast<double>(f.slowed) / q.replicas;
  f.ttft = mixed(f.left.ttft, f.slow.ttft, share);
  f.tpot = mixed(f.left.tpot, f.slow.tpot, share);
  const double now = (1 - share) * f.left.tokens_per_gpu + share * f.slow.tokens_per_gpu;
  // Clients are simulated in whole numbers per engine; no more of them ask than there are.
  const auto asking = [&](int engines) {
    const auto clients = static_cast<double>(asked.load.concurrency);
    return clients > 0 ? clients / (std::ceil(clients / engines) * engines) : 1;
  };
  f.tokens = now * q.replicas * asking(q.replicas) / (f.whole.tokens_per_gpu * f.engines * asking(f.engines));
  if (asked.load.rate > 0 && f.lost > 0) WEFT_CHECK(add_recovery(place, asked, restart, f));
  return f;
}

}  // namespace weft::serving
