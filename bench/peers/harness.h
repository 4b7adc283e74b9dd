// One way of measuring for every library that bench/peers compares with weft.
//
// A point is one collective at one size. Per point: one checked operation; then calibration, which also warms up: ever
// longer runs until one is long enough; then R runs of N back-to-back operations. A barrier stands before each run and
// none inside it. A run's time is the slowest rank's time divided by N. Printed are the median and
// the least of the R runs, as one line of tab-separated values per point, by rank 0, as soon as the point is done.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace peers {

struct Options {
  std::string collective = "all_reduce";
  std::vector<std::size_t> sizes;  // bytes of the larger side of the collective, multiples of 4
  double run_s = 0.003;            // aimed length of one run
  double point_s = 0.15;           // aimed length of all runs of one point
  std::size_t runs = 9;            // R; fewer (at least 3) where they would not fit into point_s
};

// What one operation works on. Buffers hold `count` floats; of the smaller side only the first `count / ranks` are
// used. In place means: as the library defines it for this collective; `in` is then unused.
struct Point {
  std::string collective;
  bool in_place;
  std::size_t count;  // floats of the larger side
  float* in;
  float* out;
};

// A library under measurement, as one rank sees it. All ranks call the same functions in the same order.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual void barrier() = 0;
  virtual double max(double value) = 0;  // over all ranks, known to all
  // The operation, ready to be called many times; empty where the library does not offer it.
  virtual std::function<void()> operation(const Point& point) = 0;
};

// Small whole numbers, so that every sum is exact in any order.
inline float contribution(int rank, std::size_t i) {
  return static_cast<float>(i % 61 + static_cast<std::size_t>(rank) + 1);
}
inline float sum_of_contributions(int ranks, std::size_t i) {
  return static_cast<float>(ranks) * static_cast<float>(i % 61) + static_cast<float>(ranks * (ranks + 1) / 2);
}

// Puts this rank's contribution where the operation reads it.
inline void fill(const Point& point, int rank, int ranks) {
  const std::size_t part = point.count / static_cast<std::size_t>(ranks);
  std::fill(point.out, point.out + point.count, -1.0F);
  float* to = point.in_place ? point.out : point.in;
  std::size_t floats = point.count;
  if (point.collective == "all_gather") {
    floats = part;
    if (point.in_place) to += static_cast<std::size_t>(rank) * part;
  }
  for (std::size_t i = 0; i < floats; ++i) to[i] = contribution(rank, i);
}

// How many floats of this rank's result are wrong.
inline std::size_t wrong(const Point& point, int rank, int ranks) {
  const std::size_t part = point.count / static_cast<std::size_t>(ranks);
  const std::size_t floats = point.collective == "reduce_scatter" ? part : point.count;
  std::size_t errors = 0;
  for (std::size_t i = 0; i < floats; ++i) {
    float expected = 0;
    if (point.collective == "all_reduce") expected = sum_of_contributions(ranks, i);
    if (point.collective == "reduce_scatter")
      expected = sum_of_contributions(ranks, static_cast<std::size_t>(rank) * part + i);
    if (point.collective == "all_gather") expected = contribution(static_cast<int>(i / part), i % part);
    if (point.collective == "broadcast") expected = contribution(0, i);
    if (point.collective == "all_to_all")
      expected = contribution(static_cast<int>(i / part), static_cast<std::size_t>(rank) * part + i % part);
    if (point.collective == "send_recv") expected = contribution((rank + ranks - 1) % ranks, i);
    if (point.out[i] != expected) ++errors;
  }
  return errors;
}

// The slowest rank's seconds per operation over `iterations` operations.
inline double timed_run(Peer& peer, const std::function<void()>& operation, long iterations) {
  using Clock = std::chrono::steady_clock;
  peer.barrier();
  const auto start = Clock::now();
  for (long i = 0; i < iterations; ++i) operation();
  const std::chrono::duration<double> took = Clock::now() - start;
  return peer.max(took.count()) / static_cast<double>(iterations);
}

