#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "base/units.h"

namespace weft::simulate {

// Something that repeats `count` times, and how long it takes: `run(n)` does it with n repetitions and returns a Result
// of something with members `time` and `represented` (steps, counted). Where it settles into a pace, in which every
// `period` more repetitions take equally long, the time of many follows from that of few. The last run's result, with
// the time of `count` repetitions; `shortened` says whether all were run.
//   The pace is believed when two successive periods differ by less than kSteady of a period; until then runs become
//   longer, up to all of it. The first ones are some periods long, or one that is long itself: slots and pipelines have
//   filled by then. A pace that goes up and down is believed on average: when of three runs, each twice as long as the
//   one before, both steps show the same to kSteadyOnAverage. Where runs cost much, single periods are looked at in the
//   shortest runs only (kAverage); where they cost too much, not at all: two lengths have to do (kTwoRuns), and
//   `unsure` grows to kOfTwoRuns. Such paces were 0.4 % off those of longer runs (all_reduce of 8 GiB on 64 nodes).
inline constexpr double kSteady = 1e-4, kSteadyOnAverage = 4e-3, kOfTwoRuns = 1e-2;
inline constexpr std::int64_t kFirstPeriods = 3, kFirstRepetitions = 64;
enum class Care : std::uint8_t { kPeriods, kAverage, kTwoRuns };

// What was left out.
struct Shortened {
  bool any = false;
  double unsure = 0;  // as a part of the time
};

// `care(result)` says how carefully to look, from the result of the shortest run.
template <class Run, class Carefully>
auto steadily(std::int64_t count, std::int64_t period, Shortened& shortened, Run&& run, Carefully&& care)
    -> decltype(run(count)) {
  const std::int64_t shortest = std::max(period, std::min(kFirstPeriods * period, kFirstRepetitions));
  struct Known {
    std::int64_t repetitions = 0;
    double seconds = 0, represented = 0;
  };
  const auto add = [&](auto& result, std::int64_t done, double of_period, double represented) {
    const auto more = static_cast<double>((count - done) / period);
    result.time += Duration::seconds(of_period * more);
    result.represented += represented * more;
    shortened.any = true;
  };
  const auto periods = [&](const Known& a, const Known& b) {
    return static_cast<double>((b.repetitions - a.repetitions) / period);
  };
  Known before, last;  // the first runs of the two lengths before
  Care careful = Care::kPeriods;
  for (std::int64_t warm = shortest;; warm *= 2) {
    const bool by_periods = 2 * (3 * warm + 6 * period) < count;
    const bool on_average = last.repetitions > 0 && 2 * warm < count;
    if (!by_periods && !on_average) return run(count);
    const std::int64_t first = warm + (count - warm) % period;
    WEFT_TRY(auto a, run(first));
    const Known known{first, a.time.s(), a.represented};
    const bool of_two = careful == Care::kTwoRuns;
    if (on_average && (of_two || before.repetitions > 0)) {
      const double pace = (known.seconds - last.seconds) / periods(last, known);
      const double earlier = of_two ? pace : (last.seconds - before.seconds) / periods(before, last);
      if (std::abs(pace - earlier) <= kSteadyOnAverage * std::abs(pace)) {
        add(a, first, pace, (known.represented - last.represented) / periods(last, known));
        if (of_two) shortened.unsure = std::max(shortened.unsure, kOfTwoRuns);
        return a;
      }
    }
    if (last.repetitions == 0) careful = care(a);
    const bool look = careful == Care::kPeriods || (careful == Care::kAverage && last.repetitions == 0);
    before = std::exchange(last, known);
    if (!by_periods || !look) continue;
    WEFT_TRY(const auto b, run(first + period));
    WEFT_TRY(auto c, run(first + 2 * period));
    const double earlier = (b.time - a.time).s(), pace = (c.time - b.time).s();
    if (std::abs(pace - earlier) > kSteady * std::abs(pace)) continue;
    add(c, first + 2 * period, pace, c.represented - b.represented);
    return c;
  }
}

}  // namespace weft::simulate
