#include "apps/serving/stable.h"

#include <algorithm>
#include <cmath>

namespace weft::serving {
namespace {

constexpr double kGrid = 1.01;        // steps of rates
constexpr double kMostGrowth = 0.02;  // of the number in the system, per request that comes
constexpr double kRounds = 6;         // answers' times that a run must last until its growth counts
constexpr std::int64_t kFewest = 1000, kMost = 64'000;
constexpr double kAtOnce = 1e6;        // requests/s
constexpr double kSurelyStable = 0.7;  // of the rate at which a queue is worked off
constexpr int kCoarse = 6;             // steps of kGrid

double d(std::int64_t n) { return static_cast<double>(n); }

// Mean number of requests in the system from `from` to `to`.
double in_system(const Run& run, double from, double to) {
  double inside = 0;
  for (const Request& r : run.done) inside += std::max(0.0, std::min(r.finished, to) - std::max(r.arrival, from));
  return inside / (to - from);
}

Result<bool> is_stable(const Serve& serve, const Load& like, double rate) {
  Load load = like;
  load.rate = rate, load.even = true, load.seed = 1, load.requests = kFewest;
  for (;; load.requests *= 2) {
    WEFT_TRY(const Run run, serve(load));
    double service = 0;
    for (const Request& r : run.done) service += r.finished - r.started;
    service /= std::max(1.0, d(std::ssize(run.done)));
    const double span = d(load.requests) / rate;
    const double growth = (in_system(run, 0.75 * span, span) - in_system(run, 0.5 * span, 0.75 * span)) / (span / 4);
    const bool stable = growth <= kMostGrowth * rate;
    if (stable || span > kRounds * service || load.requests >= kMost) return stable;
  }
}

// Requests/s that engines answer which have a queue from the beginning to the end: kFewest requests at once.
Result<double> drained(const Serve& serve, const Load& like) {
  Load load = like;
  load.rate = kAtOnce, load.even = true, load.seed = 1, load.requests = kFewest;
  WEFT_TRY(const Run run, serve(load));
  return d(std::ssize(run.done)) / std::max(run.seconds, 1e-9);
}

}  // namespace

// From there rates are tried upwards in coarse steps until one is unstable, then in fine ones. Where preemption begins
// some rates above an unstable one look stable for thousands of requests: they are never reached.
Result<std::optional<double>> largest_stable_rate(const Serve& serve, const Load& load) {
  WEFT_TRY(const double queued, drained(serve, load));
  double good = queued * kSurelyStable;
  if (load.rate <= good) return std::optional<double>();
  for (double next = good;; good = next) {
    next *= std::pow(kGrid, kCoarse);
    WEFT_TRY(const bool stable, is_stable(serve, load, next));
    if (!stable) break;
    if (next >= load.rate) return std::optional<double>();
  }
  for (int step = 1; step < kCoarse; ++step) {
    WEFT_TRY(const bool stable, is_stable(serve, load, good * kGrid));
    if (!stable) break;
    good *= kGrid;
  }
  return load.rate <= good ? std::optional<double>() : good;
}

std::optional<double> overloaded_by_trace(const Run& run) {
  double last = 0, service = 0;
  for (const Request& r : run.done) last = std::max(last, r.arrival), service += r.finished - r.started;
  const double n = d(std::ssize(run.done));
  if (n == 0 || run.seconds <= 1.15 * last + 3 * service / n) return std::nullopt;
  return n / run.seconds;
}

}  // namespace weft::serving