// The kernel spreads new processes over the cores within a tenth of a second or two; `weft bench` waits as long.
inline void settle(Peer& peer, const std::function<void()>& operation) {
  long n = 1;
  for (double seconds = 0.2; seconds > 0; n = std::min(2 * n, 1000L))
    seconds -= timed_run(peer, operation, n) * static_cast<double>(n);
}

inline void measure_point(Peer& peer, const Options& options, const Point& point, bool first) {
  const auto operation = peer.operation(point);
  if (!operation) return;
  fill(point, peer.rank(), peer.ranks());
  peer.barrier();
  operation();
  const double errors = peer.max(static_cast<double>(wrong(point, peer.rank(), peer.ranks())));
  // Zeros from here on: sums in place would otherwise grow without bound.
  std::fill(point.in, point.in + point.count, 0.0F);
  std::fill(point.out, point.out + point.count, 0.0F);
  if (first) settle(peer, operation);

  // The least of a few attempts: one preempted operation must not pass for a slow one. All ranks see the same times.
  long iterations = 1;
  double each = 0;
  for (;;) {
    each = timed_run(peer, operation, iterations);
    double spent = each * static_cast<double>(iterations);
    for (int attempt = 1; attempt < 4 && spent < options.point_s; ++attempt) {
      const double again = timed_run(peer, operation, iterations);
      spent += again * static_cast<double>(iterations);
      each = std::min(each, again);
    }
    if (each * static_cast<double>(iterations) > options.run_s / 2 || iterations >= (1L << 20)) break;
    iterations *= 2;
  }
  iterations = std::max(1L, static_cast<long>(options.run_s / each));

  std::vector<double> times;
  double spent = 0;
  while (times.size() < 3 || (times.size() < options.runs && spent < options.point_s)) {
    times.push_back(timed_run(peer, operation, iterations));
    spent += times.back() * static_cast<double>(iterations);
  }
  std::sort(times.begin(), times.end());
  const std::size_t half = times.size() / 2;
  const double median = times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2;
  if (peer.rank() == 0) {
    std::printf("%s\t%s\t%zu\t%ld\t%zu\t%.4f\t%.4f\t%.0f\n", point.collective.c_str(), point.in_place ? "in" : "out",
                point.count * sizeof(float), iterations, times.size(), median * 1e6, times[0] * 1e6, errors);
    std::fflush(stdout);
  }
}

inline void measure(Peer& peer, const Options& options) {
  const std::size_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
  std::vector<float> in(largest / sizeof(float));
  std::vector<float> out(largest / sizeof(float));
  bool first = true;
  for (const std::size_t bytes : options.sizes)
    for (const bool in_place : {false, true}) {
      measure_point(peer, options, {options.collective, in_place, bytes / sizeof(float), in.data(), out.data()}, first);
      first = false;
    }
}

// Reads --collective C, --sizes 8,1024,…, --run-ms X, --point-s X, --runs N; every other argument is left in `rest`.
inline Options read_options(int argc, char** argv, std::vector<std::string>* rest) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--collective") {
      options.collective = value;
    } else if (name == "--sizes") {
      for (const char* at = value; *at != '\0';) {
        char* end = nullptr;
        options.sizes.push_back(std::strtoull(at, &end, 10));
        at = *end == ',' ? end + 1 : end + std::strlen(end);
      }
    } else if (name == "--run-ms") {
      options.run_s = std::atof(value) / 1e3;
    } else if (name == "--point-s") {
      options.point_s = std::atof(value);
    } else if (name == "--runs") {
      options.runs = std::strtoull(value, nullptr, 10);
    } else {
      rest->push_back(name);
      continue;
    }
    ++i;
  }
  if (options.sizes.empty()) {
    std::fprintf(stderr, "%s: --sizes is missing\n", argv[0]);
    std::exit(2);
  }
  return options;
}

}  // namespace peers
