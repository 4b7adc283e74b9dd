#include "apps/serving/stable.h"

#include <algorithm>
#include <cmath>

namespace weft::serving {
namespace {

constexpr double kGrid = 1.01;        // steps of rates
constexpr double kMostGrowth = 0.02;  // of the number in the system, per request that comes
constexpr double kRounds = 6;         // answers' times that a run must last until its growth counts
constexpr std::int64_t kFewest = 1000, kMost = 64'000;

double d(std::int64_t n) { return static_cast<double>(n); }

struct Probe {
  bool stable = true;
  double served = 0;  // requests/s in the second half
};

// Mean number of requests in the system from `from` to `to`.
double in_system(const Run& run, double from, double to) {
  double inside = 0;
  for (const Request& r : run.done) inside += std::max(0.0, std::min(r.finished, to) - std::max(r.arrival, from));
  return inside / (to - from);
}

Result<Probe> probe(const Serve& serve, const Load& like, double rate) {
  Load load = like;
  load.rate = rate, load.even = true, load.seed = 1, load.requests = kFewest;
  for (;; load.requests *= 2) {
    WEFT_TRY(const Run run, serve(load));
    double service = 0;
    for (const Request& r : run.done) service += r.finished - r.started;
    service /= std::max(1.0, d(std::ssize(run.done)));
    const double span = d(load.requests) / rate;
    const double growth = (in_system(run, 0.75 * span, span) - in_system(run, 0.5 * span, 0.75 * span)) / (span / 4);
    Probe found{.stable = growth <= kMostGrowth * rate};
    for (const Request& r : run.done) found.served += r.finished > span / 2 && r.finished <= span ? 2 / span : 0;
    if (found.stable || span > kRounds * service || load.requests >= kMost) return found;
  }
}

}  // namespace

Result<std::optional<double>> largest_stable_rate(const Serve& serve, const Load& load) {
  WEFT_TRY(const Probe asked, probe(serve, load, load.rate));
  if (asked.stable) return std::optional<double>();
  const auto rate_of = [](int step) { return std::pow(kGrid, step); };
  const auto step_of = [](double rate) { return static_cast<int>(std::floor(std::log(rate) / std::log(kGrid))); };
  int too_much = step_of(load.rate) + 1;
  int good = step_of(std::max(asked.served, load.rate * 1e-4) * 0.9);
  for (int less = 10;; less *= 2) {
    WEFT_TRY(const Probe low, probe(serve, load, rate_of(good)));
    if (low.stable || less > 1000) break;
    too_much = good, good -= less;
  }
  while (too_much - good > 1) {
    const int middle = (good + too_much) / 2;
    WEFT_TRY(const Probe between, probe(serve, load, rate_of(middle)));
    (between.stable ? good : too_much) = middle;
  }
  return std::optional<double>(std::min(rate_of(good), load.rate));
}

std::optional<double> overloaded_by_trace(const Run& run) {
  double last = 0, service = 0;
  for (const Request& r : run.done) last = std::max(last, r.arrival), service += r.finished - r.started;
  const double n = d(std::ssize(run.done));
  if (n == 0 || run.seconds <= 1.15 * last + 3 * service / n) return std::nullopt;
  return n / run.seconds;
}

}  // namespace weft::serving
